"""The auditor: what breaks when a tensor's range changes. Imports torch and nothing else of foxhunt."""
