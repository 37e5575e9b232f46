"""Losses of the heads beside the values: confidence, risk budget, selectivity, trade plan, predictive coding.

Each is a pure function of predictions and realised outcomes and returns one number a sample.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def error_share(
    td_error: Float[Tensor, " batch"], scale: Float[Tensor, ""] | Float[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """|delta| / (|delta| + scale): what the confidence head predicts, in [0, 1); one half at a typical error."""
    size = td_error.abs()
    return size / (size + scale)


def probability_loss(logit: Float[Tensor, " batch"], outcome: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Cross-entropy with an outcome in [0, 1]; its minimum is the outcome's conditional mean, so it calibrates."""
    return binary_cross_entropy_with_logits(logit, outcome.detach(), reduction="none")


def kelly_loss(fraction: Float[Tensor, " batch"], outcome: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """-(f r - f^2 r^2 / 2): second-order log growth; for f constant the optimum is mu / (sigma^2 + mu^2).

    Source: Kelly 1956; the quadratic form after Thorp 2006.
    """
    gain = fraction * outcome.detach()
    return 0.5 * gain.square() - gain


def pinball(
    prediction: Float[Tensor, " batch"], outcome: Float[Tensor, " batch"], level: float
) -> Float[Tensor, " batch"]:
    """Quantile loss (Koenker and Bassett 1978); minimal at the `level` quantile of the outcome."""
    miss = outcome.detach() - prediction
    return torch.maximum(level * miss, (level - 1) * miss)


def predictive_coding(
    h: Float[Tensor, "batch width"], h_next: Float[Tensor, "batch width"], consecutive: Bool[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """Mean over valid consecutive pairs of mean_j (h_j - h'_j)^2; gradient flows to both sides.

    Zero when no pair is valid.
    """
    pair = (h - h_next).square().mean(-1) * consecutive
    return pair.sum() / consecutive.sum().clamp(min=1)


class Calibration(NamedTuple):
    """Forecasts of numbers in [0, 1] and what came true, bin by bin; sums rather than means, for bins may be empty."""

    samples: Float[Tensor, " bins"]
    predicted: Float[Tensor, " bins"]
    """Sum of the forecasts in each bin."""
    outcome: Float[Tensor, " bins"]
    """Sum of what came true."""

    @property
    def error(self) -> Float[Tensor, ""]:
        """Expected calibration error: mean over samples of their bin's |mean outcome - mean forecast|."""
        return (self.outcome - self.predicted).abs().sum() / self.samples.sum()


def calibration(
    predicted: Float[Tensor, " samples"], outcome: Float[Tensor, " samples"], bins: int = 15
) -> Calibration:
    """Sort forecasts into equal, left-closed bins of [0, 1]; 1 falls in the last (Guo et al. 2017)."""
    index = (predicted * bins).floor().clamp(0, bins - 1).long()
    empty = torch.zeros(bins, dtype=torch.float64, device=predicted.device)
    columns = (torch.ones_like(predicted), predicted, outcome)
    return Calibration(*(empty.index_add(0, index, column.double()) for column in columns))


def calibration_error(
    predicted: Float[Tensor, " samples"], outcome: Float[Tensor, " samples"], bins: int = 15
) -> Float[Tensor, ""]:
    """Expected calibration error over equal, left-closed bins of [0, 1] (Guo et al. 2017)."""
    return calibration(predicted, outcome, bins).error
