"""What became of a trade: the labels that risk budget, selectivity and trade plan learn from."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Trade(NamedTuple):
    """A trade of the full cap, entered at a decision in the direction taken and judged over a fixed horizon.

    Money is in reward units. Where `judged` is false (no direction, or the episode ends before the horizon) the other
    fields mean nothing.
    """

    judged: Bool[Tensor, " batch"]
    profit: Float[Tensor, " batch"]
    """Gain at the horizon after the cost of entering and leaving."""
    favourable: Float[Tensor, " batch"]
    """Largest gain on the way, before costs, at least 0."""
    adverse: Float[Tensor, " batch"]
    """Largest loss on the way, before costs, at least 0."""
    peak: Float[Tensor, " batch"]
    """Steps until the largest gain, 1 to horizon."""

    @property
    def pays(self) -> Float[Tensor, " batch"]:
        """1 where the trade earned more than its costs, else 0."""
        return (self.profit > 0).to(self.profit.dtype)

    def growth(self, horizon: int) -> Float[Tensor, " batch"]:
        """Profit over sqrt(horizon): of unit size for a walk of unit steps, so that Kelly fractions lie in (0, 1)."""
        return self.profit / math.sqrt(horizon)


def judge_trade(
    move_t: Float[Tensor, "horizon batch"],
    complete: Bool[Tensor, " batch"],
    side: Int[Tensor, " batch"],
    cost: Float[Tensor, " batch"],
) -> Trade:
    """Follow a trade through the moves after its decision.

    Args:
        move_t: one-step gains of holding the full cap long; entries after the episode may hold anything.
        complete: whether all of them belong to the episode.
        side: -1 short, 0 none, +1 long.
        cost: what entering and leaving the full cap cost at the decision.
    """
    path = side * move_t.cumsum(0)
    best, at = path.max(0)
    return Trade(
        judged=complete & (side != 0),
        profit=path[-1] - cost,
        favourable=best.clamp(min=0),
        adverse=(-path).amax(0).clamp(min=0),
        peak=(at + 1).to(move_t.dtype),
    )


def judged_mean(loss: Float[Tensor, " batch"], trade: Trade, weight: Float[Tensor, " batch"]) -> Float[Tensor, ""]:
    """Weighted mean of a loss over the judged trades; 0 when there are none."""
    weight = torch.where(trade.judged, weight, 0)
    return torch.where(trade.judged, loss * weight, 0).sum() / weight.sum().clamp(min=1e-9)
