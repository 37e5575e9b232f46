"""LEAN zips of US equities: `<date>_quote.zip` and `<date>_trade.zip` ticks, and minute, hour and daily bars.

Prices are whole 1e-4 USD. Ticks are milliseconds after midnight in New York, the date and symbol in the name and its
folder. A quote row tells one side of one exchange, the other side standing as 0: each exchange's book is kept apart,
since the best across exchanges is crossed most of the time by stale ones. Bars are stamped at their open, local time,
and move to their close. Bars are as traded: factor files, which tell splits and dividends, are not read.
Source: QuantConnect/Lean, Data/equity/readme.md.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from foxhunt.config import duration_ns
from foxhunt.data.frames import conform
from foxhunt.data.imported import Imported, merge
from foxhunt.data.readers.files import Part, csv_frame, load
from foxhunt.data.readers.options import ImportOptions
from foxhunt.data.schema import Instrument, Kind
from foxhunt.data.units import to_stamps
from foxhunt.data.validate import Check, Sifted, Source, sift_bars, sift_book, sift_trades
from foxhunt.errors import DataError

_TICK: Final = re.compile(r"(?P<date>\d{8})_(?P<kind>quote|trade)\.zip")
_BARS: Final = {"minute": "1m", "hour": "1h", "daily": "24h"}
_UNIT: Final = 100_000
"""1e-9 units in LEAN's price unit."""
_DEFAULTS: Final = {"currency": "USD", "timezone": "America/New_York"}


class _Table(NamedTuple):
    part: Part
    frame: pl.DataFrame


def recognises(path: Path) -> bool:
    """Whether a file is named and placed like one of LEAN's."""
    resolution = path.parent.parent.name if _TICK.fullmatch(path.name) else path.parent.name
    return path.suffix == ".zip" and (resolution in ("tick", "minute") or resolution in _BARS)


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read zips of ticks or bars.

    Raises `DataError` for a damaged zip, or one without a date or symbol in its name and folder.
    """
    return merge([_read_file(path, options) for path in paths])


def _read_file(path: Path, options: ImportOptions) -> Imported:
    parts = load(path)
    if len(parts) != 1:
        raise DataError(f"{path} holds {len(parts)} members; a LEAN zip holds one")
    frame = csv_frame(parts[0], has_header=False)
    table = _Table(parts[0], frame.rename({c: f"c{n}" for n, c in enumerate(frame.columns[1:])}))
    if not (match := _TICK.fullmatch(path.name)):
        return _read_bars(path, table, options)
    return _read_ticks(path, table, match["date"], match["kind"], options)


def _read_ticks(path: Path, table: _Table, date: str, kind: str, options: ImportOptions) -> Imported:
    _require_width(table, 7 if kind == "quote" else 4)
    symbol = options.symbol or path.parent.name.upper()
    midnight = to_stamps(pl.Series([date]), options.timezone or "America/New_York")[0]
    if midnight is None:
        raise DataError(f"{path} has no valid date in its name")
    stamp = (midnight + _whole("c0") * 1_000_000).alias("ts_event")
    if kind == "trade":
        rows = table.frame.select(
            "row", stamp, pl.lit(symbol).alias("instrument"), *_level("c1", "c2", "price", "size"),
            pl.lit("N").alias("side"),
        )  # fmt: skip
        instruments = {symbol: options.instrument(symbol, "0.0001", "1", _DEFAULTS)}
        sifted = sift_trades(rows, instruments, Source(table.part.name, table.frame))
        return _imported(path, instruments, "trades", sifted)
    exchange = pl.lit(f"{symbol}.") + pl.col("c5").fill_null("")
    sides = [*_level("c1", "c2", "bid_px_00", "bid_sz_00"), *_level("c3", "c4", "ask_px_00", "ask_sz_00")]
    rows = table.frame.select("row", stamp, exchange.alias("instrument"), *sides)
    unreadable: Check = (
        "unreadable",
        pl.any_horizontal(pl.col("bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00").is_null()),
    )
    rows = rows.with_columns(pl.Series("_unread", rows.select(unreadable[1]).to_series()))
    instruments = {s: options.instrument(s, "0.0001", "1", _DEFAULTS) for s in rows["instrument"].unique().sort()}
    # A side that a row leaves at zero stands as the exchange said last.
    filled = rows.with_columns(
        pl.when(pl.col(f"{side}_sz_00") > 0).then(f"{side}_{field}_00").forward_fill().over("instrument")
        .alias(f"{side}_{field}_00")
        for side in ("bid", "ask") for field in ("px", "sz")
    )  # fmt: skip
    source = Source(table.part.name, table.frame)
    sifted = sift_book(filled, instruments, source, [("unreadable", pl.col("_unread"))], duplicates=False)
    return _imported(path, instruments, "book", sifted)


def _read_bars(path: Path, table: _Table, options: ImportOptions) -> Imported:
    _require_width(table, 6)
    resolution = path.parent.name
    if resolution not in _BARS:
        raise DataError(f"{path} lies in no folder named {', '.join(_BARS)}, which tells the length of its bars")
    symbol, every = options.symbol or path.stem.upper(), options.every or _BARS[resolution]
    stamps = to_stamps(table.frame["c0"], options.timezone or "America/New_York") + duration_ns(every)
    prices = [(_whole(f"c{n}") * _UNIT).alias(name) for n, name in enumerate(("open", "high", "low", "close"), start=1)]
    rows = table.frame.select(
        "row", stamps.alias("ts_event"), pl.lit(symbol).alias("instrument"), *prices, _whole("c5").alias("volume")
    )
    instruments = {symbol: options.instrument(symbol, "0.0001", "1", _DEFAULTS)}
    result = _imported(path, instruments, "bars", sift_bars(rows, instruments, Source(table.part.name, table.frame)))
    result.notes.append(f"{path.name}: stamps moved from the bars' open to their close, {every} later")
    result.notes.append(f"{path.name}: prices are as traded, not adjusted for splits and dividends")
    return result


def _imported(path: Path, instruments: dict[str, Instrument], kind: Kind, sifted: Sifted) -> Imported:
    frames: dict[Kind, pl.DataFrame] = {kind: conform(kind, sifted.passed)}
    return Imported(instruments, frames, sifted.quarantine, {kind: sifted.counts}, [str(path)])


def _require_width(table: _Table, width: int) -> None:
    if table.frame.width - 1 < width:
        raise DataError(f"{table.part.name} has {table.frame.width - 1} columns; LEAN writes at least {width} there")


def _whole(column: str) -> pl.Expr:
    """A whole number; beyond what fits it is unreadable."""
    value = pl.col(column).cast(pl.Int64, strict=False)
    return pl.when(value.abs() < 10**12).then(value)


def _level(price: str, size: str, price_name: str, size_name: str) -> tuple[pl.Expr, pl.Expr]:
    return (_whole(price) * _UNIT).alias(price_name), _whole(size).alias(size_name)
