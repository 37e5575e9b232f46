"""The auditor: what breaks when a tensor's range changes. Imports torch and nothing else of foxhunt."""

from foxhunt.audit.api import audit, audit_spec
from foxhunt.audit.errors import AuditError
from foxhunt.audit.report import Report
from foxhunt.audit.spec import Consumer, Spec

__all__ = ["AuditError", "Consumer", "Report", "Spec", "audit", "audit_spec"]
