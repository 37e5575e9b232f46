"""Schedules as float64 device tensors, so that a captured step never freezes one."""

from jaxtyping import Float, Int
from torch import Tensor


def progress(done: Int[Tensor, ""], total: int) -> Float[Tensor, ""]:
    """Share of a run: 0 at its first update or step (done = 0), 1 from its last one on (done = total - 1)."""
    return (done.double() / max(total - 1, 1)).clamp(max=1)


def linear(start: float, end: float, share: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """From `start` at share 0 to `end` at share 1, exactly."""
    return start * (1 - share) + end * share
