"""The eager trace: every operation of a run, what it reads of T, and what both lenses say of it."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from foxhunt.audit import transfer
from foxhunt.audit.domain import NONNEGATIVE, TOP, Value
from foxhunt.audit.events import FunctionCall, Read, Trace, backward_code
from foxhunt.audit.follow import Place
from foxhunt.audit.frames import Stack, local_names, walk
from foxhunt.audit.memory import Cell, Member, Memory
from foxhunt.audit.operation import SHAPE_ONLY, Operation, describe, python_body
from foxhunt.audit.ranges import Range
from foxhunt.audit.transfer import Call
from foxhunt.audit.transforms import outside_transforms, unwrapped
from foxhunt.audit.watch import COMPARISONS, SAMPLERS, Suspects, Watch, root_mean_square

_COPIES: Final = frozenset({"clone", "copy", "index_put", "_to_copy", "contiguous", "slice_scatter"})
_ESCAPES: Final = ("tolist", "numpy", "data_ptr", "__array__", "__dlpack__")

Substitute = Callable[[Tensor, float], Tensor | None]
"""Given T and the RMS it was first made with: the values to put in its place, None to leave it."""


class Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hook untyped
    """Runs under the program, fills a `Trace`; `run` names this run in the measurements."""

    def __init__(self, trace: Trace, run: str, ranges: tuple[Range, Range], substitute: Substitute) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.trace, self._substitute = trace, substitute
        self.memory = Memory()
        self.watch = Watch(trace, run, self._member)
        self.module_names: dict[int, str] = {}
        self._lens_values = tuple(Value(item.low, item.high) for item in ranges)
        self._forward: dict[int, Stack] = {}
        self._made_rms = self._newest_rms = 0.0
        self._first: dict[str, tuple[str, set[tuple[str, str, str]]]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave this mode unwrapped: the wrapper would import the compiler, which takes seconds."""
        return False

    def notice(self, tensor: Tensor, place: Place) -> None:
        """Called when a place holds a tensor: it is T from now on."""
        with outside_transforms():
            self._notice(unwrapped(tensor), place)

    def _notice(self, tensor: Tensor, place: Place) -> None:
        storage = self.memory.storage(tensor)
        if place.kind == "beside":
            self._beside(tensor, place, storage.maker)
            return
        if storage.member is not None and place.primary and not storage.member.primary:
            # Another place found it first, but this is the one whose producer changes.
            self.trace.members.remove(storage.member)
        elif storage.member is not None or not (tensor.is_floating_point() or tensor.is_complex()):
            return
        cell = self.memory.read(tensor)
        derived = bool(cell.sources)
        stack = storage.maker or walk(sys._getframe(2), self.module_names)
        frame = next((item for item in stack.frames if place.holds(item)), stack.top)
        # A module of torch's own making (nn.Sequential) has no line of its own: its operations tell programs apart.
        operation = storage.operation if stack.module and frame is stack.top else ""
        if place.primary and place.kind == "tensor" and not derived:
            self.trace.programs.add((frame.file, frame.function, operation))
        made_by = {(item.file, item.function, mark) for item in stack.frames for mark in ("", operation)}
        changes = place.primary and (derived or self._is_same_program(place, stack, storage.operation))
        primary = (
            place.kind != "tensor" or changes or derived or bool(not place.primary and made_by & self.trace.programs)
        )
        low = float(tensor.detach().min()) if tensor.numel() else 0.0
        storage.member = Member(
            place.text, place.kind, primary, derived, frame, storage.maker, storage.operation, cell.assume.low, low
        )
        self.trace.members.append(storage.member)
        if place.kind == "tensor" and primary:
            self.memory.write(tensor, Cell(self._lens_values[0], self._lens_values[1], cell.sources))
            self._replace(tensor)

    def _is_same_program(self, place: Place, stack: Stack, operation: str) -> bool:
        """Whether every model that runs through a place makes T there by the same operation of the same function; the
        model that came first decides."""
        root = stack.modules[-1].partition(".")[0] if stack.modules else ""
        program = (stack.top.file, stack.top.function, operation)
        first_root, programs = self._first.setdefault(place.text, (root, set()))
        if root == first_root:
            programs.add(program)
        return program in programs

    def _replace(self, tensor: Tensor) -> None:
        with torch.no_grad(), torch._C._DisableTorchDispatch():
            self._made_rms = self._made_rms or root_mean_square(tensor)
            values = self._substitute(tensor, self._made_rms)
            if values is not None:
                # `.data` leaves the version counter alone: to autograd nothing has happened.
                tensor.data.copy_(values)
            self._newest_rms = root_mean_square(tensor)

    def _beside(self, tensor: Tensor, place: Place, maker: Stack | None) -> None:
        """Compare a tensor that is read beside T with the T that was made last."""
        stack = maker or walk(sys._getframe(3), self.module_names)
        while stack.frames and not place.holds(stack.top) and any(place.holds(frame) for frame in stack.frames):
            stack = replace(stack, frames=stack.frames[1:])
        with torch.no_grad(), torch._C._DisableTorchDispatch():
            self.watch.beside(stack, place.variable or place.text, self._newest_rms, tensor)

    def _renew(self, name: str, tensor: Tensor, member: Member | None, sources: frozenset[str]) -> None:
        """T's own buffer was overwritten with new content: that is T again."""
        if name == "copy" and member is not None and member.kind == "tensor" and member.primary:
            self.memory.write(tensor, Cell(self._lens_values[0], self._lens_values[1], sources))
            self._replace(tensor)

    def called(self, function: type[torch.autograd.Function], arguments: tuple[Any, ...]) -> None:
        """Called at each call of a custom autograd function."""
        arguments = tuple(unwrapped(item) if isinstance(item, Tensor) else item for item in arguments)
        with outside_transforms():
            self._called(function, arguments)

    def _called(self, function: type[torch.autograd.Function], arguments: tuple[Any, ...]) -> None:
        reads = tuple(i for i, item in enumerate(arguments) if isinstance(item, Tensor) and self._member(item))
        code = backward_code(function)
        known = self.trace.functions.get(code)
        if known is None or len(reads) > len(known.reads):
            copied = tuple(item.detach().clone() if isinstance(item, Tensor) else item for item in arguments)
            self.trace.functions[code] = FunctionCall(function, copied, reads)

    def _holds(self, item: object, member: Member) -> bool:
        known = self.memory.find(unwrapped(item)) if isinstance(item, Tensor) else None
        return known is not None and known.member is member

    def _member(self, tensor: Tensor) -> Member | None:
        return self.memory.storage(tensor).member

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        stack = walk(sys._getframe(1), self.module_names)
        self._note(stack)
        operation = describe(func, args, kwargs, stack, self.memory.read)
        operation.reads = self._reads(operation)
        operation.calls = calls = self._calls(operation)
        suspects = self.watch.suspects(operation)
        before = operation.arguments
        if suspects and operation.mutated:
            before = {key: item.detach().clone() if isinstance(item, Tensor) else item for key, item in before.items()}
        output = self._execute(func, operation, args, kwargs, suspects)
        mark = self.watch.measure(suspects, before, output)
        assume = transfer.apply(calls[0])
        self._store(operation, output, assume, assume if calls[1] is calls[0] else transfer.apply(calls[1]), mark)
        return output

    def _note(self, stack: Stack) -> None:
        """Count the operation, and remember which line made the autograd node that is being built."""
        if not stack.own:
            self.trace.operations += 1
            self.trace.located += bool(stack.frames) or stack.native
        if not stack.in_backward and torch.is_grad_enabled():
            number: int = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]  # private, pinned by a test
            self._forward.setdefault(number - 1, stack)

    def _calls(self, operation: Operation) -> tuple[Call, Call]:
        shapes = {name: tuple(item.shape) for name, item in operation.arguments.items() if isinstance(item, Tensor)}
        same = all(cell.assume is cell.becomes for cell in operation.cells.values()) and not self.watch.scalars
        calls = []
        for lens in (0,) if same else (0, 1):
            values = {name: self._lens(item, operation, lens) for name, item in operation.arguments.items()}
            calls.append(Call(operation.name, values, shapes))
        return calls[0], calls[-1]

    def _lens(self, found: Any, operation: Operation, lens: int) -> Any:
        if isinstance(found, Tensor):
            return operation.cells[id(found)].values[lens]
        if isinstance(found, list | tuple):
            return [self._lens(item, operation, lens) for item in found]
        if isinstance(found, float) and found in self.watch.scalars:
            return self.watch.scalars[found].values[lens].plain()
        return found

    def _reads(self, operation: Operation) -> list[str]:
        if operation.is_view or operation.name in SHAPE_ONLY:
            return []
        found = []
        for argument, tensor in operation.tensors:
            member = self._member(tensor)
            overwritten = argument in operation.mutated and operation.name in ("copy", "fill", "zero")
            if member is not None and not (overwritten and member.kind == "tensor"):
                found.append(self._read(operation.name, operation.stack, member, tensor.requires_grad))
        return [key for key in found if key]

    def _read(self, name: str, stack: Stack, member: Member, trains: bool) -> str:
        if stack.native:
            node = torch._C._current_autograd_node()
            forward = self._forward.get(node._sequence_nr()) if node is not None else None
            read = self.trace.reads.get(forward.key) if forward is not None else None
            if read is not None and name not in read.derivatives:
                read.derivatives.append(name)
            return ""
        key = stack.key
        if stack.own:
            return ""
        if key not in self.trace.reads:
            self.trace.reads[key] = Read(key, stack, member.kind)
        read = self.trace.reads[key]
        read.stacks.setdefault(stack, _phase(name, stack, trains))
        read.recomputed |= stack.recomputed
        if name not in read.operations:
            read.operations.append(name)
        if member.kind == "tensor":
            read.kind = "tensor"
            read.names |= local_names(sys._getframe(2), stack.top, lambda item: self._holds(item, member))
            return key
        return ""

    def escape(self, name: str, tensor: Tensor) -> None:
        """T leaves for code that cannot be followed."""
        tensor = unwrapped(tensor)
        member = self._member(tensor)
        if member is None or member.kind != "tensor":
            return
        stack = walk(sys._getframe(2), self.module_names)
        if key := self._read(name, stack, member, tensor.requires_grad):
            self.watch.finding("opaque", name, stack, (0, 2), {key})

    def _execute(self, func: Any, operation: Operation, args: Any, kwargs: dict[str, Any], suspects: Suspects) -> Any:
        if operation.custom and (body := python_body(operation.name)) is not None:
            with self:
                return body(*args, **kwargs)
        try:
            return func(*args, **kwargs)
        except (RuntimeError, IndexError) as error:
            sampler = next((finding for hazard, finding in suspects if hazard.rule in SAMPLERS), None)
            if sampler is None:
                raise
            # The failure is the witness; the run goes on with legal values so that the rest is seen as well.
            sampler.detail = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            legal = [value.abs() if isinstance(value, Tensor) else value for value in args]
            return func(*legal, **kwargs)

    def _store(
        self,
        operation: Operation,
        output: Any,
        assume: Value | list[Value],
        becomes: Value | list[Value],
        mark: str,
    ) -> None:
        """Put the abstract results where the concrete ones lie."""
        if operation.custom and python_body(operation.name) is not None:
            return
        found = output if isinstance(output, tuple | list) else [output]
        arguments = (operation.arguments.get(name) for name in operation.mutated)
        targets = [item for item in arguments if isinstance(item, Tensor)]
        sources = operation.sources
        for index, tensor in enumerate(targets or [item for item in found if isinstance(item, Tensor)]):
            one, two = _nth(assume, index), _nth(becomes, index)
            if mark and operation.name in COMPARISONS:
                one, two = (replace(value, masks=value.masks | {mark}) for value in (one, two))
            cell = Cell(one, one if two == one else two, sources)
            if operation.is_view:
                self.memory.view(tensor, cell)
                continue
            self.memory.write(tensor, cell)
            storage = self.memory.storage(tensor)
            storage.maker, storage.operation = operation.stack, operation.name
            self._renew(operation.name, tensor, storage.member, sources)
        if operation.name == "_local_scalar_dense" and isinstance(output, float) and output != int(output):
            self.watch.scalars[output] = operation.cells[id(operation.tensors[0][1])]


class Escapes(TorchFunctionMode):
    """Sees what never reaches the dispatcher: `tolist`, `numpy`, `data_ptr`."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _ESCAPES and args and isinstance(args[0], Tensor):
            self._tracer.escape(name, args[0])
        return func(*args, **(kwargs or {}))


def _phase(name: str, stack: Stack, trains: bool) -> str:
    """When the read happens; a target path is named so and carries no gradient."""
    if stack.backward:
        return "backward"
    if stack.target and not (trains and torch.is_grad_enabled()):
        return "target"
    return "storage" if name in _COPIES else "forward"


def _nth(result: Value | list[Value], index: int) -> Value:
    if isinstance(result, Value):
        return result if index == 0 else NONNEGATIVE if result is NONNEGATIVE else TOP
    return result[index] if index < len(result) else TOP
