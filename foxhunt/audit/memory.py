"""Which abstract value lies where: tensors are followed by storage, so views and in-place writes stay tied to it."""

from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from foxhunt.audit import domain
from foxhunt.audit.domain import TOP, Value
from foxhunt.audit.frames import Frame, Stack
from foxhunt.audit.ranges import TINY

LENSES: Final = ("assume", "becomes")
"""The two readings of the program: T as it was assumed, and T as it becomes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value under both lenses, and the reads of T that it comes from."""

    assume: Value = TOP
    becomes: Value = TOP
    sources: frozenset[str] = frozenset()

    @property
    def values(self) -> tuple[Value, Value]:
        """The value under each lens, in the order of `LENSES`."""
        return self.assume, self.becomes


@dataclass(slots=True)
class Member:
    """A tensor that counts as T (or as T's gradient): which locator found it, who made it, what it held."""

    locator: str
    kind: str
    primary: bool
    derived: bool
    frame: Frame
    maker: Stack | None
    operation: str
    made_low: float
    measured_low: float


@dataclass(slots=True)
class Storage:
    """One block of memory; `handle` keeps it alive, so that its address means this block for the whole run."""

    handle: object
    whole: Cell
    views: dict[tuple[Any, ...], Cell] = field(default_factory=dict)
    member: Member | None = None
    maker: Stack | None = None
    operation: str = ""


def observe(tensor: Tensor) -> Value:
    """What may be said of a tensor that the traced program did not make: a parameter may take any value, of data and
    buffers the sign is taken as given, a scalar by value."""
    if isinstance(tensor, torch.nn.Parameter) or tensor.requires_grad or tensor.numel() == 0 or tensor.is_complex():
        return TOP
    if tensor.dtype == torch.bool:
        return domain.UNIT
    if tensor.layout != torch.strided:
        return TOP
    low, high = (float(value) for value in torch.aminmax(tensor.detach().float()))
    if low == high:
        return domain.constant(low)
    return Value(TINY if low > 0 else 0.0) if low >= 0 else TOP


class Memory:
    """Abstract contents of every storage that a run touches."""

    def __init__(self) -> None:
        self._storages: dict[int, Storage] = {}

    def find(self, tensor: Tensor) -> Storage | None:
        """The record of a tensor's storage, None before it is seen."""
        return self._storages.get(_address(tensor))

    def storage(self, tensor: Tensor) -> Storage:
        """The record of a tensor's storage, made on first sight."""
        key = _address(tensor)
        if key not in self._storages:
            value = observe(tensor)
            handle: object = tensor.untyped_storage() if tensor.layout == torch.strided else tensor
            self._storages[key] = Storage(handle, Cell(value, value))
        return self._storages[key]

    def read(self, tensor: Tensor) -> Cell:
        """The cell of a tensor; of an unknown view, what covers its whole storage."""
        storage = self.storage(tensor)
        found = storage.views.get(_place(tensor))
        if found is None:
            whole = storage.whole
            found = Cell(whole.assume.plain(), whole.becomes.plain(), whole.sources)
        return found

    def write(self, tensor: Tensor, cell: Cell) -> None:
        """Store a cell after the tensor was made or written in place."""
        storage = self.storage(tensor)
        cell = rooted(cell)
        if (
            tensor.layout != torch.strided
            or tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes()
        ):
            storage.whole, storage.views = cell, {}
        else:
            joined = [domain.join([old, new]) for old, new in zip(storage.whole.values, cell.values, strict=True)]
            storage.whole = Cell(joined[0], joined[1], storage.whole.sources | cell.sources)
            storage.views = {}
        storage.views[_place(tensor)] = cell

    def view(self, tensor: Tensor, cell: Cell) -> None:
        """Note what a view of known memory holds."""
        self.storage(tensor).views.setdefault(_place(tensor), cell)


def rooted(cell: Cell) -> Cell:
    """The cell with relations to itself; one object for both lenses where they agree."""
    assume = cell.assume.rooted()
    return Cell(assume, assume if cell.becomes is cell.assume else cell.becomes.rooted(), cell.sources)


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def _place(tensor: Tensor) -> tuple[Any, ...]:
    if tensor.layout != torch.strided:
        return ()
    return (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
