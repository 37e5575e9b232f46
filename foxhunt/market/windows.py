"""Evidence of fills: what each window of each row shows to a resting order, in compact exact form."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foxhunt.market.book_events import Books, Trades
from foxhunt.market.clock import Rows
from foxhunt.market.tape import (
    ASK,
    BID,
    EARLY,
    EXTREME_LEVEL,
    EXTREME_NEXT,
    EXTREME_SIZE,
    EXTREME_TICK,
    FRESH,
    KEPT,
    WINDOW_FIELDS,
)

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Flow:
    """Trades by the window they fall in; one trade may fall in several windows."""

    row: Integers
    window: Integers
    order_side: Integers
    """0 where a resting buy order can fill (a seller's trade), 1 where a sell order can."""
    tick: Integers
    volume: Integers


def window_stamps(rows: Rows, joined: Integers) -> dict[int, tuple[Integers, Integers]]:
    """First and last stamp (inclusive) of every window of every row; empty on the last row of a segment.

    `joined` is when each row's new orders join the book.
    """
    end = np.append(rows.time[1:], 0) - 1
    last = rows.segments[:, 1] - 1
    early_end = rows.arrival.copy()
    for stop in (end, early_end):
        stop[last] = 0
    return {
        KEPT: (rows.arrival + 1, end),
        FRESH: (joined + 1, end),
        EARLY: (rows.time, early_end),
    }


def extremes(
    books: Books, lives: Integers, stamps: tuple[Integers, Integers], here: Integers, following: Integers
) -> Integers:
    """[rows, buy/sell order, WINDOW_FIELDS] best opposite price that tradable books of each window show, with its size.

    `here` and `following` are the level lives [rows, 2, levels] of the books in which the extreme's level is looked up.
    Among equal prices the book with the largest size counts, and of those the first.
    """
    rows, _, levels = here.shape
    result = np.zeros((rows, 2, WINDOW_FIELDS), np.int64)
    nowhere = 2 * levels
    result[:, :, EXTREME_LEVEL : EXTREME_NEXT + 1] = nowhere
    row, event = _members(books.time, stamps)
    for order_side, side, sign in ((0, ASK, 1), (1, BID, -1)):
        tick, size = books.tick[event, side, 0], books.size[event, side, 0]
        order = np.lexsort((-size, sign * tick, row))
        chosen = order[np.diff(row[order], prepend=-1) != 0]
        owner, extreme = row[chosen], event[chosen]
        result[owner, order_side, EXTREME_TICK] = tick[chosen]
        result[owner, order_side, EXTREME_SIZE] = size[chosen]
        life = lives[extreme, side, 0]
        result[owner, order_side, EXTREME_LEVEL] = _locate(life, here[owner, side], side, levels)
        result[owner, order_side, EXTREME_NEXT] = _locate(life, following[owner, side], side, levels)
    return result


def sort_trades(trades: Trades, stamps: dict[int, tuple[Integers, Integers]], windows: tuple[int, ...]) -> Flow:
    """Signed trades sorted into the windows; trades without a known aggressor are evidence of nothing."""
    parts = []
    for window in windows:
        row, index = _members(trades.time, stamps[window])
        signed = trades.side[index] != 0
        row, index = row[signed], index[signed]
        order_side = (trades.side[index] > 0).astype(np.int64)
        parts.append((row, np.full_like(row, window), order_side, trades.tick[index], trades.size[index]))
    return Flow(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def carry_over(lives: Integers, previous: Integers) -> NDArray[np.int8]:
    """[rows, 2 * levels + 1] where each level of one book stood in another; 2 * levels for nowhere, and at the end."""
    rows, _, levels = lives.shape
    sides = [_locate(lives[:, s], previous[:, s, None, :], s, levels) for s in (BID, ASK)]
    return np.concatenate([*sides, np.full((rows, 1), 2 * levels)], 1).astype(np.int8)


def _members(time: Integers, stamps: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
    """Pairs (row, index) of the stamped things inside each row's window."""
    start = np.searchsorted(time, stamps[0], "left")
    count = np.maximum(np.searchsorted(time, stamps[1], "right") - start, 0)
    row = np.repeat(np.arange(len(start)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, start[row] + within


def _locate(life: Integers, levels_of: Integers, side: int, levels: int) -> Integers:
    """Position in [bid levels, ask levels] of the level with this life; 2 * levels where none has it."""
    equal = (life[..., None] == levels_of) & (life[..., None] >= 0)
    return np.where(equal.any(-1), side * levels + equal.argmax(-1), 2 * levels)
