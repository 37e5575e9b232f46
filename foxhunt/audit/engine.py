"""Runs the program under both ranges and gathers what was seen."""

import math
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import Module

from foxhunt.audit.errors import AuditError
from foxhunt.audit.events import Finding, Trace
from foxhunt.audit.follow import Follower, Place
from foxhunt.audit.frames import Frame, Stack, is_user_file
from foxhunt.audit.launches import watch_launches
from foxhunt.audit.ranges import Range
from foxhunt.audit.spec import Builder, Spec
from foxhunt.audit.trace import Escapes, Tracer

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many stages are done, how many there are."""

_SEED: Final = 20_260


@dataclass(frozen=True)
class Run:
    """One execution of the program with T drawn from a range; T is left alone where it already lies in it."""

    name: str
    range: Range
    negative: bool = False

    def substitute(self, tensor: Tensor, rms: float) -> Tensor | None:
        """The values to put in T's place, None to leave it."""
        if not tensor.is_floating_point() or tensor.numel() == 0 or (not self.negative and self.range.holds(tensor)):
            return None
        # A recomputed T holds the same values as the first time and so gets the same draw.
        total = float(tensor.detach().double().sum())
        content = hash((tuple(tensor.shape), round(total, 6) if math.isfinite(total) else 0.0))
        return self.range.sample(tensor, (_SEED + content) % 2**31, rms, self.negative)


def plan(spec: Spec) -> list[Run]:
    """The runs of an audit: as assumed, as it becomes, and all negative where only bounds are known."""
    assume, becomes = Range.parse(spec.assume), Range.parse(spec.becomes)
    runs = [Run("assume", assume), Run("becomes", becomes)]
    if becomes.signed and not becomes.zero_mean:
        runs.append(Run("negative", becomes, negative=True))
    return runs


def execute(builder: Builder, trace: Trace, run: Run) -> Spec:
    """Build the program afresh and run it under the tracer; returns the spec that was built."""
    with torch.random.fork_rng(), _stable():
        torch.manual_seed(_SEED)
        spec = builder()
        models = spec.named_models
        ranges = Range.parse(spec.assume), Range.parse(spec.becomes)
        places = [Place.parse(text, models, "tensor", index == 0) for index, text in enumerate(spec.locators)]
        places += [Place.parse(text, models, "gradient", False) for text in spec.gradients]
        places += [Place.parse(text, models, "beside", False) for text in spec.neighbours]
        if not spec.locators:
            raise AuditError("no tensor is named; give tensor='module.path', 'function:variable' or 'input[0]'")
        tracer = Tracer(trace, run.name, ranges, run.substitute)
        tracer.module_names = {id(module): name for name, module in models.items()}
        follower = Follower(places, models, tracer.notice, tracer.called, trace)
        with follower.watch(), watch_launches(tracer.escape), Escapes(tracer), tracer:
            for place in places:
                if place.input is not None:
                    _notice_input(spec, place, tracer)
                    follower.seen.add(place.text)
            _run_steps(spec, trace, run)
        missing = [place.text for place in places if place.text not in follower.seen]
        if missing and run.name == "assume":
            raise AuditError(f"tensor {missing[0]!r} never appeared while the step ran; name a place that runs")
    return spec


def _notice_input(spec: Spec, place: Place, tracer: Tracer) -> None:
    if place.input is None or place.input >= len(spec.inputs) or not isinstance(spec.inputs[place.input], Tensor):
        raise AuditError(f"tensor {place.text!r}: the step has no such tensor input; it takes {len(spec.inputs)}")
    tracer.notice(spec.inputs[place.input], place)


def _run_steps(spec: Spec, trace: Trace, run: Run) -> None:
    steps: list[Callable[..., object]] = [spec.step] if callable(spec.step) else list(spec.step)
    for step in steps:
        try:
            if isinstance(step, Module):
                _run_module(step, spec.inputs)
            else:
                step(*spec.inputs)
        except AuditError:
            raise
        except Exception as error:
            if run.name == "assume":
                raise AuditError(f"the step fails as it stands: {type(error).__name__}: {error}") from error
            _note_failure(trace, run, error)


def _run_module(module: Module, inputs: Any) -> None:
    """A module alone: training mode with a backward pass of a weighted sum of its outputs, then evaluation mode."""
    was_training = module.training
    for training in (True, False):
        module.train(training)
        outputs = [found for found in _floats(module(*inputs)) if found.requires_grad]
        if outputs and training:
            weighted = [(item * torch.linspace(0.5, 1.5, item.numel()).view_as(item)).sum() for item in outputs]
            torch.stack(weighted).sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    module.train(was_training)


def _floats(found: Any) -> Iterator[Tensor]:
    if isinstance(found, Tensor):
        if found.is_floating_point():
            yield found
    elif isinstance(found, dict):
        for item in found.values():
            yield from _floats(item)
    elif isinstance(found, list | tuple):
        for item in found:
            yield from _floats(item)


def _note_failure(trace: Trace, run: Run, error: Exception) -> None:
    frames = tuple(
        Frame(item.filename, item.lineno or 0, item.name)
        for item in reversed(traceback.extract_tb(error.__traceback__))
        if is_user_file(item.filename)
    )
    stack = Stack(frames)
    key = ("failed", stack.top.file, str(stack.top.line), "", "")
    detail = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    finding = trace.findings.setdefault(key, Finding("failed", stack, "raise", 0, 2, detail=detail))
    finding.measured[run.name] = 1.0
    # Reads on the failing line, or else every read in the failing function, brought the failure about.
    lines = [read.key for read in trace.reads.values() if read.frame == stack.top]
    functions = [read.key for read in trace.reads.values() if read.frame.function.endswith(stack.top.function)]
    finding.sources |= set(lines or functions)


@contextmanager
def _stable() -> Iterator[None]:
    """Eager execution in one thread; distributions do not check their arguments: the operation is the witness."""
    validate, threads = torch.distributions.Distribution._validate_args, torch.get_num_threads()
    # Many small operations: other threads would spend more time waiting than working.
    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        # Importing the compiler takes seconds; a program that has not done so has nothing compiled.
        if "torch._dynamo" in sys.modules:
            with torch.compiler.set_stance("force_eager"):
                yield
        else:
            yield
    finally:
        torch.set_num_threads(threads)
        torch.distributions.Distribution.set_default_validate_args(validate)
