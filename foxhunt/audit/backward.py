"""Is a hand-written backward the Jacobian of its forward? A float64 gradient check with T drawn from both ranges."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck

from foxhunt.audit.events import FunctionCall
from foxhunt.audit.ranges import Range


@dataclass(frozen=True)
class Check:
    """Outcome for one custom autograd function; None where the check could not be run, with the reason in `detail`."""

    assume: bool | None
    becomes: bool | None
    rectifies: bool
    detail: str = ""


def check(call: FunctionCall, assume: Range, becomes: Range) -> Check:
    """Check the function with the arguments it was called with, T replaced by a draw from either range.

    `rectifies` says that the function's output is never negative although its inputs are signed: its own backward
    may then pass the check and still gate by the sign of what it made.
    """
    results: list[bool | None] = []
    detail = ""
    for held in (assume, becomes):
        try:
            results.append(_passes(call, held))
        except Exception as error:  # whatever a user's function raises in float64 is an answer: not checkable
            results.append(None)
            detail = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return Check(results[0], results[1], _rectifies(call, becomes), detail)


def _arguments(call: FunctionCall, held: Range) -> list[Any]:
    made = []
    for index, item in enumerate(call.arguments):
        if isinstance(item, Tensor) and item.is_floating_point():
            value = item.detach().double()
            if index in call.reads:
                # At the exact zeros of a ReLU a kink fails the check of any function; step aside from them.
                value = held.sample(value, 7 + index, 1.0)
                value = torch.where(value == 0, 0.5 * value.abs().amax() + 0.1, value)
            made.append(value.clone().requires_grad_())
        else:
            made.append(item)
    return made


def _apply(call: FunctionCall) -> Callable[..., Any]:
    def function(*arguments: Any) -> Any:
        torch.manual_seed(0)
        return call.function.apply(*arguments)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    return function


def _passes(call: FunctionCall, held: Range) -> bool:
    arguments = _arguments(call, held)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            return bool(gradcheck(_apply(call), arguments, fast_mode=True, atol=1e-4, rtol=1e-3))
        except GradcheckError:
            return False


def _rectifies(call: FunctionCall, becomes: Range) -> bool:
    try:
        with torch.no_grad(), torch.random.fork_rng():
            output = _apply(call)(*_arguments(call, becomes))
    except Exception:  # a function that fails on float64 is reported by `check`
        return False
    first = output[0] if isinstance(output, tuple) else output
    return isinstance(first, Tensor) and first.numel() > 0 and bool((first >= 0).all())
