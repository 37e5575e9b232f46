"""Row checks that decide what enters a dataset; every rejected row goes to the quarantine ledger with its reason.

Readers hand over *raw* frames: `row`, `ts_event` (int64 ns or null when unreadable), `instrument`, then the kind's
columns with prices either float in currency or int64 in 1e-9 units and sizes float in quantity or int64 in lots. What
passes comes back canonical, prices on the tick grid and sizes in lots.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from foxhunt.data.frames import SCHEMAS, empty_quarantine
from foxhunt.data.imported import Count
from foxhunt.data.schema import LEVELS, PRICE_SCALE, Instrument, Kind
from foxhunt.data.units import OFF_GRID, fixed_price, off_grid

Check = tuple[str, pl.Expr]
"""A reason of `schema.REASONS` and the expression that is true for rows rejected by it."""

_BARS: Final = ("open", "high", "low", "close")
_LIMIT: Final = 2.0**62
"""Prices in 1e-9 units and sizes in lots beyond this do not fit into int64 with room to add them up."""
_NAMELESS: Final = pl.col("instrument") == ""
"""Readers put an empty symbol where a row names no instrument."""


class Sifted(NamedTuple):
    """Rows that passed, rows that did not, and the counts that join them."""

    passed: pl.DataFrame
    quarantine: pl.DataFrame
    counts: dict[str, Count]


@dataclass(frozen=True)
class Source:
    """Where raw rows come from, for the ledger."""

    file: str
    raw: pl.DataFrame | None = None
    """The rows as the file holds them, with `row`, from which the ledger takes its records; None: the checked rows."""
    origin: str = "source rows"


def sift(kind: str, frame: pl.DataFrame, stages: Iterable[Sequence[Check]], source: Source) -> Sifted:
    """Take out rows that fail a check; within a stage the first failing check names the reason.

    A later stage sees only what the earlier ones left, so that a rejected row never makes its neighbour look bad.
    Helper columns (leading underscore) may be used by checks and do not enter the ledger.
    """
    rejected: list[pl.DataFrame] = []
    passed = frame
    for checks in stages:
        if not checks:
            continue
        reason = pl.coalesce(pl.when(failed.fill_null(False)).then(pl.lit(name)) for name, failed in checks)
        passed = passed.with_columns(reason.alias("_reason"))
        if passed["_reason"].null_count() < len(passed):
            rejected.append(passed.filter(pl.col("_reason").is_not_null()))
            passed = passed.filter(pl.col("_reason").is_null())
        passed = passed.drop("_reason")
    quarantine = _ledger(kind, rejected, source)
    read = dict(frame.group_by("instrument").len().sort("instrument").iter_rows())
    return Sifted(passed, quarantine, _counts(read, quarantine, source.origin))


def _ledger(kind: str, rejected: list[pl.DataFrame], source: Source) -> pl.DataFrame:
    if not rejected:
        return empty_quarantine()
    rows = pl.concat(rejected).sort("row")
    raw = rows if source.raw is None else source.raw.join(rows.select("row"), on="row", how="semi").sort("row")
    record = raw.select(c for c in raw.columns if c != "row" and not c.startswith("_"))
    return rows.select(
        pl.lit(kind).alias("kind"),
        pl.lit(source.file).alias("file"),
        pl.col("row").cast(pl.Int64),
        "ts_event",
        "instrument",
        pl.col("_reason").alias("reason"),
        record.select(pl.struct(pl.all()).struct.json_encode().alias("record"))["record"],
    )


def _counts(read: dict[str, int], quarantine: pl.DataFrame, origin: str) -> dict[str, Count]:
    reasons: dict[str, dict[str, int]] = {symbol: {} for symbol in read}
    grouped = quarantine.group_by("instrument", "reason").len().sort("instrument", "reason")
    for symbol, reason, rows in grouped.iter_rows():
        reasons[symbol][reason] = rows
    return {s: Count(rows, rows - sum(reasons[s].values()), reasons[s], origin) for s, rows in read.items()}


def with_grid(frame: pl.DataFrame, instruments: dict[str, Instrument]) -> pl.DataFrame:
    """Add helper columns `_tick` (1e-9 units) and `_lot` (quantity) of each row's instrument."""
    grid = pl.DataFrame(
        {
            "instrument": list(instruments),
            "_tick": [i.tick for i in instruments.values()],
            "_lot": [float(i.lot_size) for i in instruments.values()],
        },
        schema={"instrument": pl.String, "_tick": pl.Int64, "_lot": pl.Float64},
    )
    return frame.join(grid, on="instrument", how="left", maintain_order="left")


def session_checks(instruments: dict[str, Instrument]) -> list[Check]:
    """Rows outside their instrument's trading hours, in local clock time, half-open."""
    calendars: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for instrument in instruments.values():
        if instrument.sessions:
            calendars.setdefault((instrument.timezone, instrument.sessions), []).append(instrument.symbol)
    checks: list[Check] = []
    for (timezone, sessions), symbols in calendars.items():
        clock = pl.from_epoch("ts_event", "ns").dt.replace_time_zone("UTC").dt.convert_time_zone(timezone).dt.time()
        inside = pl.any_horizontal(within_session(clock, start, stop) for start, stop in sessions)
        checks.append(("outside session", pl.col("instrument").is_in(symbols) & ~inside))
    return checks


def within_session(clock: pl.Expr, start_text: str, stop_text: str) -> pl.Expr:
    """Whether a clock time lies in a session, half-open; one that stops before it starts runs over midnight."""
    start, stop = time.fromisoformat(start_text), time.fromisoformat(stop_text)
    return (clock >= start) & (clock < stop) if start < stop else (clock >= start) | (clock < stop)


def price_checks(frame: pl.DataFrame, columns: Sequence[str]) -> list[Check]:
    """Prices that are not positive numbers, then prices off the tick grid; nulls pass (a missing level)."""
    whole = all(frame.schema[c].is_integer() for c in columns)
    bad = [pl.col(c) <= 0 if whole else ~pl.col(c).is_between(0, _LIMIT / PRICE_SCALE, closed="right") for c in columns]
    off = [pl.col(c) % pl.col("_tick") != 0 if whole else off_grid(c) for c in columns]
    return [("bad price", _any(bad)), ("off tick", _any(off))]


def size_checks(frame: pl.DataFrame, columns: Sequence[str], *, zero_allowed: bool = False) -> list[Check]:
    """Sizes that are not positive numbers, then sizes that are no whole lots; nulls pass."""
    whole = all(frame.schema[c].is_integer() for c in columns)
    floor = [pl.col(c) < 0 if zero_allowed else pl.col(c) <= 0 for c in columns]
    if whole:
        return [("bad size", _any(floor))]
    lots = [pl.col(c) / pl.col("_lot") for c in columns]
    # Quantities are short decimals; a float64 division leaves noise of the quotient's own magnitude.
    off = [(n - n.round()).abs() > pl.max_horizontal(pl.lit(OFF_GRID), n.abs() * 1e-12) for n in lots]
    bad = [~(n < _LIMIT) | below for n, below in zip(lots, floor, strict=True)]
    return [("bad size", _any(bad)), ("off lot", _any(off))]


def canonical(kind: Kind, frame: pl.DataFrame, prices: Sequence[str], sizes: Sequence[str]) -> pl.DataFrame:
    """Float prices to int64 1e-9 units on the grid and float quantities to lots; helper columns are kept."""
    floats = {name for name, dtype in frame.schema.items() if dtype.is_float()}
    return frame.with_columns(
        *(fixed_price(c) for c in prices if c in floats),
        *((pl.col(c) / pl.col("_lot")).round().cast(pl.Int64).alias(c) for c in sizes if c in floats),
    ).with_columns(pl.col(name).cast(dtype) for name, dtype in SCHEMAS[kind].items() if name in frame.columns)


def order_checks() -> list[Check]:
    """Rows whose stamp lies before one already seen of the same instrument."""
    return [("out of order", pl.col("ts_event") < pl.col("ts_event").cum_max().shift(1).over("instrument"))]


def duplicate_checks(columns: Sequence[str]) -> list[Check]:
    """Rows equal to the row above them of the same instrument in every named column (null equals null)."""
    same = [pl.col(c).eq_missing(pl.col(c).shift(1)).over("instrument") for c in columns if c != "instrument"]
    return [("duplicate", pl.all_horizontal(same) & (pl.int_range(pl.len()).over("instrument") > 0))]


def sift_book(
    frame: pl.DataFrame,
    instruments: dict[str, Instrument],
    source: Source,
    first: Sequence[Check] = (),
    *,
    duplicates: bool = True,
) -> Sifted:
    """Check raw book rows and make them canonical; a level without price and size is missing, not bad.

    `first` holds the format's own checks (phases, sentinels), which name the reason before any other. Without
    `duplicates` equal rows are accepted, as two events that leave the best levels alone make them.
    """
    levels = [n for n in range(LEVELS) if f"bid_px_{n:02d}" in frame.columns]
    prices = [f"{side}_px_{n:02d}" for n in levels for side in ("bid", "ask")]
    sizes = [f"{side}_sz_{n:02d}" for n in levels for side in ("bid", "ask")]
    pairs = list(zip(prices, sizes, strict=True))
    frame = with_grid(frame.with_columns(_empty_levels_null(frame, pairs)), instruments)
    content = [c for c in frame.columns if not c.startswith("_") and c != "row"]
    row_wise = [
        ("unreadable", pl.col("ts_event").is_null() | _NAMELESS),
        *first,
        *session_checks(instruments),
        *price_checks(frame, prices),
        *size_checks(frame, sizes),
        ("bad size", _any([pl.col(p).is_not_null() & pl.col(s).is_null() for p, s in pairs])),
        ("bad price", _any([pl.col(p).is_null() & pl.col(s).is_not_null() for p, s in pairs])),
        ("bad book", _levels_disordered(levels)),
        ("crossed", pl.col("bid_px_00") > pl.col("ask_px_00") + _slack(frame)),
        ("locked", (pl.col("bid_px_00") - pl.col("ask_px_00")).abs() <= _slack(frame)),
    ]
    stages = (row_wise, order_checks(), duplicate_checks(content) if duplicates else [])
    sifted = sift("book", frame, stages, source)
    return sifted._replace(passed=canonical("book", sifted.passed, prices, sizes))


def sift_trades(
    frame: pl.DataFrame, instruments: dict[str, Instrument], source: Source, first: Sequence[Check] = ()
) -> Sifted:
    """Check raw trades; identical rows are separate trades and stay."""
    frame = with_grid(frame, instruments)
    row_wise = [
        ("unreadable", pl.any_horizontal(pl.col("ts_event", "price", "size").is_null()) | _NAMELESS),
        *first,
        *session_checks(instruments),
        *price_checks(frame, ["price"]),
        *size_checks(frame, ["size"]),
    ]
    sifted = sift("trades", frame, (row_wise, order_checks()), source)
    return sifted._replace(passed=canonical("trades", sifted.passed, ["price"], ["size"]))


def sift_bars(frame: pl.DataFrame, instruments: dict[str, Instrument], source: Source) -> Sifted:
    """Check raw bars; of several bars with one stamp the first stays. Volume zero is a quiet bar, not a bad one."""
    frame = with_grid(frame, instruments)
    o, h, low, c = (pl.col(name) for name in _BARS)
    slack = _slack(frame, "close")
    row_wise = [
        ("unreadable", pl.any_horizontal(pl.col("ts_event", *_BARS).is_null()) | _NAMELESS),
        *session_checks(instruments),
        *price_checks(frame, _BARS),
        *size_checks(frame, ["volume"], zero_allowed=True),
        ("bad bar", (pl.max_horizontal(o, c, low) > h + slack) | (pl.min_horizontal(o, c, h) < low - slack)),
    ]
    sifted = sift("bars", frame, (row_wise, order_checks(), duplicate_checks(["ts_event"])), source)
    return sifted._replace(passed=canonical("bars", sifted.passed, list(_BARS), ["volume"]))


def _any(conditions: Sequence[pl.Expr]) -> pl.Expr:
    return pl.any_horizontal(c.fill_null(False) for c in conditions)


def _slack(frame: pl.DataFrame, column: str = "bid_px_00") -> pl.Expr:
    """How far two prices may differ and still be one price: half a tick for floats, nothing for integers."""
    return pl.lit(0) if frame.schema[column].is_integer() else pl.col("_tick") / 2e9


def _empty_levels_null(frame: pl.DataFrame, pairs: Sequence[tuple[str, str]]) -> list[pl.Expr]:
    """Null in price, size and count where a level holds nothing: no price (or zero) and no size (or zero)."""
    cleared: list[pl.Expr] = []
    for price, size in pairs:
        empty = (pl.col(price).fill_null(0) == 0) & (pl.col(size).fill_null(0) == 0)
        columns = [c for c in (price, size, price.replace("_px_", "_ct_")) if c in frame.columns]
        cleared += [pl.when(~empty).then(column).alias(column) for column in columns]
    return cleared


def _levels_disordered(levels: Sequence[int]) -> pl.Expr:
    worse = [pl.col(f"bid_px_{n:02d}") >= pl.col(f"bid_px_{n - 1:02d}") for n in levels[1:]]
    worse += [pl.col(f"ask_px_{n:02d}") <= pl.col(f"ask_px_{n - 1:02d}") for n in levels[1:]]
    return _any(worse) if worse else pl.lit(False)


def refuse(kind: str, sifted: Sifted, refused: np.ndarray, reason: str, source: Source) -> Sifted:
    """Move passed rows that a later step refused to the quarantine; `refused` is a bool array over `passed`."""
    mark = pl.Series("_refused", refused, dtype=pl.Boolean)
    again = sift(kind, sifted.passed.with_columns(mark), ([(reason, pl.col("_refused"))],), source)
    quarantine = pl.concat([sifted.quarantine, again.quarantine]).sort("row", maintain_order=True)
    read = {symbol: count.read for symbol, count in sifted.counts.items()}
    return Sifted(again.passed.drop("_refused"), quarantine, _counts(read, quarantine, source.origin))
