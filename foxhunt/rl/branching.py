"""Learning several action branches from one reward (Tavakoli, Pardo, Kormushev 2018)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def take_actions(
    logits: Float[Tensor, "batch branches actions atoms"], a: Int[Tensor, "batch branches"]
) -> Float[Tensor, "batch branches atoms"]:
    """Logits of one action in every branch."""
    return torch.take_along_dim(logits, a[..., None, None], dim=2).squeeze(2)


def double_q_mixture(
    q_t_selector: Float[Tensor, "batch branches actions"],
    target_logits_t: Float[Tensor, "batch branches actions atoms"],
) -> Float[Tensor, "batch atoms"]:
    """Distribution to bootstrap from: the mean over branches of the target network's probabilities.

    Every branch acts greedily by the online network's values and is judged by the target network (Double-Q, van
    Hasselt et al. 2016). Tavakoli's target, the mean over branches, is a mixture here: all branches learn one law.

    Args:
        q_t_selector: online values at the next observation, minus infinity where there is no action.
        target_logits_t: the target network's logits there.
    """
    greedy = q_t_selector.argmax(-1)
    return take_actions(target_logits_t, greedy).softmax(-1).mean(1)


def take_quantiles(
    quantiles: Float[Tensor, "batch samples branches actions"], a: Int[Tensor, "batch branches"]
) -> Float[Tensor, "batch samples branches"]:
    """Quantiles of one action in every branch."""
    return torch.take_along_dim(quantiles, a[:, None, :, None], dim=3).squeeze(3)
