"""Applies the hazard rules to each operation and notes what they find."""

from collections.abc import Callable
from typing import Any, Final

from torch import Tensor

from foxhunt.audit import hazards
from foxhunt.audit.events import Finding, Scale, Trace
from foxhunt.audit.frames import Stack
from foxhunt.audit.hazards import Hazard
from foxhunt.audit.memory import Cell, Member
from foxhunt.audit.operation import Operation, python_body

COMPARISONS: Final = frozenset({"gt", "ge", "lt", "le"})
SAMPLERS: Final = frozenset({"probability", "deviation", "index"})
_LOGICAL: Final = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or"})
_GATES: Final = frozenset({"sign-mask", "clamp"})

Suspects = list[tuple[Hazard, Finding]]
"""Rules that apply to an operation, to be measured once it ran."""


class Watch:
    """The rules' view of one run; `member` says whether a tensor is T."""

    def __init__(self, trace: Trace, run: str, member: Callable[[Tensor], Member | None]) -> None:
        self._trace, self._run, self._member = trace, run, member
        self.scalars: dict[float, Cell] = {}
        """Cells of Python numbers that were taken out of tensors."""

    def suspects(self, operation: Operation) -> Suspects:
        """The rules that may apply, by what both lenses say."""
        found: Suspects = []
        if operation.stack.native or operation.calls is None:
            return found
        for hazard in hazards.TABLE.get(operation.name, ()):
            operand = operation.arguments.get(hazard.operand)
            sources = self._sources(operand, operation)
            cell = operation.cells.get(id(operand))
            # A target's own range may change; the rule is about the operand that is fitted to it.
            if not sources or (hazard.rule == "unreachable" and cell and cell.assume is cell.becomes):
                continue
            severities = hazard.severity(operation.calls[0]), hazard.severity(operation.calls[1])
            if max(severities):
                rule = "sign-gate" if hazard.rule in _GATES and operation.stack.backward else hazard.rule
                finding = self.finding(rule, operation.name, operation.stack, severities, sources, hazard.margin)
                found.append((hazard, finding))
        if operation.custom and operation.reads and python_body(operation.name) is None:
            self.finding("opaque", operation.name, operation.stack, (0, 2), set(operation.reads))
        self._scale(operation)
        self._confirm(operation)
        return found

    def _sources(self, operand: Any, operation: Operation) -> set[str]:
        if isinstance(operand, Tensor):
            own = operation.reads if self._member(operand) else ()
            return {*operation.cells[id(operand)].sources, *own}
        if isinstance(operand, list | tuple):
            return set().union(*(self._sources(item, operation) for item in operand))
        return set(self.scalars[operand].sources) if isinstance(operand, float) and operand in self.scalars else set()

    def finding(
        self,
        rule: str,
        name: str,
        stack: Stack,
        severities: tuple[int, int],
        sources: set[str],
        margin: float = 0.0,
    ) -> Finding:
        """The finding of a rule at a line, made on first sight."""
        # Two operations of one name on one line are told apart by what the lenses say of them.
        key = (rule, stack.top.file, str(stack.top.line), name, stack.module, str(severities))
        finding = self._trace.findings.setdefault(key, Finding(rule, stack, name, *severities, margin))
        finding.sources |= sources
        return finding

    def measure(self, suspects: Suspects, before: dict[str, Any], output: Any) -> str:
        """Measure each suspect on concrete values; returns the mark of a sign test, empty for anything else."""
        mark = ""
        for hazard, finding in suspects:
            value = hazard.measure(before, output)
            finding.measured[self._run] = max(finding.measured.get(self._run, 0.0), value)
            mark = finding.mark if hazard.rule in ("sign-mask", "decided") else mark
        return mark

    def _confirm(self, operation: Operation) -> None:
        """A sign test counts once it decides something other than which of two forms of T applies (leaky ReLU)."""
        cells = operation.cells
        masks = [mask for _, tensor in operation.tensors for value in cells[id(tensor)].values for mask in value.masks]
        if not masks or operation.name in _LOGICAL:
            return
        branches = [tensor for argument, tensor in operation.tensors if argument in ("self", "other")]
        depends = [cells[id(branch)].sources or self._member(branch) for branch in branches]
        if operation.name == "where" and len(branches) == 2 and all(depends):
            return
        self._trace.confirmed.update(masks)

    def _scale(self, operation: Operation) -> None:
        joins = operation.name in ("cat", "add", "sub", "stack") and len(operation.tensors) > 1
        if not operation.reads or operation.stack.backward or not joins:
            return
        found = [(tensor, self._member(tensor)) for _, tensor in operation.tensors]
        inside = [tensor for tensor, member in found if member and member.kind == "tensor"]
        outside = [item for item, member in found if not member and item.is_floating_point() and item.dim()]
        if inside and outside:
            key = operation.stack.key
            new = Scale(operation.stack, operation.name, operation.reads[0], "what it is joined with")
            record = self._trace.scales.setdefault(key, new)
            for other in outside:
                record.measured.setdefault(self._run, []).append((root_mean_square(inside[0]), root_mean_square(other)))

    def beside(self, stack: Stack, name: str, size: float, other: Tensor) -> None:
        """A tensor that a layer reads beside T, with weights of its own: the two halves of a concatenation."""
        record = self._trace.scales.setdefault(f"{stack.key}:{name}", Scale(stack, "beside", "", f"`{name}`"))
        record.measured.setdefault(self._run, []).append((size, root_mean_square(other)))


def root_mean_square(tensor: Tensor) -> float:
    """RMS of the entries; 0 without any."""
    return float(tensor.detach().double().square().mean().sqrt()) if tensor.numel() else 0.0
