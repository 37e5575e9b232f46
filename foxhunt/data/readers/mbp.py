"""Market-by-price tables (CSV or Parquet, plain or compressed) of any origin, through a column map.

A table holds snapshots of N levels a side. Floats are rounded to the tick grid, never floored: a file's
80.90999999999998 is 80.91. With the day's volume and the last price, trades are made of the volume's growth between
two rows of an instrument, at the last price and with the aggressor inferred by the quote rule.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from foxhunt.data.aggressor import quote_rule
from foxhunt.data.frames import SCHEMAS
from foxhunt.data.imported import Imported, merge
from foxhunt.data.readers.files import BINARY, load, number, suffix, table_frame
from foxhunt.data.readers.maps import MAPS, ColumnMap, Layout, find_map
from foxhunt.data.readers.options import ImportOptions, choose_tick, keep_symbol, round_prices
from foxhunt.data.schema import Instrument
from foxhunt.data.units import to_stamps
from foxhunt.data.validate import Check, Sifted, Source, sift_book, sift_trades
from foxhunt.errors import DataError

_TABLES: Final = ("csv", "txt", *BINARY)
_DATE: Final = re.compile(r"(?<!\d)((?:19|20)\d{2})[-_.]?(\d{2})[-_.]?(\d{2})(?!\d)")
_INFERRED: Final = "growth of the day's volume between book rows"


def recognises(columns: Sequence[str]) -> bool:
    """Whether a built-in map fits a table with these columns."""
    return any(column_map.layout(columns) for column_map in MAPS.values())


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read one file (or the fitting members of a zip archive).

    Raises `DataError` when it is damaged, lacks a mapped column, or no map fits.
    """
    (path,) = paths
    notes: list[str] = []
    found: list[Imported] = []
    members = load(path)
    parts = [part for part in members if suffix(Path(part.name)) in _TABLES] or members
    for part in parts:
        frame = table_frame(part)
        column_map, layout = _choose_map(frame.columns, options)
        if layout is not None:
            found.append(_read_table(part.name, frame, column_map, layout, options))
        elif len(parts) > 1:
            notes.append(f"{Path(part.name).name} is not used: its columns do not fit map {column_map.name}")
        else:
            missing = [c for c in column_map.closest(frame.columns).needed() if c not in frame.columns]
            raise DataError(
                f"{part.name} lacks column {', '.join(missing)} of map {column_map.name}; "
                f"give another --map ({', '.join(MAPS)} or a TOML file)"
            )
    if not found:
        raise DataError(f"{path}: no member fits a column map; give another --map")
    result = merge(found)
    result.sources = [str(path)]
    result.notes += notes
    return result


def _choose_map(columns: Sequence[str], options: ImportOptions) -> tuple[ColumnMap, Layout | None]:
    if options.map is not None:
        chosen = find_map(options.map)
        return chosen, chosen.layout(columns)
    fitting = ((m, layout) for m in MAPS.values() if (layout := m.layout(columns)) is not None)
    return next(fitting, (MAPS["canonical"], None))


def _read_table(
    name: str, frame: pl.DataFrame, column_map: ColumnMap, layout: Layout, options: ImportOptions
) -> Imported:
    notes: list[str] = []
    timezone = options.timezone or column_map.timezone
    raw = frame.select(
        "row",
        _stamps(name, frame, layout, timezone).alias("ts_event"),
        _symbols(name, layout, options).alias("instrument"),
        *(number(source).alias(column) for column, source in layout.book_columns(frame.columns)),
        *_extras(layout),
    )
    if options.symbol is not None and layout.instrument is not None:
        raw = keep_symbol(name, raw, options.symbol, notes)
    defaults = column_map.instrument | {"timezone": timezone}
    instruments, loose = _instruments(raw, options, defaults, notes)
    raw = round_prices(raw, [c for c in raw.columns if "_px_" in c], loose)
    first: list[Check] = [("auction", ~pl.col("_phase").is_in(layout.continuous))] if layout.phase else []
    sifted = sift_book(raw, instruments, Source(name, _used(frame, layout)), first)
    result = Imported(
        instruments,
        {"book": sifted.passed},
        sifted.quarantine,
        {"book": sifted.counts},
        [name],
        notes,
    )
    if layout.cumulative_volume and layout.last_price:
        _add_trades(result, raw, sifted, name)
    return result


def _used(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """The source columns the map reads, as the file holds them."""
    columns = dict.fromkeys((*layout.needed(), *(source for _, source in layout.book_columns(frame.columns))))
    return frame.select("row", *columns)


def _stamps(name: str, frame: pl.DataFrame, layout: Layout, timezone: str) -> pl.Series:
    if len(layout.ts_event) > 1:
        text = frame.select(pl.concat_str([pl.col(c).cast(pl.String) for c in layout.ts_event], separator=" "))
        return to_stamps(text.to_series(), timezone)
    stamps = frame[layout.ts_event[0]]
    if layout.date_from_name:
        if not (dates := _DATE.findall(name)):
            raise DataError(
                f"{name}: column {stamps.name} has no date and the name tells none; rename it to 20230201.csv"
            )
        stamps = pl.select(pl.lit("-".join(dates[-1]) + " ") + stamps.cast(pl.String)).to_series()
    return to_stamps(stamps, timezone)


def _symbols(name: str, layout: Layout, options: ImportOptions) -> pl.Expr:
    if layout.instrument is not None:
        return pl.col(layout.instrument).cast(pl.String).fill_null("")
    return pl.lit(options.symbol or Path(name).name.split(".")[0])


def _extras(layout: Layout) -> list[pl.Expr]:
    extras = [number(c).alias(f"_{role}") for role, c in _trade_columns(layout)]
    if layout.phase:
        extras.append(pl.col(layout.phase).cast(pl.String).alias("_phase"))
    return extras


def _trade_columns(layout: Layout) -> list[tuple[str, str]]:
    pairs = (("volume", layout.cumulative_volume), ("last", layout.last_price))
    return [(role, column) for role, column in pairs if column is not None]


def _instruments(
    raw: pl.DataFrame, options: ImportOptions, defaults: dict[str, Any], notes: list[str]
) -> tuple[dict[str, Instrument], dict[str, str]]:
    """Every instrument of a table, and the ticks of those whose prices follow none and are to be rounded."""
    instruments: dict[str, Instrument] = {}
    loose: dict[str, str] = {}
    for (symbol,), rows in raw.filter(pl.col("instrument") != "").group_by(["instrument"], maintain_order=True):
        tick, follows = defaults.get("tick_size"), True
        if tick is None:
            prices = pl.concat([rows["bid_px_00"], rows["ask_px_00"]]).drop_nulls()
            tick, follows = choose_tick(options, str(symbol), prices, notes)
        if not follows:
            loose[str(symbol)] = tick
        instruments[str(symbol)] = options.instrument(str(symbol), tick, defaults.get("lot_size", "1"), defaults)
    return instruments, loose


def _add_trades(result: Imported, raw: pl.DataFrame, book: Sifted, name: str) -> None:
    """Trades of the volume's growth up to each accepted row, since the row before it, accepted or not."""
    grown = raw.select(
        "row",
        "ts_event",
        "instrument",
        pl.col("_last").alias("price"),
        pl.col("_volume").diff().over("instrument").alias("size"),
    ).filter(pl.col("size") != 0)
    grown = grown.join(book.passed.select("row"), on="row", how="semi", maintain_order="left")
    sifted = sift_trades(grown, result.instruments, Source(name, origin=_INFERRED))
    trades = quote_rule(sifted.passed, book.passed)
    result.frames["trades"] = trades.select(*SCHEMAS["trades"])
    result.quarantine = pl.concat([result.quarantine, sifted.quarantine])
    result.counts["trades"] = sifted.counts
    result.notes.append(f"trades: made of the {_INFERRED}; aggressor inferred by the quote rule (N inside the spread)")
