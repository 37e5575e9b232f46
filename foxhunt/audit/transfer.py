"""What every aten operation does to abstract values; an operation without an entry yields `TOP`."""

from foxhunt.audit import arithmetic, movement
from foxhunt.audit.calls import TABLE, Call
from foxhunt.audit.domain import TOP, Value

__all__ = ["TABLE", "Call", "apply", "arithmetic", "movement"]


def apply(call: Call) -> Value | list[Value]:
    """The abstract result (one per returned tensor) of an operation."""
    function = TABLE.get(call.name)
    return TOP if function is None else function(call)
