"""OHLCV bars from CSV, Parquet or Feather, with the usual column names in any case.

Bars are stored stamped at their close. Files stamped at the open say so with `stamp="open"` and their length; files
that run newest first are turned round, and that is noted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from foxhunt.config import duration_ns
from foxhunt.data.imported import Imported, merge
from foxhunt.data.readers.files import load, number, table_frame
from foxhunt.data.readers.options import ImportOptions, choose_tick, keep_symbol, round_prices
from foxhunt.data.schema import Instrument
from foxhunt.data.units import infer_step, to_stamps
from foxhunt.data.validate import Source, sift_bars
from foxhunt.errors import DataError

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "ts_event": ("ts_event", "timestamp", "datetime", "date", "time", "open_time", "ts"),
    "open": ("open", "o"),
    "high": ("high", "h"),
    "low": ("low", "l"),
    "close": ("close", "c"),
    "volume": ("volume", "vol", "v"),
    "instrument": ("instrument", "symbol", "ticker"),
}
"""Canonical column -> names it goes by, compared in lower case, most telling first."""
_PRICES: Final = ("open", "high", "low", "close")
_NEEDED: Final = ("ts_event", *_PRICES)


def recognises(columns: Sequence[str]) -> bool:
    """Whether a table has the columns of bars."""
    return set(_NEEDED) <= set(_column_names(columns))


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read one file of bars of one or more instruments.

    Raises `DataError` when it is damaged, empty or lacks a price or stamp column.
    """
    (path,) = paths
    result = merge([_read_table(part.name, table_frame(part), options) for part in load(path)])
    result.sources = [str(path)]
    return result


def _column_names(columns: Sequence[str]) -> dict[str, str]:
    """Canonical name -> the table's own."""
    lower = {name.lower().strip(): name for name in reversed(columns)}
    return {
        canonical: lower[found]
        for canonical, names in _NAMES.items()
        if (found := next((n for n in names if n in lower), None)) is not None
    }


def _read_table(name: str, frame: pl.DataFrame, options: ImportOptions) -> Imported:
    notes: list[str] = []
    names = _column_names(frame.columns)
    if missing := [c for c in _NEEDED if c not in names]:
        tried = "; ".join(f"{c}: {' or '.join(_NAMES[c])}" for c in missing)
        raise DataError(
            f"{name} lacks column {', '.join(missing)} (looked for {tried}); it has {', '.join(frame.columns[1:13])}"
        )
    timezone = options.timezone or "UTC"
    shift = duration_ns(options.every) if options.stamp == "open" and options.every else 0
    named = "instrument" in names
    symbol = pl.col(names["instrument"]).cast(pl.String).fill_null("") if named else pl.lit(_symbol(name, options))
    volume = number(names["volume"]) if "volume" in names else pl.lit(None, pl.Float64)
    raw = frame.select(
        "row",
        (to_stamps(frame[names["ts_event"]], timezone) + shift).alias("ts_event"),
        symbol.alias("instrument"),
        *(number(names[c]).alias(c) for c in _PRICES),
        volume.alias("volume"),
    )
    if shift:
        notes.append(f"{Path(name).name}: stamps moved from the bars' open to their close, {options.every} later")
    if named and options.symbol is not None:
        raw = keep_symbol(name, raw, options.symbol, notes)
    raw = _oldest_first(name, raw, notes)
    instruments, loose = _instruments(raw, options, timezone, notes)
    raw = round_prices(raw, _PRICES, loose)
    sifted = sift_bars(raw, instruments, Source(name, frame.select("row", *names.values())))
    return Imported(instruments, {"bars": sifted.passed}, sifted.quarantine, {"bars": sifted.counts}, [name], notes)


def _symbol(name: str, options: ImportOptions) -> str:
    return options.symbol or Path(name).name.split(".")[0]


def _oldest_first(name: str, raw: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """Turn a file round that runs newest first throughout; single rows out of order stay for the checks to find."""
    stamps = raw["ts_event"].drop_nulls()
    if len(stamps) > 1 and stamps.is_sorted(descending=True) and not stamps.is_sorted():
        notes.append(f"{Path(name).name}: rows run newest first; turned round")
        return raw.reverse()
    return raw


def _instruments(
    raw: pl.DataFrame, options: ImportOptions, timezone: str, notes: list[str]
) -> tuple[dict[str, Instrument], dict[str, str]]:
    """Every instrument of a table, and the ticks of those whose prices follow none and are to be rounded."""
    instruments: dict[str, Instrument] = {}
    loose: dict[str, str] = {}
    for (key,), rows in raw.filter(pl.col("instrument") != "").group_by(["instrument"], maintain_order=True):
        symbol = str(key)
        prices = pl.concat([rows[c] for c in _PRICES]).drop_nulls()
        tick, follows = choose_tick(options, symbol, prices, notes)
        if not follows:
            loose[symbol] = tick
        lot = options.lot_size or _choose_lot(symbol, rows["volume"].drop_nulls(), notes)
        instruments[symbol] = options.instrument(symbol, tick, lot, {"timezone": timezone})
    return instruments, loose


def _choose_lot(symbol: str, volumes: pl.Series, notes: list[str]) -> str:
    """One unit where volumes are whole, else the finest decimal the volumes are written in."""
    lot = infer_step(volumes, largest=1.0) if len(volumes) else "1"
    lot = "0.00000001" if lot is None else lot
    if lot != "1":
        notes.append(f"{symbol}: lot size {lot} inferred from the volumes; --lot-size overrides it")
    return lot
