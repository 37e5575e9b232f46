"""Multi-step returns from windows of consecutive steps."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class MultiStep(NamedTuple):
    """A transition of up to n steps."""

    reward: Float[Tensor, " batch"]
    """Discounted sum of rewards."""
    discount: Float[Tensor, " batch"]
    """Weight of the value at the final observation: discount^length, 0 after a termination."""
    length: Int[Tensor, " batch"]
    """Steps summed, at least 1; the final observation lies this many steps after the first."""


def n_step_return(
    r_t: Float[Tensor, "n batch"],
    terminated_t: Bool[Tensor, "n batch"],
    truncated_t: Bool[Tensor, "n batch"],
    available: Int[Tensor, " batch"],
    discount: float,
) -> MultiStep:
    """Sum rewards until n steps, the end of the episode or the end of what is known, whichever comes first.

    Truncation bootstraps from the final observation, termination does not; where a step carries both flags,
    termination wins. A shortened window bootstraps with discount^(its own length).

    Args:
        r_t: rewards of n consecutive steps; entries after the end may hold anything.
        terminated_t: steps that ended their episode by its own rules.
        truncated_t: steps after which the episode was cut.
        available: steps of the window that exist, at least 1.
        discount: discount a step.

    Source: Sutton 1988; for the cut, Pardo et al. 2018, "Time limits in reinforcement learning".
    """
    if not r_t.shape == terminated_t.shape == truncated_t.shape or r_t.shape[1:] != available.shape:
        raise ValueError("r_t, terminated_t and truncated_t must be [n, batch], available [batch]")
    ended = terminated_t | truncated_t
    step = torch.arange(len(r_t), device=r_t.device)[:, None]
    counts = (ended.long().cumsum(0) - ended.long() == 0) & (step < available)
    length = counts.sum(0)
    weights = discount ** step.to(r_t.dtype)
    reward = torch.where(counts, weights * r_t, 0).sum(0)
    bootstrap = torch.where((terminated_t & counts).any(0), 0, discount ** length.to(r_t.dtype))
    return MultiStep(reward, bootstrap, length)
