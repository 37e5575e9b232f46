"""`audit`: the whole of it in one call."""

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor

from foxhunt.audit import rows, source, verdict
from foxhunt.audit.engine import Progress, execute, plan
from foxhunt.audit.events import Trace
from foxhunt.audit.report import Report
from foxhunt.audit.rows import shown
from foxhunt.audit.spec import Builder, Consumer, Spec, consumers


def audit(
    step: Callable[..., object] | Sequence[Callable[..., object]],
    inputs: Sequence[Any] = (),
    *,
    tensor: str | Sequence[str],
    assume: str = ">=0",
    becomes: str = "signed",
    declare: Sequence[Consumer | str | tuple[str, ...]] = (),
    models: Any = None,
    gradient: str | Sequence[str] = (),
    beside: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> Report:
    """Which consumers of a tensor still do what they were designed to do when its range changes?

    The step is run a few times with T drawn from both ranges. Inputs are copied, the state of `models` is restored for
    every run and at the end, their gradients are cleared. State that lives elsewhere (an optimizer, a replay buffer) is
    better built afresh: write a function that returns a `Spec` and call `audit_spec`.

    Raises `AuditError` where the step fails as it stands or T never appears.
    """
    spec = Spec(step, inputs, tensor, assume, becomes, declare, {} if models is None else models, gradient, beside)
    saved = {name: copy.deepcopy(module.state_dict()) for name, module in spec.named_models.items() if "." not in name}

    def restore() -> None:
        for name, state in saved.items():
            spec.named_models[name].load_state_dict(state)
            spec.named_models[name].zero_grad(set_to_none=True)

    def build() -> Spec:
        restore()
        copied = [_copy(item) for item in inputs]
        return Spec(step, copied, tensor, assume, becomes, declare, spec.models, gradient, beside)

    try:
        return audit_spec(build, progress=progress)
    finally:
        restore()


def _copy(item: Any) -> Any:
    if isinstance(item, Tensor):
        return item.detach().clone().requires_grad_(item.requires_grad)
    if isinstance(item, dict):
        return {key: _copy(value) for key, value in item.items()}
    if isinstance(item, list | tuple) and not hasattr(item, "_fields"):
        return type(item)(_copy(value) for value in item)
    return item


def audit_spec(builder: Builder, *, reference: str = "", progress: Progress | None = None) -> Report:
    """Audit the program that `builder` makes afresh for every run; `reference` is how to find it again."""
    tell = progress or (lambda _text, _done, _total: None)
    source.forget()
    first = builder()
    runs = plan(first)
    trace = Trace()
    spec = first
    for index, run in enumerate(runs):
        tell(f"running the step: {run.name}", index, len(runs) + 1)
        spec = execute(builder, trace, run)
    tell("judging", len(runs), len(runs) + 1)
    judged = verdict.judge(trace, spec)
    declared = consumers(spec.declare)
    variables = _variables(spec)
    files = sorted(
        {stack.top.file for stack in [*(r.stack for r in trace.reads.values()), *verdict.makers(trace.members)]}
    )
    places = {place for consumer in declared for place in consumer.places}
    idle = source.never_run(files, trace.executed, variables, places)
    branches = source.unexecuted(files, trace.executed, variables)
    table = rows.build(trace, judged, declared, idle)
    tell("done", len(runs) + 1, len(runs) + 1)
    return Report(
        tensor=spec.locators,
        assume=spec.assume,
        becomes=spec.becomes,
        rows=tuple(table),
        makers=tuple(f"{shown(stack.top.file)}:{stack.top.line}" for stack in verdict.makers(trace.members)),
        never_run=tuple(f"{f.name} ({shown(f.file)}:{f.node.lineno})" for f in idle),
        branches=tuple(f"{frame.function} ({shown(frame.file)}:{frame.line})" for frame in branches),
        modules_idle=tuple(_idle_modules(spec, trace)),
        operations=trace.operations,
        located=trace.located,
        runs=tuple(run.name for run in runs),
        reference=reference,
        title=spec.title,
        producers=tuple(dict.fromkeys(_producers(spec, trace))),
        joins=tuple(dict.fromkeys(_joins(trace))),
    )


def _variables(spec: Spec) -> set[str]:
    """Names under which T goes in the source."""
    tails = {text.replace("()", "").rpartition(":")[2].rpartition(".")[2] for text in spec.locators}
    return {tail for tail in tails if tail.isidentifier()}


def _joins(trace: Trace) -> Iterator[tuple[str, str]]:
    for scale in trace.scales.values():
        if scale.operation in verdict.JOINS and verdict.scale_ratios(scale):
            yield scale.operation, f"{shown(scale.stack.top.file)}:{scale.stack.top.line}"


def _producers(spec: Spec, trace: Trace) -> Iterator[tuple[str, str]]:
    """Modules whose result is T, with the line that calls them."""
    models = spec.named_models
    for member in trace.members:
        if member.maker is None or member.kind != "tensor" or member.derived:
            continue
        frames, modules = member.maker.frames, member.maker.modules
        if member.locator in models:
            inside = type(models[member.locator]).forward.__qualname__
            callers = [frame for frame in frames if frame.function != inside]
            if callers:
                yield member.locator, f"{shown(callers[0].file)}:{callers[0].line}"
            continue
        for inner, outer in itertools.pairwise(modules):
            if type(models[outer]).forward.__qualname__ == member.frame.function:
                yield inner, f"{shown(member.frame.file)}:{member.frame.line}"


def _idle_modules(spec: Spec, trace: Trace) -> list[str]:
    """Modules with parameters of their own that never ran."""
    return [
        name
        for name, module in spec.named_models.items()
        if name and name not in trace.modules_run and any(True for _ in module.parameters(recurse=False))
    ]
