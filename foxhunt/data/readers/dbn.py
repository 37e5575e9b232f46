"""Databento DBN, version 1 to 3: every schema of books, quotes, trades and bars; mbo goes through the book builder.

Prices are already int64 1e-9; an undefined price is a missing level. Rows are stamped with the venue's `ts_event` while
that is in order, else with the time of capture `ts_recv`; records of a book snapshot carry the times at which their
orders were entered, so they always take `ts_recv`, when the book they make was known, and so do quotes sampled every
second or minute (bbo, cbbo). A definition file among the sources supplies tick, multiplier and currency; without one
the tick is the greatest common divisor of the prices.
"""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from foxhunt.data.book import Action, OrderEvents, build_book
from foxhunt.data.imported import Imported, merge
from foxhunt.data.readers.dbn_file import DbnFile, open_dbn, recognises, symbols
from foxhunt.data.readers.options import ImportOptions, keep_symbol
from foxhunt.data.schema import KINDS, PRICE_SCALE, Instrument
from foxhunt.data.units import decimal_text
from foxhunt.data.validate import (
    Check,
    Sifted,
    Source,
    order_checks,
    price_checks,
    refuse,
    sift,
    sift_bars,
    sift_book,
    sift_trades,
    size_checks,
    with_grid,
)
from foxhunt.errors import DataError

__all__ = ["read", "recognises"]

_UNDEFINED: Final = 2**63 - 1
_F_LAST, _F_SNAPSHOT = 128, 32
_BAR_NS: Final = {"1s": 10**9, "1m": 60 * 10**9, "1h": 3600 * 10**9, "1d": 86400 * 10**9}
_ACTIONS: Final = {
    "A": Action.ADD,
    "C": Action.REDUCE,
    "M": Action.REPLACE,
    "R": Action.CLEAR,
    "T": Action.NOTHING,
    "F": Action.NOTHING,
    "N": Action.NOTHING,
}


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read DBN files of market data, with definition files among them for the instruments.

    Raises `DataError` for files that are damaged, truncated, or of a schema that is not market data.
    """
    files = [open_dbn(path) for path in paths]
    data = [file for file in files if file.schema != "definition"]
    if not data:
        raise DataError(f"{paths[0]} defines instruments but holds no market data; add data files to the command")
    notes: list[str] = []
    frames = [_frame(file, options, notes) for file in data]
    definitions = [d for file in files for d in file.definitions]
    instruments = _instruments(frames, definitions, options, notes)
    # Trades of their own make those among book updates and order events a second copy.
    trades = [frame["instrument"].unique() for file, frame in zip(data, frames, strict=True) if file.schema == "trades"]
    apart = {symbol for symbols_of in trades for symbol in symbols_of}
    parts = [_read_file(file, frame, instruments, apart) for file, frame in zip(data, frames, strict=True)]
    if apart and any(
        "action" in frame.columns and file.schema != "trades" for file, frame in zip(data, frames, strict=True)
    ):
        notes.append(f"trades of {', '.join(sorted(apart))} come from the trades files, not from the book's")
    result = merge(parts)
    result.sources = [str(path) for path in paths]
    result.notes += notes
    return result


def _frame(file: DbnFile, options: ImportOptions, notes: list[str]) -> pl.DataFrame:
    """Every field of the records as a column, undefined prices null, plus `row`, `instrument` and the chosen stamp."""
    records = file.records
    frame = pl.DataFrame(
        {
            name: np.ascontiguousarray(records[name]).view(np.uint8)
            if records.dtype[name].kind == "S"
            else records[name].astype(np.int64)
            for name in records.dtype.names or ()
            if name not in ("length", "rtype") and not name.startswith("_")
        }
    )
    letters = {ord(c): c for c in "ABCFMNRT"}
    prices = [c for c in frame.columns if "_px_" in c or c in ("price", "open", "high", "low", "close")]
    frame = frame.with_columns(
        *(pl.col(c).replace_strict(letters, default="N") for c in ("action", "side") if c in frame.columns),
        *(pl.when(pl.col(c) != _UNDEFINED).then(c).alias(c) for c in prices),
        symbols(file),
    ).with_row_index("row", offset=1)
    frame = frame.with_columns(pl.col("row").cast(pl.Int64), _stamp(file, frame, options, notes).alias("ts_event"))
    return frame if options.symbol is None else keep_symbol(str(file.path), frame, options.symbol, notes)


def _stamp(file: DbnFile, frame: pl.DataFrame, options: ImportOptions, notes: list[str]) -> pl.Expr:
    """The stamp that orders a file, as the module's docstring says; bars move from their open to their close."""
    if file.schema.startswith("ohlcv-"):
        length = file.schema.removeprefix("ohlcv-")
        notes.append(f"{file.path.name}: stamps moved from the bars' open to their close, {length} later")
        return pl.col("ts_event") + _BAR_NS[length]
    if file.schema.split("-")[0] in ("bbo", "cbbo"):
        # `ts_event` is that of the last trade; the quote is the one that stood at the end of the interval.
        return pl.col("ts_recv")
    snapshot = (pl.col("flags") & _F_SNAPSHOT) != 0
    event = pl.when(snapshot).then("ts_recv").otherwise("ts_event")
    if options.clock == "exchange":
        return event
    if options.clock == "auto":
        stamped = frame.select("instrument", event.alias("stamp"))
        if stamped.select((pl.col("stamp").diff().over("instrument") >= 0).all()).item():
            return event
        notes.append(f"{file.path.name}: stamps are times of capture (ts_recv): ts_event is not in order")
    return pl.col("ts_recv")


def _instruments(
    frames: Sequence[pl.DataFrame],
    definitions: Sequence[Any],
    options: ImportOptions,
    notes: list[str],
) -> dict[str, Instrument]:
    """Every instrument of the files, by its definition or by the prices it has in all of them."""
    by_name = {d.raw_symbol: d for d in definitions} | {str(d.instrument_id): d for d in definitions}
    instruments: dict[str, Instrument] = {}
    for symbol in sorted({s for frame in frames for s in frame["instrument"].unique()}):
        own = [frame.filter(pl.col("instrument") == symbol) for frame in frames]
        ids = {str(i) for frame in own for i in frame["instrument_id"].unique()}
        found = next((by_name[name] for name in (symbol, *sorted(ids)) if name in by_name), None)
        defaults = {} if found is None else _defined(found)
        tick = options.tick_size or defaults.pop("tick_size", None)
        if tick is None:
            tick = _divisor(own)
            notes.append(
                f"{symbol}: tick size {tick} is the divisor of all prices; --tick-size or a definition overrides"
            )
        elif found is not None:
            notes.append(f"{symbol}: tick {tick} and multiplier {defaults['multiplier']:g} from its definition")
        instruments[symbol] = options.instrument(symbol, tick, "1", defaults)
    return instruments


def _defined(definition: Any) -> dict[str, Any]:
    """Fields of an instrument that its definition tells."""
    increment, amount = definition.min_price_increment, definition.min_price_increment_amount
    factor, quantity = definition.display_factor, definition.unit_of_measure_qty
    known: dict[str, Any] = {"multiplier": 1.0}
    if _UNDEFINED not in (increment, amount, factor) and increment > 0 and factor > 0:
        # The venue states the value of a tick in units of its display factor: 0.125 / 0.01 = 12.5 USD for the ES.
        known["multiplier"] = (amount / factor) / (increment / PRICE_SCALE)
    elif quantity != _UNDEFINED and str(definition.instrument_class) == "F":
        known["multiplier"] = quantity / PRICE_SCALE
    if increment != _UNDEFINED and increment > 0:
        known["tick_size"] = _price_text(increment)
    if definition.currency:
        known["currency"] = definition.currency
    return known


def _divisor(frames: Sequence[pl.DataFrame]) -> str:
    prices = [
        frame[c].drop_nulls().unique().to_numpy()
        for frame in frames
        for c in frame.columns
        if "_px_" in c or c in ("price", "open", "high", "low", "close")
    ]
    divisor = int(np.gcd.reduce(np.concatenate(prices))) if prices else 0
    return _price_text(divisor or PRICE_SCALE // 100)


def _price_text(units: int) -> str:
    return decimal_text(Decimal(units) / PRICE_SCALE)


def _read_file(
    file: DbnFile, frame: pl.DataFrame, instruments: dict[str, Instrument], trades_apart: set[str]
) -> Imported:
    own = {symbol: instruments[symbol] for symbol in frame["instrument"].unique().sort()}
    if file.schema.startswith("ohlcv-"):
        sifted = {"bars": sift_bars(frame, own, Source(str(file.path)))}
    elif file.schema == "trades":
        sifted = {"trades": _sift_trades(file, frame, own, "source rows")}
    elif file.schema == "mbo":
        return _read_orders(file, frame, own, trades_apart)
    else:
        sifted = {"book": sift_book(frame, own, Source(str(file.path)))}
        if "action" not in frame.columns:
            return _imported(file, own, sifted)
        trades = _trade_records(frame, trades_apart)
        sifted["trades"] = _sift_trades(file, trades, own, "trade records among the book updates")
    return _imported(file, own, sifted)


def _sift_trades(file: DbnFile, frame: pl.DataFrame, instruments: dict[str, Instrument], origin: str) -> Sifted:
    columns = ["row", "ts_event", "instrument", "price", "size", "side"]
    return sift_trades(frame.select(columns), instruments, Source(str(file.path), frame.drop("ts_event"), origin))


def _imported(file: DbnFile, instruments: dict[str, Instrument], sifted: dict[str, Sifted], *notes: str) -> Imported:
    return Imported(
        instruments,
        {kind: sifted[kind].passed for kind in KINDS if kind in sifted},
        pl.concat([s.quarantine for s in sifted.values()]),
        {stage: s.counts for stage, s in sifted.items()},
        [str(file.path)],
        list(notes),
    )


def _trade_records(frame: pl.DataFrame, trades_apart: set[str]) -> pl.DataFrame:
    return frame.filter((pl.col("action") == "T") & ~pl.col("instrument").is_in(list(trades_apart)))


def _read_orders(
    file: DbnFile, frame: pl.DataFrame, instruments: dict[str, Instrument], trades_apart: set[str]
) -> Imported:
    """Market by order: each instrument's events through the book builder, its trade records as trades."""
    source = Source(str(file.path), frame.drop("ts_event"), "order events")
    frame = with_grid(frame, instruments)
    events = sift("events", frame, (_order_event_checks(frame), order_checks()), source)
    refused = np.zeros(len(events.passed), dtype=np.bool_)
    rows: list[pl.DataFrame] = []
    indexed = events.passed.with_row_index("_index")
    for symbol in instruments:
        own = indexed.filter(pl.col("instrument") == symbol)
        built = build_book(_order_events(own))
        refused[own["_index"].to_numpy()] = built.refused
        rows.append(built.rows.with_columns(pl.lit(symbol).alias("instrument")))
    events = refuse("events", events, refused, "bad order", source)
    book = pl.concat(rows).with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
    sifted = {
        "events": events,
        "book": sift_book(book, instruments, Source(str(file.path), origin="rows built from order events")),
        "trades": _sift_trades(
            file, frame.filter(pl.col("action") == "T"), instruments, "trade records of the order events"
        ),
    }
    return _imported(file, instruments, sifted)


def _order_event_checks(frame: pl.DataFrame) -> list[Check]:
    """Only events that rest an order need price and side; only those that change one need a size."""
    rests = pl.col("action").is_in(["A", "M"])
    changes = pl.col("action").is_in(["A", "M", "C"])
    return [
        ("unreadable", rests & (pl.col("price").is_null() | ~pl.col("side").is_in(["A", "B"]))),
        *((reason, rests & failed) for reason, failed in price_checks(frame, ["price"])),
        *((reason, changes & failed) for reason, failed in size_checks(frame, ["size"])),
    ]


def _order_events(frame: pl.DataFrame) -> OrderEvents:
    stamps = frame["ts_event"].to_numpy()
    last = (frame["flags"].to_numpy() & _F_LAST) != 0
    if not last.any() and len(stamps):
        # No packet ends marked: take events of one stamp together.
        last = np.append(stamps[1:] != stamps[:-1], True)
    return OrderEvents(
        ts_event=stamps,
        action=frame["action"].replace_strict(_ACTIONS, default=Action.NOTHING, return_dtype=pl.Int64).to_numpy(),
        order=frame["order_id"].to_numpy(),
        side=(frame["side"] == "A").cast(pl.Int64).to_numpy(),
        price=frame["price"].fill_null(0).to_numpy(),
        size=frame["size"].to_numpy(),
        last=last,
    )
