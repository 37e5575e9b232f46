"""The eager trace: every operation of a run, what it reads of T, and what both lenses say of it."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from foxhunt.audit import hazards, transfer
from foxhunt.audit.domain import NONNEGATIVE, TOP, Value
from foxhunt.audit.events import Finding, FunctionCall, Read, Scale, Trace
from foxhunt.audit.follow import Place
from foxhunt.audit.frames import Stack, local_names, walk
from foxhunt.audit.memory import Cell, Member, Memory
from foxhunt.audit.ranges import Range
from foxhunt.audit.transfer import Call

_SHAPE_ONLY: Final = frozenset(
    {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"}
    | {"new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"}
)
_NONE: Final[frozenset[str]] = frozenset()
_COPIES: Final = frozenset({"clone", "copy", "index_put", "_to_copy", "contiguous", "slice_scatter"})
_ESCAPES: Final = ("tolist", "numpy", "data_ptr", "__array__", "__dlpack__")
_LOGICAL: Final = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or"})
_COMPARISONS: Final = frozenset({"gt", "ge", "lt", "le"})
_GATES: Final = frozenset({"sign-mask", "clamp"})
_SAMPLERS: Final = frozenset({"probability", "deviation", "index"})

Substitute = Callable[[Tensor, float], Tensor | None]
"""Given T and the RMS it was first made with: the values to put in its place, None to leave it."""


def base_name(function: Any) -> str:
    """`aten::add_.Tensor` -> `add`; other namespaces keep theirs."""
    schema: str = function._schema.name
    namespace, _, name = schema.partition("::")
    if namespace not in ("aten", "prims"):
        return f"{namespace}::{name}"
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


class Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hook untyped
    """Runs under the program, fills a `Trace`; `run` names this run in the measurements."""

    def __init__(self, trace: Trace, run: str, ranges: tuple[Range, Range], substitute: Substitute) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.trace, self.run, self._substitute = trace, run, substitute
        self.memory = Memory()
        self.module_names: dict[int, str] = {}
        self._lens_values = tuple(Value(item.low, item.high) for item in ranges)
        self._forward: dict[int, Stack] = {}
        self._made_rms = 0.0
        self._scalars: dict[float, Cell] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave this mode unwrapped: the wrapper would import the compiler, which takes seconds."""
        return False

    # --- T ------------------------------------------------------------------------------------------------------
    def notice(self, tensor: Tensor, place: Place) -> None:
        """Called when a place holds a tensor: it is T from now on."""
        storage = self.memory.storage(tensor)
        if storage.member is not None or not (tensor.is_floating_point() or tensor.is_complex()):
            return
        cell = self.memory.read(tensor)
        derived = bool(cell.sources)
        stack = storage.maker or walk(sys._getframe(1), self.module_names)
        frame = next((item for item in stack.frames if place.holds(item)), stack.top)
        # A module of torch's own making (nn.Sequential) has no line of its own: its operations tell programs apart.
        operation = storage.operation if stack.module and frame is stack.top else ""
        if place.primary and place.kind == "tensor" and not derived:
            self.trace.programs.add((frame.file, frame.function, operation))
        made_by = {(item.file, item.function, mark) for item in stack.frames for mark in ("", operation)}
        primary = place.kind != "tensor" or place.primary or derived or bool(made_by & self.trace.programs)
        low = float(tensor.detach().min()) if tensor.numel() else 0.0
        storage.member = Member(
            place.text, place.kind, primary, derived, frame, storage.maker, storage.operation, cell.assume.low, low
        )
        self.trace.members.append(storage.member)
        if place.kind == "tensor" and primary:
            self.memory.write(tensor, Cell(self._lens_values[0], self._lens_values[1], cell.sources))
            self._replace(tensor)

    def _replace(self, tensor: Tensor) -> None:
        with torch.no_grad(), torch._C._DisableTorchDispatch():
            self._made_rms = self._made_rms or _rms(tensor)
            values = self._substitute(tensor, self._made_rms)
            if values is not None:
                # `.data` leaves the version counter alone: to autograd nothing has happened.
                tensor.data.copy_(values)

    def _renew(self, name: str, tensor: Tensor, member: Member | None, sources: frozenset[str]) -> None:
        """T's own buffer was overwritten with new content: that is T again."""
        if name == "copy" and member is not None and member.kind == "tensor" and member.primary:
            self.memory.write(tensor, Cell(self._lens_values[0], self._lens_values[1], sources))
            self._replace(tensor)

    def called(self, function: type[torch.autograd.Function], arguments: tuple[Any, ...]) -> None:
        """Called at each call of a custom autograd function."""
        reads = tuple(i for i, item in enumerate(arguments) if isinstance(item, Tensor) and self._member(item))
        known = self.trace.functions.get(function)
        if known is None or len(reads) > len(known.reads):
            copied = tuple(item.detach().clone() if isinstance(item, Tensor) else item for item in arguments)
            self.trace.functions[function] = FunctionCall(function, copied, reads)

    def _member(self, tensor: Tensor) -> Member | None:
        return self.memory.storage(tensor).member

    # --- one operation ------------------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = base_name(func)
        stack = walk(sys._getframe(1), self.module_names)
        arguments = {spec.name: value for spec, value in zip(func._schema.arguments, args, strict=False)} | kwargs
        if name == "cat":
            arguments["_lengths"] = [item.shape[int(arguments.get("dim", 0))] for item in arguments["tensors"]]
        mutated = [spec.name for spec in func._schema.arguments if spec.alias_info and spec.alias_info.is_write]
        is_view = not mutated and any(spec.alias_info is not None for spec in func._schema.returns)
        tensors = list(_named_tensors(arguments))
        cells = {id(tensor): self.memory.read(tensor) for _, tensor in tensors}
        if not stack.own:
            self.trace.operations += 1
            self.trace.located += bool(stack.frames) or stack.native
        self._note_forward(stack)
        reads = [] if is_view or name in _SHAPE_ONLY else self._reads(name, stack, tensors, mutated)
        # Only operands that the change of range alters carry blame; after them the others are bystanders.
        changed = [cell for cell in cells.values() if cell.assume is not cell.becomes] or cells.values()
        sources = frozenset().union(*(cell.sources for cell in changed), reads) if name not in _SHAPE_ONLY else _NONE
        calls = self._calls(name, arguments, cells)
        key = ""
        measured: list[tuple[hazards.Hazard, Finding]] = []
        if not stack.native:
            measured = self._hazards(name, stack, arguments, calls, cells, set(reads))
            self._scale(name, stack, tensors, reads)
            self._confirm(name, calls[1], cells, tensors)
        before = arguments
        if measured and mutated:
            before = {k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in arguments.items()}
        output = self._execute(func, name, args, kwargs, arguments, measured)
        for hazard, finding in measured:
            key = self._measure(hazard, finding, before, output) or key
        results = transfer.apply(calls[0]), None if calls[1] is calls[0] else transfer.apply(calls[1])
        self._store(name, stack, arguments, mutated, is_view, output, results, sources, key)
        if name == "_local_scalar_dense" and isinstance(output, float) and output != int(output):
            self._scalars[output] = cells[id(tensors[0][1])]
        return output

    def _note_forward(self, stack: Stack) -> None:
        if not stack.in_backward and torch.is_grad_enabled():
            self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, stack)  # type: ignore[attr-defined]  # private, pinned by a test

    def _calls(self, name: str, arguments: dict[str, Any], cells: dict[int, Cell]) -> tuple[Call, Call]:
        shapes = {key: tuple(value.shape) for key, value in arguments.items() if isinstance(value, Tensor)}
        same = all(cell.assume is cell.becomes for cell in cells.values())
        calls = [
            Call(name, {key: self._lens(value, cells, lens) for key, value in arguments.items()}, shapes)
            for lens in range(1 if same and not self._scalars else 2)
        ]
        return calls[0], calls[-1]

    def _lens(self, found: Any, cells: dict[int, Cell], lens: int) -> Any:
        if isinstance(found, Tensor):
            return cells[id(found)].values[lens]
        if isinstance(found, list | tuple):
            return [self._lens(item, cells, lens) for item in found]
        if isinstance(found, float) and found in self._scalars:
            return self._scalars[found].values[lens].plain()
        return found

    # --- reads --------------------------------------------------------------------------------------------------
    def _reads(self, name: str, stack: Stack, tensors: list[tuple[str, Tensor]], mutated: list[str]) -> list[str]:
        found = []
        for argument, tensor in tensors:
            member = self._member(tensor)
            overwritten = argument in mutated and name in ("copy", "fill", "zero")
            if member is not None and not (overwritten and member.kind == "tensor"):
                found.append(self._read(name, stack, member, tensor.requires_grad))
        return [key for key in found if key]

    def _read(self, name: str, stack: Stack, member: Member, trains: bool) -> str:
        if stack.native:
            node = torch._C._current_autograd_node()
            forward = self._forward.get(node._sequence_nr()) if node is not None else None
            read = self.trace.reads.get(_key(forward)) if forward is not None else None
            if read is not None and name not in read.derivatives:
                read.derivatives.append(name)
            return ""
        key = _key(stack)
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
            storage = self.memory.storage
            read.names |= local_names(
                sys._getframe(2), stack.top, lambda item: isinstance(item, Tensor) and storage(item).member is member
            )
            return key
        return ""

    def escape(self, name: str, tensor: Tensor) -> None:
        """T leaves for code that cannot be followed."""
        member = self._member(tensor)
        if member is None or member.kind != "tensor":
            return
        stack = walk(sys._getframe(2), self.module_names)
        if key := self._read(name, stack, member, tensor.requires_grad):
            self._finding("opaque", name, stack, (0, 2), {key}, 0.0)

    # --- hazards ------------------------------------------------------------------------------------------------
    def _hazards(
        self,
        name: str,
        stack: Stack,
        arguments: dict[str, Any],
        calls: tuple[Call, Call],
        cells: dict[int, Cell],
        reads: set[str],
    ) -> list[tuple[hazards.Hazard, Finding]]:
        found = []
        for hazard in hazards.TABLE.get(name, ()):
            operand = arguments.get(hazard.operand)
            own = reads if isinstance(operand, Tensor) and self._member(operand) else set()
            sources = self._sources(operand, cells) | own
            cell = cells.get(id(operand))
            # A target's own range may change; the rule is about the operand that is fitted to it.
            if not sources or (hazard.rule == "unreachable" and cell and cell.assume is cell.becomes):
                continue
            severities = hazard.severity(calls[0]), hazard.severity(calls[1])
            if max(severities):
                rule = "sign-gate" if hazard.rule in _GATES and stack.backward else hazard.rule
                found.append((hazard, self._finding(rule, name, stack, severities, sources, hazard.margin)))
        if "::" in name and reads and _python_body(name) is None:
            self._finding("opaque", name, stack, (0, 2), reads, 0.0)
        return found

    def _sources(self, operand: Any, cells: dict[int, Cell]) -> set[str]:
        if isinstance(operand, Tensor):
            return set(cells[id(operand)].sources)
        if isinstance(operand, list | tuple):
            return set().union(*(self._sources(item, cells) for item in operand))
        return set(self._scalars[operand].sources) if isinstance(operand, float) and operand in self._scalars else set()

    def _finding(
        self, rule: str, name: str, stack: Stack, severities: tuple[int, int], sources: set[str], margin: float
    ) -> Finding:
        # Two operations of one name on one line are told apart by what the lenses say of them.
        key = (rule, stack.top.file, str(stack.top.line), name, stack.module, str(severities))
        finding = self.trace.findings.setdefault(key, Finding(rule, stack, name, margin=margin))
        finding.assume = max(finding.assume, severities[0])
        finding.becomes = max(finding.becomes, severities[1])
        finding.sources |= sources
        return finding

    def _measure(self, hazard: hazards.Hazard, finding: Finding, before: dict[str, Any], output: Any) -> str:
        value = hazard.measure(before, output)
        finding.measured[self.run] = max(finding.measured.get(self.run, 0.0), value)
        is_test = hazard.rule in ("sign-mask", "decided")
        return _mask_key(finding) if is_test else ""

    def _confirm(self, name: str, call: Call, cells: dict[int, Cell], tensors: list[tuple[str, Tensor]]) -> None:
        """A sign test counts once it decides something other than which of two forms of T applies (leaky ReLU)."""
        masks = [mask for _, tensor in tensors for value in cells[id(tensor)].values for mask in value.masks]
        if not masks or name in _LOGICAL:
            return
        branches = [tensor for argument, tensor in tensors if argument in ("self", "other")]
        depends = [cells[id(branch)].sources or self._member(branch) for branch in branches]
        if name == "where" and len(branches) == 2 and all(depends):
            return
        self.trace.confirmed.update(masks)

    def _scale(self, name: str, stack: Stack, tensors: list[tuple[str, Tensor]], reads: list[str]) -> None:
        if not reads or stack.backward or name not in ("cat", "add", "sub", "stack") or len(tensors) < 2:
            return
        inside = [tensor for _, tensor in tensors if (m := self._member(tensor)) and m.kind == "tensor"]
        outside = [item for _, item in tensors if not self._member(item) and item.is_floating_point() and item.dim()]
        if inside and outside:
            record = self.trace.scales.setdefault(_key(stack), Scale(stack, name, reads[0]))
            for other in outside:
                record.measured.setdefault(self.run, []).append((_rms(inside[0]), _rms(other)))

    # --- execution ----------------------------------------------------------------------------------------------
    def _execute(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arguments: dict[str, Any],
        measured: list[tuple[hazards.Hazard, Finding]],
    ) -> Any:
        if "::" in name and (body := _python_body(name)) is not None:
            with self:
                return body(*args, **kwargs)
        try:
            return func(*args, **kwargs)
        except (RuntimeError, IndexError) as error:
            sampler = next((pair for pair in measured if pair[0].rule in _SAMPLERS), None)
            if sampler is None:
                raise
            # The failure is the witness; the run goes on with legal values so that the rest is seen as well.
            sampler[1].detail = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            legal = [value.abs() if isinstance(value, Tensor) else value for value in args]
            return func(*legal, **kwargs)

    def _store(
        self,
        name: str,
        stack: Stack,
        arguments: dict[str, Any],
        mutated: Sequence[str],
        is_view: bool,
        output: Any,
        results: tuple[Value | list[Value], Value | list[Value] | None],
        sources: frozenset[str],
        mask: str,
    ) -> None:
        outputs = (
            [output]
            if isinstance(output, Tensor)
            else [item for item in output if isinstance(item, Tensor)]
            if isinstance(output, tuple | list)
            else []
        )
        targets = [arguments[argument] for argument in mutated if isinstance(arguments.get(argument), Tensor)]
        assume, becomes = results
        for index, tensor in enumerate(targets or outputs):
            one = _nth(assume, index)
            two = one if becomes is None else _nth(becomes, index)
            cell = Cell(one, one if two == one else two, sources)
            if mask and name in _COMPARISONS:
                marked = [replace(value, masks=value.masks | {mask}) for value in cell.values]
                cell = Cell(marked[0], marked[1], sources)
            if is_view:
                self.memory.view(tensor, cell)
            elif "::" not in name or _python_body(name) is None:
                self.memory.write(tensor, cell)
                storage = self.memory.storage(tensor)
                storage.maker, storage.operation = stack, name
                self._renew(name, tensor, storage.member, sources)


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


def _key(stack: Stack) -> str:
    return f"{stack.top.file}:{stack.top.line}:{stack.module}"


def _mask_key(finding: Finding) -> str:
    return f"{finding.frame.file}:{finding.frame.line}:{finding.operation}"


def _rms(tensor: Tensor) -> float:
    return float(tensor.detach().double().square().mean().sqrt()) if tensor.numel() else 0.0


def _nth(result: Value | list[Value], index: int) -> Value:
    if isinstance(result, Value):
        return result if index == 0 else NONNEGATIVE if result is NONNEGATIVE else TOP
    return result[index] if index < len(result) else TOP


def _named_tensors(arguments: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, found in arguments.items():
        if isinstance(found, Tensor):
            yield name, found
        elif isinstance(found, list | tuple):
            yield from ((name, item) for item in found if isinstance(item, Tensor))


@cache
def _python_body(name: str) -> Callable[..., Any] | None:
    """The Python implementation of a `torch.library.custom_op`, None where there is none to step into."""
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return None
    return getattr(OPDEFS.get(name), "_init_fn", None)
