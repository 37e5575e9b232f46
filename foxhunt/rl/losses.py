"""Losses and errors of the branching categorical agent."""

from jaxtyping import Float
from torch import Tensor

from foxhunt.rl.categorical import cross_entropy


def branching_c51_loss(
    logits: Float[Tensor, "batch branches atoms"],
    target: Float[Tensor, "batch atoms"],
    weight: Float[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """Cross-entropy of the taken actions against the common target: mean over branches, weighted batch mean."""
    return (weight * cross_entropy(logits, target[:, None]).mean(1)).mean()


def branching_td_error(
    q_tm1: Float[Tensor, "batch branches"], target_q_t: Float[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Sum over branches of |target - q|: the priority of a transition, before any importance weight."""
    return (target_q_t[:, None] - q_tm1).abs().sum(1)
