"""Fills: crossing orders walk the levels of a book, resting orders wait for evidence."""

from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from foxhunt.market.queue import UNKNOWN
from foxhunt.market.tape import EXTREME_LEVEL, EXTREME_NEXT, EXTREME_SIZE, EXTREME_TICK, VOLUME_BEFORE, Tape


class Evidence(NamedTuple):
    """What one window of the tape shows to resting orders."""

    at: Int[Tensor, " n"]
    """Lots traded at the order's price by the opposite aggressor."""
    through: Int[Tensor, " n"]
    """Lots traded strictly through it."""
    crossed: Bool[Tensor, " n"]
    """Whether a book showed an opposite price as good as the order's."""
    shown: Int[Tensor, " n"]
    """Lots at the best opposite price shown, 0 unless crossed."""
    level: Int[Tensor, " n"]
    """Where those lots stand in the memory of taken lots now."""
    level_next: Int[Tensor, " n"]
    """Where they stand in it when it is laid over the next book."""


ANY_PRICE: Final = 1 << 62
"""Signed limit of an order that takes any price."""


def within(
    tick: Int[Tensor, "n levels"], side: Int[Tensor, " n"], signed_limit: Int[Tensor, " n"]
) -> Bool[Tensor, "n levels"]:
    """Levels at which an order may trade whose limit price times its side is `signed_limit`."""
    return side.unsqueeze(1) * tick <= signed_limit.unsqueeze(1)


def better_lots(offered: Int[Tensor, "n levels"]) -> Int[Tensor, "n levels"]:
    """Lots offered at the levels before each one."""
    return offered.cumsum(1) - offered


def take(
    offered: Int[Tensor, "n levels"], better: Int[Tensor, "n levels"], quantity: Int[Tensor, " n"]
) -> Int[Tensor, "n levels"]:
    """Lots that an order of `quantity` takes at each level, best level first."""
    return torch.minimum((quantity.unsqueeze(1) - better).clamp(min=0), offered)


def worst_tick(
    tick: Int[Tensor, "n levels"], better: Int[Tensor, "n levels"], quantity: Int[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """Price of the last level that an order of `quantity` walks to, the best price for an order of nothing."""
    reached = (better < quantity.unsqueeze(1)).sum(1, keepdim=True)
    return tick.gather(1, (reached - 1).clamp(min=0)).squeeze(1)


def window_evidence(
    tape: Tape,
    row: Int[Tensor, " n"],
    window: Int[Tensor, " n"],
    side: Int[Tensor, " n"],
    price: Int[Tensor, " n"],
) -> Evidence:
    """Look up what a window shows to orders of this side and price."""
    count = tape.windows.shape[1]
    group = (row * count + window) * 2 + (side < 0).long()
    record = tape.windows.view(-1, tape.windows.shape[-1]).index_select(0, group)
    low, high = tape.trade_ticks
    span = high - low + 3
    position = torch.where(side < 0, high - price, price - low).add(1).clamp(0, span - 1)
    key = group * span + position
    place = torch.searchsorted(tape.trade_keys, key)
    upto = tape.trade_volume.index_select(0, place)
    at = tape.trade_volume.index_select(0, place + 1) - upto
    crossed = (record[:, EXTREME_SIZE] > 0) & (side * record[:, EXTREME_TICK] <= side * price)
    return Evidence(
        at=torch.where(tape.trade_keys.index_select(0, place) == key, at, 0),
        through=upto - record[:, VOLUME_BEFORE],
        crossed=crossed,
        shown=torch.where(crossed, record[:, EXTREME_SIZE], 0),
        level=record[:, EXTREME_LEVEL],
        level_next=record[:, EXTREME_NEXT],
    )


class Rested(NamedTuple):
    """What a window did to resting orders."""

    fill: Int[Tensor, " n"]
    ahead: Int[Tensor, " n"]
    """Lots still ahead."""
    best: Int[Tensor, " n"]
    """Part of the fill that consumed lots displayed at the best opposite price."""
    deeper: Int[Tensor, " n"]
    """Part of it that consumed displayed lots beyond those."""


def rest(
    evidence: Evidence,
    remaining: Int[Tensor, " n"],
    ahead: Int[Tensor, " n"],
    taken: Int[Tensor, " n"],
    standing: Int[Tensor, " n"] | None,
    through_fills_all: bool,
) -> Rested:
    """Fill resting orders with what a window shows.

    Trades at the price eat the queue first and fill with what is left; trades through the price fill in full. A book
    that crosses the order fills up to the lots it shows: at the best opposite price of the window those beyond `taken`,
    in the book that ends the window the untaken lots of all levels within the price (`standing`), whichever is more.
    Trades and book are two sights of the same sellers, so the larger counts, not the sum.
    """
    by_trades = (evidence.at - ahead).clamp(min=0) + evidence.through
    by_best = (evidence.shown - taken).clamp(min=0)
    by_book = by_best if standing is None else torch.maximum(by_best, torch.where(evidence.crossed, standing, 0))
    passed = (evidence.through > 0) | evidence.crossed
    fill = torch.minimum(remaining, torch.maximum(by_trades, by_book))
    displayed = torch.minimum((fill - by_trades).clamp(min=0), by_book)
    best = torch.minimum(displayed, by_best)
    if through_fills_all:
        fill = torch.where(passed, remaining, fill)
    # An unknown place stays unknown whatever trades there.
    waiting = torch.where(ahead < UNKNOWN, (ahead - evidence.at).clamp(min=0), ahead)
    return Rested(fill, torch.where(passed, 0, waiting), best, displayed - best)
