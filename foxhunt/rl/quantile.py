"""Quantile regression: the implicit quantile network's loss, and what acting reads from quantiles."""

import torch
from jaxtyping import Float
from torch import Tensor


def quantile_huber(
    online: Float[Tensor, "batch online"],
    target: Float[Tensor, "batch target"],
    tau: Float[Tensor, "batch online"],
    kappa: float = 1.0,
) -> Float[Tensor, " batch"]:
    """Quantile Huber loss of each sample, divided by kappa, summed over online tau, averaged over target tau.

    Source: Dabney et al. 2018 (IQN), eq. 3; the target carries no gradient.

    Args:
        online: quantiles predicted at `tau`.
        target: samples of the bootstrapped return.
        tau: quantile levels of `online`, in (0, 1).
        kappa: width of the quadratic part.
    """
    delta = target.detach().unsqueeze(1) - online.unsqueeze(2)
    size = delta.abs()
    huber = torch.where(size <= kappa, 0.5 * delta.square(), kappa * (size - 0.5 * kappa)) / kappa
    weight = (tau.unsqueeze(2) - (delta.detach() < 0).to(tau.dtype)).abs()
    return (weight * huber).mean(2).sum(1)


def lower_tail(
    uniform: Float[Tensor, "batch samples"], alpha: float | Float[Tensor, ""]
) -> Float[Tensor, "batch samples"]:
    """Quantile levels for acting on CVaR(alpha): uniform in (0, alpha], so that their mean value is the tail's mean.

    alpha = 1 is the risk-neutral mean. Source: Dabney et al. 2018, sec. 3.1.
    """
    return uniform * alpha
