"""From what the runs saw to verdicts: analysis proves safe, only a witness proves unsafe, disagreement is said."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Final

import torch

from foxhunt.audit.backward import Check, check
from foxhunt.audit.events import Finding, Scale, Trace, backward_code
from foxhunt.audit.frames import Frame, Stack
from foxhunt.audit.memory import Member
from foxhunt.audit.ranges import Range
from foxhunt.audit.rules import RULES
from foxhunt.audit.source import functions, type_tests
from foxhunt.audit.spec import Spec

SAFE: Final = "safe-with-signed"
UNSAFE: Final = "assumes-non-negative"
CHECK: Final = "needs-verification"
ORDER: Final = (SAFE, CHECK, UNSAFE)
_COMPARISONS: Final = frozenset({"gt", "ge", "lt", "le"})
_TESTS: Final = frozenset({"sign-mask", "decided", "sign-gate"})
_FAILURES: Final = frozenset({"domain", "probability", "deviation", "index", "unsigned-cast", "failed"})
_RATIO: Final = 3.0
JOINS: Final = frozenset({"cat", "beside"})
"""Ways of giving a layer T and something else side by side."""


@dataclass
class Judged:
    """A finding with its verdict: the rule, where it is, what shows it, and the reads of T that lead to it."""

    rule: str
    verdict: str
    stack: Stack
    operation: str
    evidence: str
    mitigation: str
    sources: set[str] = field(default_factory=set)
    end_line: int = 0

    @property
    def frame(self) -> Frame:
        """The line of the hazard."""
        return self.stack.top


def judge(trace: Trace, spec: Spec) -> list[Judged]:
    """Every finding that is not safe."""
    assume, becomes = Range.parse(spec.assume), Range.parse(spec.becomes)
    checks = {code: check(call, assume, becomes) for code, call in trace.functions.items()}
    found = [judged for finding in trace.findings.values() if (judged := _operation(finding, trace, checks))]
    found += _backwards(trace, checks)
    found += [judged for scale in trace.scales.values() if (judged := _scale(scale))]
    found += _duplicates(trace, becomes)
    found += _type_tests(trace, spec, assume, becomes)
    found += _shared_targets(spec)
    return found


def _operation(finding: Finding, trace: Trace, checks: dict[CodeType, Check]) -> Judged | None:
    frame = finding.frame
    if finding.rule in _TESTS and finding.operation in _COMPARISONS and finding.mark not in trace.confirmed:
        return None
    # What could already happen before is news only if it is a plain failure that was never seen then.
    before = finding.measured.get("assume", 0.0)
    if not finding.possible and not (finding.witnessed and finding.rule in _FAILURES and before == 0):
        return None
    result = checks.get(backward_code(finding.stack.function)) if finding.stack.function else None
    if finding.rule == "sign-gate" and result and result.becomes and not result.rectifies:
        return None
    refuted = result is not None and result.becomes is False and bool(result.assume)
    verdict = UNSAFE if finding.possible and (finding.witnessed or refuted) else CHECK
    rule = RULES[finding.rule]
    shown = ", ".join(f"{run} {value:.0%}" for run, value in finding.measured.items())
    evidence = f"{rule.title}: `{frame.source}`"
    if finding.detail:
        evidence += f"; {finding.detail}"
    elif refuted:
        evidence += "; the function's gradient check passes on the assumed range and fails on the new one"
    elif shown:
        evidence += f"; share of affected entries: {shown}"
    if verdict == CHECK and finding.measured:
        evidence += "; " + ("no run shows it" if finding.possible else "analysis sees it under both ranges")
    return Judged(finding.rule, verdict, finding.stack, finding.operation, evidence, rule.fix, set(finding.sources))


def _backwards(trace: Trace, checks: dict[CodeType, Check]) -> list[Judged]:
    """Custom functions that read or make T and whose backward is not the Jacobian of their forward."""
    found = []
    # A gate that was found names the very line; the check of the whole function would repeat it.
    gates = [finding.stack.function for finding in trace.findings.values() if finding.rule == "sign-gate"]
    gated = {backward_code(function) for function in gates if function}
    for code, call in trace.functions.items():
        function, result = call.function, checks[code]
        if result.becomes or code in gated or (result.becomes is None and not call.reads):
            continue
        start, end = _span(function)
        verdict = UNSAFE if result.becomes is False and result.assume else CHECK
        said = "cannot be checked in float64: " + result.detail
        if result.becomes is False:
            said = f"fails on the new range, {'passes' if result.assume else 'fails too'} on the assumed one"
        rule = RULES["wrong-backward"]
        name = f"{function.__qualname__}."
        sources = {read.key for read in trace.reads.values() if read.frame.function.startswith(name)}
        evidence = f"{rule.title}: gradient check of {function.__qualname__} {said}"
        found.append(Judged(rule.id, verdict, Stack((start,)), "backward", evidence, rule.fix, sources, end))
    return found


def _span(function: type[torch.autograd.Function]) -> tuple[Frame, int]:
    """First line (as a frame) and last line of a custom function's backward."""
    code = backward_code(function)
    for item in functions(code.co_filename):
        if item.name == code.co_qualname:
            return item.frame, item.node.end_lineno or item.node.lineno
    return Frame(code.co_filename, code.co_firstlineno, code.co_qualname), code.co_firstlineno


def scale_ratios(scale: Scale) -> tuple[float, float] | None:
    """RMS of T over RMS of the other part under both ranges; None where a run is missing or all is zero."""
    ratios = []
    for run in ("assume", "becomes"):
        items = [(one, other) for one, other in scale.measured.get(run, ()) if one > 0 and other > 0]
        if not items:
            return None
        ratios.append(sum(one for one, _ in items) / sum(other for _, other in items))
    return ratios[0], ratios[1]


def _scale(scale: Scale) -> Judged | None:
    ratios = scale_ratios(scale)
    if ratios is None:
        return None
    before, after = ratios
    matched, matches = (1 / _RATIO <= ratio <= _RATIO for ratio in ratios)
    # A part that drowns T in a concatenation is worth a look even if it did so before; a small summand is a residual.
    drowned = scale.operation in JOINS and after < 1 / _RATIO
    if matches or not (matched or drowned):
        return None
    rule = RULES["scale"]
    evidence = (
        f"{rule.title}: RMS of T over RMS of the other part is {before:.3g} as assumed and {after:.3g} as it becomes; "
        f"multiplying the other part by {after:.3g} matches them"
    )
    sources = {scale.read} if scale.read else set()
    return Judged(rule.id, CHECK, scale.stack, scale.operation, evidence, rule.fix, sources)


def _duplicates(trace: Trace, becomes: Range) -> list[Judged]:
    """Programs other than the changed one that make T."""
    found: dict[tuple[str, int], Judged] = {}
    for member in trace.members:
        if member.primary or member.derived or member.maker is None or member.kind != "tensor":
            continue
        pinned = member.made_low >= 0 and member.measured_low >= 0 and becomes.low < 0
        rule = RULES["duplicate-producer"]
        range_said = "and can never be negative" if pinned else "by other operations"
        evidence = f"{rule.title}: `{member.frame.source}` makes {member.locator} {range_said}"
        verdict = UNSAFE if pinned else CHECK
        # The line that matters is the one in the copy, not in a helper that both programs share.
        frames = member.maker.frames[member.maker.frames.index(member.frame) :]
        stack = replace(member.maker, frames=frames)
        found[member.frame.file, member.frame.line] = Judged(
            rule.id, verdict, stack, member.operation, evidence, rule.fix
        )
    return list(found.values())


def _type_tests(trace: Trace, spec: Spec, assume: Range, becomes: Range) -> list[Judged]:
    if not (assume.low >= 0 > becomes.low):
        return []
    models = spec.named_models
    makers = {type(models[m.maker.module]).__name__ for m in trace.members if m.maker and m.maker.module in models}
    rule = RULES["activation-type"]
    return [
        Judged(
            rule.id,
            UNSAFE if tested in makers else CHECK,
            Stack((frame,)),
            "isinstance",
            f"{rule.title}: `{frame.source}` looks for {tested}"
            + (", the class that makes T today" if tested in makers else ""),
            rule.fix,
        )
        for frame, tested in type_tests(trace.executed)
    ]


def _shared_targets(spec: Spec) -> list[Judged]:
    """Models named target that hold the very parameters of another model."""
    if not isinstance(spec.models, dict):
        return []
    rule = RULES["shared-target"]
    found = []
    for name, model in spec.models.items():
        owned = {parameter.data_ptr() for parameter in model.parameters()}
        for other, twin in spec.models.items():
            shared = owned & {parameter.data_ptr() for parameter in twin.parameters()}
            if "target" in name and other != name and shared:
                evidence = f"{rule.title}: {name} shares {len(shared)} of {len(owned)} parameters with {other}"
                found.append(Judged(rule.id, UNSAFE, Stack((_model_frame(model),)), name, evidence, rule.fix))
    return found


def _model_frame(model: object) -> Frame:
    code = type(model).forward.__code__  # type: ignore[attr-defined]  # every module has a forward
    return Frame(code.co_filename, code.co_firstlineno, code.co_qualname)


def worst(verdicts: Iterable[str]) -> str:
    """The least safe of some verdicts; safe without any."""
    return max(verdicts, key=ORDER.index, default=SAFE)


def makers(members: Iterable[Member]) -> list[Stack]:
    """Where T is made, each line once."""
    stacks: dict[tuple[str, int], Stack] = {}
    for member in members:
        if member.maker is not None and member.kind == "tensor":
            stacks.setdefault((member.maker.top.file, member.maker.top.line), member.maker)
    return list(stacks.values())
