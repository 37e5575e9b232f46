"""An operation as abstract interpretation sees it, and the table that its meaning is registered in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from foxhunt.audit import domain
from foxhunt.audit.domain import TOP, Value


@dataclass(frozen=True)
class Call:
    """One operation under one lens: its name without overload, its arguments by name, tensors replaced by values."""

    name: str
    arguments: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]

    def value(self, name: str, default: float | None = None) -> Value:
        """The argument as a value; a number becomes a constant."""
        found = self.arguments.get(name, default)
        if isinstance(found, Value):
            return found
        if isinstance(found, bool | int | float):
            return domain.constant(float(found))
        return TOP

    def values(self, name: str) -> list[Value]:
        """The tensors of a list argument."""
        found = self.arguments.get(name, ())
        return [item for item in found if isinstance(item, Value)] if isinstance(found, Sequence) else []

    def number(self, name: str, default: float) -> float:
        """A scalar argument; `default` where it is left out or a tensor of unknown value."""
        found = self.arguments.get(name, default)
        if isinstance(found, Value):
            return default if found.constant is None else found.constant
        return float(found) if isinstance(found, bool | int | float) else default

    @property
    def first(self) -> Value:
        """The operation's first tensor, whatever its name."""
        for found in self.arguments.values():
            if isinstance(found, Value):
                return found
            if isinstance(found, list | tuple) and (tensors := [item for item in found if isinstance(item, Value)]):
                return domain.join(tensors)
        return TOP


Transfer = Callable[[Call], Value | list[Value]]
TABLE: Final[dict[str, Transfer]] = {}


def meaning_of(*names: str) -> Callable[[Transfer], Transfer]:
    def register(function: Transfer) -> Transfer:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return register
