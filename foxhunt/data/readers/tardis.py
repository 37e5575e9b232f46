"""Tardis CSV: `trades`, `quotes`, `book_snapshot_5` and `_25`, and `incremental_book_L2`, one file a kind and symbol.

Stamps are microseconds, `timestamp` the exchange's and `local_timestamp` of arrival. A level change carries the whole
size of its price, zero removes it; rows of one `local_timestamp` are one message; where `is_snapshot` turns true the
book starts anew. Source: docs.tardis.dev, Downloadable CSV files.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from foxhunt.data.depth import LevelChanges, build_depth
from foxhunt.data.frames import conform
from foxhunt.data.imported import Imported, merge
from foxhunt.data.readers.files import csv_frame, load, number
from foxhunt.data.readers.options import ImportOptions, keep_symbol
from foxhunt.data.schema import LEVELS, Instrument, Kind
from foxhunt.data.units import divisor_step, to_stamps
from foxhunt.data.validate import (
    Check,
    Sifted,
    Source,
    canonical,
    order_checks,
    price_checks,
    sift,
    sift_book,
    sift_trades,
    size_checks,
    with_grid,
)
from foxhunt.errors import DataError

_COMMON: Final = ("exchange", "symbol", "timestamp", "local_timestamp")
_TRADES: Final = (*_COMMON, "side", "price", "amount")
_CHANGES: Final = (*_TRADES, "is_snapshot")
_QUOTES: Final = (*_COMMON, "ask_amount", "ask_price", "bid_price", "bid_amount")
_SNAPSHOT: Final = (*_COMMON, "asks[0].price", "asks[0].amount", "bids[0].price", "bids[0].amount")
_LEVEL: Final = re.compile(r"(asks|bids)\[(\d+)\]\.(price|amount)")


def recognises(columns: Sequence[str]) -> bool:
    """Whether a table has the columns of one of Tardis' kinds."""
    return any(set(needed) <= set(columns) for needed in (_TRADES, _QUOTES, _SNAPSHOT))


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read files of any kinds; a symbol's book and trades complete each other.

    Raises `DataError` for a damaged file, or one of another kind.
    """
    tables = [_Table(part.name, csv_frame(part), options) for path in paths for part in load(path)]
    notes: list[str] = []
    instruments = _instruments(tables, options, notes)
    result = merge([table.read({s: instruments[s] for s in table.symbols}) for table in tables])
    result.notes += notes
    return result


class _Table:
    """One file: its rows with canonical names, floats, and both clocks in ns."""

    def __init__(self, name: str, frame: pl.DataFrame, options: ImportOptions) -> None:
        if not recognises(frame.columns):
            raise DataError(
                f"{name} is no Tardis file of trades, quotes, book snapshots or book changes; see its header"
            )
        self.name, self.source, self.notes = name, frame, list[str]()
        self.changes = set(_CHANGES) <= set(frame.columns)
        self.trades = not self.changes and set(_TRADES) <= set(frame.columns)
        values = {"price": "price", "amount": "size"} if self.changes or self.trades else _level_names(frame.columns)
        extra = [c for c in ("side", "is_snapshot") if (self.changes or self.trades) and c in frame.columns]
        rows = frame.select(
            "row",
            to_stamps(frame["timestamp"], "UTC").alias("exchange"),
            to_stamps(frame["local_timestamp"], "UTC").alias("arrival"),
            pl.col("symbol").fill_null("").alias("instrument"),
            *(number(column).alias(canonical_name) for column, canonical_name in values.items()),
            *extra,
        )
        if options.symbol is not None:
            rows = keep_symbol(name, rows, options.symbol, self.notes)
        ordered = rows.select((pl.col("exchange").diff().over("instrument") >= 0).all()).item()
        clock = "exchange" if options.clock == "exchange" or (options.clock == "auto" and ordered) else "arrival"
        if clock == "arrival":
            self.notes.append(f"{Path(name).name}: stamps are times of arrival")
        self.rows = rows.with_columns(pl.col(clock).alias("ts_event"))
        self.symbols = [s for s in rows["instrument"].unique().sort() if s]
        self.prices = [c for c in rows.columns if c == "price" or "_px_" in c]
        self.sizes = [c for c in rows.columns if c == "size" or "_sz_" in c]

    def read(self, instruments: dict[str, Instrument]) -> Imported:
        """The table's import."""
        source = Source(self.name, self.source)
        if self.changes:
            return self._read_changes(instruments)
        if self.trades:
            side = pl.col("side").replace_strict({"buy": "B", "sell": "A"}, default="N").alias("side")
            return self._imported(
                instruments, {}, "trades", sift_trades(self.rows.with_columns(side), instruments, source)
            )
        return self._imported(instruments, {}, "book", sift_book(self.rows, instruments, source, duplicates=False))

    def _imported(
        self, instruments: dict[str, Instrument], before: dict[str, Sifted], kind: Kind, sifted: Sifted
    ) -> Imported:
        stages = before | {kind: sifted}
        return Imported(
            instruments,
            {kind: conform(kind, sifted.passed)},
            pl.concat([stage.quarantine for stage in stages.values()]),
            {name: stage.counts for name, stage in stages.items()},
            [self.name],
            self.notes,
        )

    def _read_changes(self, instruments: dict[str, Instrument]) -> Imported:
        """Level changes through the builder; those before a symbol's first snapshot change a book nobody knows."""
        frame = with_grid(self.rows, instruments)
        snapshot = pl.col("is_snapshot").str.to_lowercase()
        known = (snapshot == "true").fill_null(False).cast(pl.Int8).cum_max().over("instrument") == 1
        needed = ("ts_event", "arrival", "price", "size", "side", "is_snapshot")
        unreadable = pl.any_horizontal(pl.col(*needed).is_null()) | (pl.col("instrument") == "")
        strange = ~pl.col("side").is_in(["bid", "ask"]) | ~snapshot.is_in(["true", "false"])
        first: list[Check] = [("unreadable", unreadable | strange)]
        first += [*price_checks(frame, ["price"]), *size_checks(frame, ["size"], zero_allowed=True)]
        source = Source(self.name, self.source, "book changes")
        events = sift("events", frame, (first, order_checks(), [("no snapshot", ~known)]), source)
        numbers = canonical("trades", events.passed.rename({"side": "level"}), ["price"], ["size"])
        books = []
        for symbol in instruments:
            own = numbers.filter(pl.col("instrument") == symbol)
            books.append(build_depth(_level_changes(own)).with_columns(pl.lit(symbol).alias("instrument")))
        rows = pl.concat(books).with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
        derived = Source(self.name, origin="rows built from book changes")
        built = sift_book(rows, instruments, derived, duplicates=False)
        return self._imported(instruments, {"events": events}, "book", built)


def _level_names(columns: Sequence[str]) -> dict[str, str]:
    """A table's level columns and their canonical names; quotes are the first level."""
    names = {"ask_price": "ask_px_00", "ask_amount": "ask_sz_00", "bid_price": "bid_px_00", "bid_amount": "bid_sz_00"}
    found = {column: names[column] for column in names if column in columns}
    for column in columns:
        if (match := _LEVEL.fullmatch(column)) and int(match[2]) < LEVELS:
            field = "px" if match[3] == "price" else "sz"
            found[column] = f"{match[1].removesuffix('s')}_{field}_{int(match[2]):02d}"
    return found


def _level_changes(frame: pl.DataFrame) -> LevelChanges:
    """One symbol's changes, with a `clear` before each run of snapshot rows."""
    snapshot = (frame["is_snapshot"].str.to_lowercase() == "true").to_numpy()
    arrival = frame["arrival"].to_numpy()
    starts = snapshot & ~np.append(False, snapshot[:-1])[: len(snapshot)]
    index = np.repeat(np.arange(len(frame)), 1 + starts)
    clear = np.zeros(len(index), np.bool_)
    clear[np.flatnonzero(starts) + np.arange(int(starts.sum()))] = True
    last = np.append(arrival[1:] != arrival[:-1], True)[: len(arrival)]
    return LevelChanges(
        ts_event=frame["ts_event"].to_numpy()[index],
        side=(frame["level"] == "ask").cast(pl.Int64).to_numpy()[index],
        price=frame["price"].to_numpy()[index],
        size=frame["size"].to_numpy()[index],
        clear=clear,
        last=last[index] & ~clear,
    )


def _instruments(tables: Sequence[_Table], options: ImportOptions, notes: list[str]) -> dict[str, Instrument]:
    """Tick and lot are the divisors of all prices and sizes of a symbol."""
    instruments: dict[str, Instrument] = {}
    for symbol in sorted({symbol for table in tables for symbol in table.symbols}):
        own = [(table, table.rows.filter(pl.col("instrument") == symbol)) for table in tables]
        tick, lot = (
            divisor_step(pl.concat([rows[c] for table, rows in own for c in getattr(table, field)]))
            for field in ("prices", "sizes")
        )
        tick, lot = options.tick_size or tick, options.lot_size or lot
        notes.append(f"{symbol}: tick {tick}, lot {lot} divide all prices and sizes unless given")
        instruments[symbol] = options.instrument(symbol, tick, lot)
    return instruments
