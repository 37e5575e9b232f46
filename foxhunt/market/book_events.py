"""Canonical frames as integer arrays: books in ticks and lots, the life of every displayed level, trades."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foxhunt.data.schema import Instrument, level_columns
from foxhunt.errors import DataError
from foxhunt.market.tape import ASK, BID

if TYPE_CHECKING:
    import polars as pl

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Books:
    """Books in order of time: `tick` and `size` [books, BID/ASK, levels]; a missing level has size 0."""

    time: Integers
    tick: Integers
    size: Integers

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> "Books":
        return Books(self.time[chosen], self.tick[chosen], self.size[chosen])

    @property
    def two_sided(self) -> NDArray[np.bool_]:
        """Books with a bid and an ask."""
        return np.asarray((self.size[:, :, 0] > 0).all(1))


@dataclass(frozen=True)
class Trades:
    """Trades in order of time; `side` is the aggressor: +1 bought, -1 sold, 0 unknown."""

    time: Integers
    tick: Integers
    size: Integers
    side: Integers


def read_books(frame: "pl.DataFrame", instrument: Instrument, levels: int) -> Books:
    """Books of a canonical frame, crossed and locked ones left out: they are faults of the feed, not prices.

    Raises `DataError` on unsorted stamps and on prices off the tick.
    """
    time = _stamps(frame, "book", instrument)
    tick, size = [], []
    for side in ("bid", "ask"):
        sizes = _columns(frame, level_columns(f"{side}_sz", levels), 0)
        prices = _columns(frame, level_columns(f"{side}_px", levels), 0)
        shown = (sizes > 0) & _not_null(frame, level_columns(f"{side}_px", levels))
        tick.append(_repeat_last(_ticks(prices, shown, "book", instrument), shown))
        size.append(np.where(shown, sizes, 0))
    books = Books(time, np.stack(tick, 1), np.stack(size, 1))
    crossed = books.two_sided & (books.tick[:, BID, 0] >= books.tick[:, ASK, 0])
    return books[~crossed]


def read_trades(frame: "pl.DataFrame", instrument: Instrument) -> Trades:
    """Trades of a canonical frame. Raises `DataError` on unsorted stamps and on prices off the tick."""
    time = _stamps(frame, "trades", instrument)
    price = frame["price"].to_numpy().astype(np.int64)
    side = (frame["side"] == "B").to_numpy().astype(np.int64) - (frame["side"] == "A").to_numpy()
    ticks = _ticks(price, np.ones(len(price), np.bool_), "trades", instrument)
    return Trades(time, ticks, frame["size"].to_numpy().astype(np.int64), side)


def last_of_stamp(books: Books) -> Books:
    """One book a stamp, the last: what stood there between the first and the last is no time to trade in."""
    return books[np.append(np.diff(books.time) > 0, [True] * (len(books.time) > 0))]


def level_lives(books: Books) -> Integers:
    """[books, 2, levels] number of the uninterrupted display of each level's price, -1 for missing levels.

    Two books hold the same liquidity at a price exactly if their numbers are equal: the level never vanished between.
    """
    count = len(books.time)
    lives = np.full(books.tick.shape, -1, np.int64)
    for side in (BID, ASK):
        event, level = np.nonzero(books.size[:, side] > 0)
        if not len(event):
            continue
        tick = books.tick[event, side, level]
        key = (tick - tick.min()) * (count + 1) + event
        order = np.argsort(key)
        numbers = np.empty(len(key), np.int64)
        numbers[order] = np.cumsum(np.diff(key[order], prepend=-2) != 1)
        lives[event, side, level] = numbers
    return lives


def _stamps(frame: "pl.DataFrame", kind: str, instrument: Instrument) -> Integers:
    time = frame["ts_event"].to_numpy().astype(np.int64)
    if len(backwards := np.flatnonzero(np.diff(time) < 0)):
        row = int(backwards[0]) + 2
        raise DataError(f"{instrument.symbol} {kind} row {row}: stamp before the row above; sort by ts_event")
    return time


def _columns(frame: "pl.DataFrame", names: list[str], missing: int) -> Integers:
    return np.stack([frame[name].fill_null(missing).to_numpy() for name in names], 1).astype(np.int64)


def _not_null(frame: "pl.DataFrame", names: list[str]) -> NDArray[np.bool_]:
    return np.stack([frame[name].is_not_null().to_numpy() for name in names], 1)


def _ticks(prices: Integers, shown: NDArray[np.bool_], kind: str, instrument: Instrument) -> Integers:
    ticks, rest = np.divmod(prices, instrument.tick)
    if len(off := np.argwhere((rest != 0) & shown)):
        price = int(prices[tuple(off[0])]) / 1e9
        raise DataError(
            f"{instrument.symbol} {kind} row {off[0][0] + 1}: price {price} is not a multiple of the tick "
            f"{instrument.tick_size}; check with: foxhunt data validate"
        )
    return ticks


def _repeat_last(ticks: Integers, shown: NDArray[np.bool_]) -> Integers:
    """Give missing levels the tick of the level before, so that no made-up price ever enters a comparison."""
    ticks = np.where(shown, ticks, 0)
    for level in range(1, ticks.shape[1]):
        ticks[:, level] = np.where(shown[:, level], ticks[:, level], ticks[:, level - 1])
    return ticks
