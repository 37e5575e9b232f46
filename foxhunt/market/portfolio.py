"""What the agent sees of itself: position, profit of the position, and the working order."""

from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.market.actions import IMPROVE
from foxhunt.market.queue import UNKNOWN
from foxhunt.market.scaling import CLIP
from foxhunt.market.state import MarketState

PORTFOLIO_NAMES: Final = (
    "position",
    "unrealised",
    "order_side",
    "order_lots",
    "order_ahead",
    "order_age",
    "order_distance",
    "order_improves",
)


def portfolio(
    state: MarketState,
    touch: Int[Tensor, "environments 2"],
    reward_unit: Float[Tensor, " environments"],
    patience: int,
) -> Float[Tensor, "environments 8"]:
    """float32 features in the order of `PORTFOLIO_NAMES`, clipped to plus or minus `CLIP`.

    Position as a share of the cap; its unrealised profit in reward units, compressed by asinh; the working order's
    side, lots left as a share of the cap, share of the displayed queue still ahead (1 where its place is unknown), age
    as a share of the longest patience, distance behind the best price in ticks (asinh), and whether it improves.
    Nothing tells where the episode or the data ends: an episode's end is a truncation, which
    learners bootstrap through (Pardo et al. 2018), and the end of the data is the future. Nor is the episode's profit
    told: no decision depends on it, and a back-test, longer than any episode, takes it where training never was.
    """
    account, order = state.account, state.order
    cap = state.cap.double()
    working = order.remaining > 0
    best = torch.where(order.side > 0, touch[:, 0], touch[:, 1])
    ahead = torch.where(order.ahead < UNKNOWN, order.ahead / order.displayed.clamp(min=1), 1.0).clamp(max=1)
    columns = (
        account.position / cap,
        ((state.worth - account.cash - account.cost) / reward_unit).float().asinh(),
        torch.where(working, order.side, 0),
        order.remaining / cap,
        torch.where(working, ahead, 0.0),
        torch.where(working, order.age / patience, 0.0),
        torch.where(working, (order.side * (best - order.tick)).float().asinh(), 0.0),
        working & (order.kind == IMPROVE),
    )
    return torch.stack([c.float() for c in columns], 1).clamp(-CLIP, CLIP)
