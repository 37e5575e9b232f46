"""Actions: what the four branches ask for, and what that means for the working order.

Shared by training, back-tests and live use.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.data.schema import Instrument
from foxhunt.market.account import closing_lots
from foxhunt.market.fees import Terms, instrument_terms

BRANCHES: Final[tuple[tuple[str, int], ...]] = (("direction", 3), ("magnitude", 3), ("order", 3), ("urgency", 3))
"""direction {short, flat, long}, magnitude {quarter, half, full}, order {join, improve, cross}, urgency {patient,
normal, urgent}."""

SHORT, FLAT, LONG = 0, 1, 2
JOIN, IMPROVE, CROSS = 0, 1, 2
URGENT: Final = 2

IDLE, PLACED, KEPT, CANCELLED, REPRICED, REPLACED = range(6)
"""What a decision did to the working order; see `order_event`."""
ORDER_EVENTS: Final = ("idle", "placed", "kept", "cancelled", "repriced", "replaced")


class Order(NamedTuple):
    """The working order of every environment; `remaining` 0 means none."""

    side: Int[Tensor, " environments"]
    """+1 buys, -1 sells."""
    kind: Int[Tensor, " environments"]
    """JOIN or IMPROVE; a crossing order never rests."""
    tick: Int[Tensor, " environments"]
    remaining: Int[Tensor, " environments"]
    ahead: Int[Tensor, " environments"]
    """Lots in the queue before it."""
    displayed: Int[Tensor, " environments"]
    """Lots displayed at its price when last seen."""
    age: Int[Tensor, " environments"]
    """Steps it has rested since it was placed or repriced."""
    target: Int[Tensor, " environments"]
    """Position it works towards."""


class Rules(NamedTuple):
    """Lookup tables of a market, fixed for the life of an environment."""

    terms: Float[Tensor, "instruments terms"]
    """`Terms` of every instrument, packed so that one lookup serves all of them."""
    magnitudes: Float[Tensor, " 3"]
    patience: Int[Tensor, " 3"]

    @classmethod
    def of(cls, instruments: Sequence[Instrument], market: MarketConfig, device: torch.device) -> "Rules":
        """Rules that a config sets for instruments."""
        return cls(
            torch.stack(instrument_terms(instruments, market, device), 1),
            torch.tensor(market.magnitudes, dtype=torch.float64, device=device),
            torch.tensor(market.patience, dtype=torch.int64, device=device),
        )

    def terms_of(self, instrument: Int[Tensor, " n"]) -> Terms:
        """Terms of the instruments at these indices."""
        return Terms(*self.terms.index_select(0, instrument).T.contiguous().unbind(0))


class Intent(NamedTuple):
    """What a decision wants of the market."""

    target: Int[Tensor, " environments"]
    side: Int[Tensor, " environments"]
    quantity: Int[Tensor, " environments"]
    """Lots to trade: only the difference to the target, its opening part in whole order lots."""
    kind: Int[Tensor, " environments"]
    tick: Int[Tensor, " environments"]
    """Limit price; crossing orders have none."""
    crosses: Bool[Tensor, " environments"]
    stays: Bool[Tensor, " environments"]
    """The working order stays in its place."""
    restarts: Bool[Tensor, " environments"]
    """It stays with its age counted anew, because its patience ended at the price it already has."""
    event: Int[Tensor, " environments"]


def target_position(
    action: Int[Tensor, "environments 4"],
    cap: Int[Tensor, " environments"],
    order_lots: Int[Tensor, " environments"],
    magnitudes: Tensor,
) -> Int[Tensor, " environments"]:
    """Signed lots that direction and magnitude ask for: a share of the cap in whole order lots, at least one of them
    as far as the cap allows."""
    share = magnitudes.index_select(0, action[:, 1])
    lots = torch.maximum((share * cap / order_lots + 1e-9).long() * order_lots, torch.minimum(order_lots, cap))
    return (action[:, 0] - FLAT) * lots


def decode(
    action: Int[Tensor, "environments 4"],
    active: Bool[Tensor, " environments"],
    position: Int[Tensor, " environments"],
    cap: Int[Tensor, " environments"],
    order: Order,
    touch: Int[Tensor, "environments 2"],
    terms: Terms,
    rules: Rules,
) -> Intent:
    """Turn actions into intents; inactive environments want nothing.

    A working order of the same side and kind stays in its place unless its patience is over (then it follows the touch,
    or crosses under `urgent`) or a changed target needs more lots than it has left. It may shrink in its place.
    """
    order_lots = terms.order_lots.long()
    target = torch.where(active, target_position(action, cap, order_lots, rules.magnitudes), position)
    difference = target - position
    closing = closing_lots(position, difference)
    quantity = closing + (difference.abs() - closing) // order_lots * order_lots
    side = difference.sign() * (quantity > 0)
    kind, urgency = action[:, 2], action[:, 3]

    room = touch[:, 1] - touch[:, 0] >= 2
    tick = torch.where(side > 0, touch[:, 0], touch[:, 1]) + side * ((kind == IMPROVE) & room)

    working = order.remaining > 0
    same = working & (order.side == side) & (order.kind == kind)
    same = same & ((order.target == target) | (quantity <= order.remaining))
    expired = order.age >= rules.patience.index_select(0, urgency)
    hurried = same & expired & (urgency == URGENT)
    stays = same & (~expired | (tick == order.tick)) & ~hurried
    wants = quantity > 0
    return Intent(
        target=target,
        side=side,
        quantity=quantity,
        kind=kind,
        tick=tick,
        crosses=wants & ((kind == CROSS) | hurried),
        stays=stays,
        restarts=stays & expired,
        event=order_event(working, wants, same, stays),
    )


def order_event(
    working: Bool[Tensor, " n"], wants: Bool[Tensor, " n"], same: Bool[Tensor, " n"], stays: Bool[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """IDLE, PLACED (none before), KEPT, CANCELLED, REPRICED (same order, patience over) or REPLACED (another order)."""
    replacing = torch.where(same, REPRICED, REPLACED)
    acting = torch.where(working, torch.where(stays, KEPT, replacing), PLACED)
    return torch.where(wants, acting, torch.where(working, CANCELLED, IDLE))
