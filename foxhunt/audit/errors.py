"""The auditor's own error, so that the package needs torch and nothing else of foxhunt."""


class AuditError(Exception):
    """The audit cannot be run as asked; the message names the argument or file, and the remedy."""
