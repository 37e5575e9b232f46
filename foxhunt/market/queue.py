"""Queue models: how far a resting order moves forward when displayed size shrinks."""

from typing import Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

UNKNOWN: Final = 1 << 60
"""Lots ahead of an order deeper than the displayed book: too many to fill until its price is displayed."""

QueueModel = Literal["risk-averse", "linear", "logarithmic"]


def displayed_at(
    tick: Int[Tensor, "n levels"], size: Int[Tensor, "n levels"], side: Int[Tensor, " n"], price: Int[Tensor, " n"]
) -> tuple[Int[Tensor, " n"], Bool[Tensor, " n"]]:
    """Lots displayed at a price on the order's own side, and whether the book reaches that far.

    A price better than the best or between levels shows 0; one deeper than the last displayed level is unknown.
    """
    lots = torch.where(tick == price.unsqueeze(1), size, 0).sum(1)
    return lots, side * price >= side * tick[:, -1]


def advance_queue(
    model: QueueModel,
    ahead: Int[Tensor, " n"],
    before: Int[Tensor, " n"],
    traded: Int[Tensor, " n"],
    now: Int[Tensor, " n"],
    contract: Float[Tensor, " n"],
) -> Int[Tensor, " n"]:
    """Lots ahead after the display at the price changed from `before` to `now`, of which `traded` lots were trades.

    `ahead` is already reduced by the trades. Risk-averse: cancellations come from behind until the display leaves no
    room for that. Linear and logarithmic: they split between front and back in proportion to f(front) and f(back),
    f(x) = x or log(1 + x) with x in contract units, as hftbacktest's probability models (v2); what the back cannot give
    comes from the front. Rounded up to whole lots and never below zero. An order of unknown place joins behind `now`.
    """
    if model == "risk-averse":
        return torch.minimum(ahead, now)
    known = ahead < UNKNOWN
    front = torch.where(known, ahead, 0).double()
    shown = (before - traded).clamp(min=0).double()
    back = (shown - front).clamp(min=0)
    cancelled = (shown - now).clamp(min=0)
    weight_front, weight_back = front, back
    if model == "logarithmic":
        weight_front, weight_back = (front * contract).log1p(), (back * contract).log1p()
    share_back = weight_back / (weight_front + weight_back).clamp(min=torch.finfo(torch.float64).tiny)
    overflow = (share_back * cancelled - back).clamp(min=0)
    estimate = (front - (1 - share_back) * cancelled - overflow).ceil().clamp(min=0).long()
    return torch.where(known, torch.minimum(estimate, now), now)
