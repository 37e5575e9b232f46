"""One operation of the program, with everything the rules ask of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from torch import Tensor

from foxhunt.audit.frames import Stack
from foxhunt.audit.memory import Cell
from foxhunt.audit.transfer import Call

SHAPE_ONLY: Final = frozenset(
    {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"}
    | {"new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"}
)
"""Operations that take a tensor for its shape and type alone."""


@dataclass(slots=True)
class Operation:
    """A dispatched operation: its arguments by name, their cells, the calls under both lenses, the reads of T in it."""

    name: str
    stack: Stack
    arguments: dict[str, Any]
    mutated: list[str]
    is_view: bool
    tensors: list[tuple[str, Tensor]]
    cells: dict[int, Cell]
    calls: tuple[Call, Call] | None = None
    reads: list[str] = field(default_factory=list)

    @property
    def custom(self) -> bool:
        """Whether this is not an operator of torch's own."""
        return "::" in self.name

    @property
    def sources(self) -> frozenset[str]:
        """The reads of T that the result comes from."""
        if self.name in SHAPE_ONLY:
            return frozenset()
        # Only operands that the change of range alters carry blame; beside them the others are bystanders.
        changed = [cell for cell in self.cells.values() if cell.assume is not cell.becomes] or self.cells.values()
        return frozenset().union(*(cell.sources for cell in changed), self.reads)


def describe(
    function: Any, args: Any, kwargs: dict[str, Any], stack: Stack, read: Callable[[Tensor], Cell]
) -> Operation:
    """Bind the arguments of a dispatched operator to their names and look their cells up."""
    schema = function._schema
    arguments = {spec.name: value for spec, value in zip(schema.arguments, args, strict=False)} | kwargs
    name = base_name(function)
    if name == "cat":
        arguments["_lengths"] = [item.shape[int(arguments.get("dim", 0))] for item in arguments["tensors"]]
    mutated = [spec.name for spec in schema.arguments if spec.alias_info and spec.alias_info.is_write]
    is_view = not mutated and any(spec.alias_info is not None for spec in schema.returns)
    tensors = list(_named_tensors(arguments))
    return Operation(name, stack, arguments, mutated, is_view, tensors, {id(item): read(item) for _, item in tensors})


def base_name(function: Any) -> str:
    """`aten::add_.Tensor` -> `add`; other namespaces keep theirs."""
    schema: str = function._schema.name
    namespace, _, name = schema.partition("::")
    if namespace not in ("aten", "prims"):
        return schema
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _named_tensors(arguments: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, found in arguments.items():
        if isinstance(found, Tensor):
            yield name, found
        elif isinstance(found, list | tuple):
            yield from ((name, item) for item in found if isinstance(item, Tensor))


@cache
def python_body(name: str) -> Callable[..., Any] | None:
    """The Python implementation of a `torch.library.custom_op`, None where there is none to step into."""
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return None
    return getattr(OPDEFS.get(name), "_init_fn", None)
