"""The account: cash, position and its cost, how large a position may be, when it is closed by force."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.market.fees import Terms


class Account(NamedTuple):
    """Accounts of all environments."""

    position: Int[Tensor, " environments"]
    """Lots held; negative is short."""
    cash: Float[Tensor, " environments"]
    cost: Float[Tensor, " environments"]
    """Money paid for the position held, at average price and without fees; negative for a short."""


def apply_fill(
    account: Account, terms: Terms, lots: Int[Tensor, " n"], notional: Int[Tensor, " n"], fee: Float[Tensor, " n"]
) -> Account:
    """Book a fill of signed `lots` for signed `notional` (price in ticks times signed lots)."""
    money = notional * terms.tick_value
    closed = closing_lots(account.position, lots).double()
    kept_share = 1 - closed / account.position.abs().clamp(min=1)
    opened_share = 1 - closed / lots.abs().clamp(min=1)
    return Account(
        position=account.position + lots,
        cash=account.cash - money - fee,
        cost=account.cost * kept_share + money * opened_share,
    )


def closing_lots(position: Int[Tensor, " n"], lots: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """How many of the signed `lots` reduce the position."""
    opposite = (position ^ lots) < 0
    return torch.where(opposite, torch.minimum(position.abs(), lots.abs()), 0)


def equity(account: Account, terms: Terms, half_ticks: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Cash plus the position at the mid price."""
    return account.cash + account.position * half_ticks * (terms.tick_value * 0.5)


def position_cap(half_ticks: Int[Tensor, " n"], terms: Terms, market: MarketConfig) -> Int[Tensor, " n"]:
    """Largest position in lots for an account that starts at this mid, in whole order lots."""
    order_value = _mid_value(half_ticks, terms) * terms.order_lots
    return (market.leverage * market.initial_cash / order_value).long() * terms.order_lots.long()


def affordable_lots(
    account: Account,
    terms: Terms,
    half_ticks: Int[Tensor, " n"],
    side: Int[Tensor, " n"],
    tick: Int[Tensor, " n"],
    quantity: Int[Tensor, " n"],
    leverage: float,
) -> Int[Tensor, " n"]:
    """The part of an order that the account can carry: what closes, and as much opening as leverage allows.

    After the fill, exposure marked at the mid must not exceed leverage times equity; at leverage 1 that keeps the cash
    of a buyer from falling below zero. Every lot is priced at `tick`, the order's worst price, with the larger of the
    two fees.
    """
    closing = closing_lots(account.position, side * quantity)
    lot_fee = _worst_fee(terms, side, tick)
    left = account.position + side * closing
    mid_value = _mid_value(half_ticks, terms)
    slippage = ((2 * tick - half_ticks) * side).clamp(min=0) * (terms.tick_value * 0.5)
    cash = account.cash - side * closing * tick * terms.tick_value - closing * lot_fee
    worth = cash + left * half_ticks * (terms.tick_value * 0.5)
    room = (leverage * worth - left.abs() * mid_value) / (mid_value + leverage * (slippage + lot_fee).clamp(min=0))
    order_lots = terms.order_lots
    # True division and floor: several times faster than floor division, and as exact for fewer than 2**53 lots.
    opening = torch.minimum((room / order_lots).clamp(min=0), (quantity - closing) / order_lots).floor()
    return closing + (opening * order_lots).long()


def must_close(
    account: Account, terms: Terms, half_ticks: Int[Tensor, " n"], worth: Float[Tensor, " n"], maintenance: float
) -> Bool[Tensor, " n"]:
    """Whether equity has fallen to the maintenance share of the position's value, or to nothing."""
    return worth <= maintenance * (account.position.abs() * _mid_value(half_ticks, terms))


def _mid_value(half_ticks: Tensor, terms: Terms) -> Tensor:
    """Money that one lot is worth at the mid, counted at least half a tick so that it can divide."""
    return half_ticks.abs().clamp(min=1) * (terms.tick_value * 0.5)


def _worst_fee(terms: Terms, side: Tensor, tick: Tensor) -> Tensor:
    rate = torch.maximum(terms.maker_rate, terms.taker_rate) + torch.where(side < 0, terms.sell_rate, 0.0)
    return rate * terms.tick_value * tick.abs() + torch.maximum(terms.maker_per_lot, terms.taker_per_lot)
