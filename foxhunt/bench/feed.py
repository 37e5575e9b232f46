"""Binance's raw futures feed as hftbacktest's own converter reads it, and the ten-level book and trades within.

Both programs then see one market: hftbacktest every change of every level, the environment what ten levels show.
"""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foxhunt.bench.hft import package
from foxhunt.data.frames import conform
from foxhunt.data.schema import LEVELS, Instrument, level_columns

ROWS: Final = 4_000_000
"""Events that the converter makes room for; a file of five minutes holds half a million."""
BID, ASK = 1, -1


def convert(path: Path) -> NDArray[Any]:
    """Events of a raw file with nanosecond stamps, all stamped by arrival: the exchange's stamps are whole ms."""
    types = package().types
    from hftbacktest.data.utils import binancefutures

    with contextlib.redirect_stdout(io.StringIO()):
        events: NDArray[Any] = binancefutures.convert(str(path), buffer_size=ROWS)
    events = events[events["ev"] & types.LOCAL_EVENT > 0].copy()
    events["ev"] |= types.EXCH_EVENT
    events["exch_ts"] = events["local_ts"]
    return events


def frames(events: NDArray[Any], instrument: Instrument) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Canonical book, one row a stamp with at least ten levels a side, and trades."""
    types = package().types
    kind, side = events["ev"] & 0xFF, np.where(events["ev"] & types.BUY_EVENT > 0, BID, ASK)
    tick = np.rint(events["px"] / float(instrument.tick_size)).astype(np.int64)
    lots = np.rint(events["qty"] / float(instrument.lot_size)).astype(np.int64)
    traded = kind == types.TRADE_EVENT
    trades = pl.DataFrame(
        {
            "ts_event": events["local_ts"][traded],
            "instrument": [instrument.symbol] * int(traded.sum()),
            "price": tick[traded] * instrument.tick,
            "size": lots[traded],
            "side": np.where(side[traded] == BID, "B", "A"),
        }
    )
    depth = (
        column[~traded].tolist() for column in (events["local_ts"], kind == types.DEPTH_CLEAR_EVENT, side, tick, lots)
    )
    book = pl.DataFrame(list(_books(zip(*depth, strict=True))), schema=_columns(), orient="row")
    prices = pl.col("^(bid|ask)_px_.*$") * instrument.tick
    return conform("book", book.with_columns(prices, instrument=pl.lit(instrument.symbol))), conform("trades", trades)


def _books(changes: Iterator[tuple[int, bool, int, int, int]]) -> Iterator[tuple[int, ...]]:
    """Stamp, ticks and lots of ten levels a side, after the last change of every stamp."""
    shown: dict[int, dict[int, int]] = {BID: {}, ASK: {}}
    before = 0
    for stamp, clears, side, tick, lots in changes:
        if stamp != before and min(len(levels) for levels in shown.values()) >= LEVELS:
            yield before, *_levels(shown[BID], BID), *_levels(shown[ASK], ASK)
        before = stamp
        if clears:
            shown[side] = {t: q for t, q in shown[side].items() if side * t < side * tick}
        elif lots:
            shown[side][tick] = lots
        else:
            shown[side].pop(tick, None)


def _levels(levels: dict[int, int], side: int) -> tuple[int, ...]:
    ticks = sorted(levels, reverse=side == BID)[:LEVELS]
    return *ticks, *(levels[tick] for tick in ticks)


def _columns() -> dict[str, pl.DataType | type[pl.DataType]]:
    names = [c for side in ("bid", "ask") for field in ("px", "sz") for c in level_columns(f"{side}_{field}")]
    return dict.fromkeys(["ts_event", *names], pl.Int64)
