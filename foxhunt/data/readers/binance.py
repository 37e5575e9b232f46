"""Raw Binance streams, spot and USD-M futures: REST snapshots, buffered diffs and trades, one recording an instrument.

A book is known from its snapshot on. Binance's rules (developers.binance.com, "How to manage a local order book
correctly") say which diffs complete it: those that end before the snapshot's `lastUpdateId` are dropped, the first one
applied spans it, and each later one must continue the one before (spot: `U` = last `u` + 1; futures: `pu` = last `u`).
A diff that does not continue is a gap: the book is forgotten until the next snapshot. Recorders ask for the snapshot
while diffs arrive, so diffs written before it are kept and applied with it, when the book they make was known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from foxhunt.data.depth import LevelChanges, build_depth
from foxhunt.data.frames import conform
from foxhunt.data.imported import Imported
from foxhunt.data.readers.binance_lines import (
    DEPTH,
    OTHERS,
    SNAPSHOT,
    TRADES,
    Stream,
    depth_table,
    level_table,
    load_lines,
    recognises,
    trade_table,
)
from foxhunt.data.readers.options import ImportOptions
from foxhunt.data.schema import Instrument
from foxhunt.data.units import divisor_step
from foxhunt.data.validate import (
    Check,
    Source,
    canonical,
    order_checks,
    price_checks,
    refuse,
    sift,
    sift_book,
    sift_trades,
    size_checks,
    with_grid,
)
from foxhunt.errors import DataError

__all__ = ["read", "recognises"]

_CURRENCIES: Final = ("USDT", "USDC", "FDUSD", "BTC", "ETH", "EUR")
_ON_BOOK: Final = ("MARKET",)
"""Futures trades of any other kind (insurance fund, auto-deleveraging) happen outside the book."""


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read recordings of one instrument; several files continue each other.

    Raises `DataError` for a damaged file, for several instruments in one recording, and for a recording of diffs
    without a snapshot, which the file before it holds.
    """
    stream = load_lines(paths)
    symbol = _symbol(stream, options)
    messages = depth_table(stream.lines)
    if len(messages) and not (messages["kind"] == SNAPSHOT).any():
        raise DataError(
            f"{stream.file} has book changes but no snapshot they start from; give the file before it too "
            "(foxhunt data import EARLIER LATER --out DIR)"
        )
    levels, readable = level_table(messages)
    kind = next((k for k in TRADES if (stream.lines["kind"] == k).any()), TRADES[0])
    trades = trade_table(stream.lines, kind)
    result = Imported({}, {}, sources=[str(path) for path in paths], notes=_unused(stream, kind))
    instrument = _instrument(symbol, levels, trades, options, result.notes)
    result.instruments[symbol] = instrument
    strange = stream.lines.filter(~pl.col("kind").is_in([DEPTH, SNAPSHOT, *TRADES, *OTHERS]).fill_null(False))
    if len(messages) or len(strange):
        messages = _stamped(messages, options, "book", result.notes).with_columns(
            readable.alias("_readable"), pl.int_range(pl.len(), dtype=pl.Int64).alias("_message")
        )
        _add_book(result, stream, pl.concat([messages, strange], how="diagonal").sort("row"), levels, instrument)
    if len(trades):
        _add_trades(result, stream, _stamped(trades, options, "trades", result.notes), instrument)
    return result


def _symbol(stream: Stream, options: ImportOptions) -> str:
    names = stream.lines["symbol"].drop_nulls().unique().sort().to_list()
    if len(names) > 1:
        raise DataError(f"{stream.file} holds {', '.join(names[:12])}; import recordings of one instrument at a time")
    return options.symbol or (names[0] if names else Path(stream.file).name.split(".")[0])


def _unused(stream: Stream, kind: str) -> list[str]:
    """Notes on lines of other streams."""
    unused = [name for name in (*OTHERS, *TRADES) if name != kind]
    found = stream.lines.filter(pl.col("kind").is_in(unused)).group_by("kind").len().sort("kind")
    return [f"{rows:,} {name} lines are not used: they add nothing to book and trades" for name, rows in found.rows()]


def _instrument(
    symbol: str, levels: pl.DataFrame, trades: pl.DataFrame, options: ImportOptions, notes: list[str]
) -> Instrument:
    """Tick and lot are the divisors of all prices and sizes: the feed writes exact decimals."""
    tick = options.tick_size or divisor_step(pl.concat([levels["price"], trades["price"]]))
    lot = options.lot_size or divisor_step(pl.concat([levels["size"], trades["size"]]))
    if options.tick_size is None or options.lot_size is None:
        notes.append(
            f"{symbol}: tick {tick} and lot {lot} divide all prices and sizes; --tick-size, --lot-size override"
        )
    currency = next((quote for quote in _CURRENCIES if symbol.endswith(quote)), "USD")
    return options.instrument(symbol, tick, lot, {"currency": currency})


def _stamped(table: pl.DataFrame, options: ImportOptions, what: str, notes: list[str]) -> pl.DataFrame:
    """Add `ts_event`: the exchange's stamps when they are in order (or asked for), else the times of arrival."""
    own = table.filter(pl.col("kind") != SNAPSHOT) if "kind" in table.columns else table
    in_order = own["exchange"].null_count() < len(own) and own["exchange"].drop_nulls().is_sorted()
    clock = "exchange" if options.clock == "exchange" or (options.clock == "auto" and in_order) else "arrival"
    if clock == "arrival":
        notes.append(f"{what}: stamps are times of arrival")
    elif isinstance(delay := (own["arrival"] - own["exchange"]).median(), float):
        notes.append(f"{what}: stamps are the exchange's; the recorder's were {delay / 1e6:.0f} ms later (median)")
    table = table.with_columns(pl.col(clock).alias("ts_event"))
    if "kind" not in table.columns:
        return table
    # A snapshot counts from the latest stamp written before it: on spot markets it bears none of its own.
    latest = pl.coalesce(pl.col("ts_event").cum_max().forward_fill(), pl.col("ts_event").backward_fill())
    return table.with_columns(pl.when(pl.col("kind") == SNAPSHOT).then(latest).otherwise("ts_event").alias("ts_event"))


def _add_book(
    result: Imported, stream: Stream, messages: pl.DataFrame, levels: pl.DataFrame, instrument: Instrument
) -> None:
    """Check every message, follow the update ids, and build the book of the messages that continue each other."""
    source = Source(stream.file, stream.lines.select("row", "line"), "book messages")
    instruments = {instrument.symbol: instrument}
    named = pl.lit(instrument.symbol).alias("instrument")
    levels = with_grid(levels.with_columns(named), instruments)
    messages = messages.with_columns(named).join(
        _bad_levels(levels), left_on="_message", right_on="message", how="left"
    )
    sifted = sift("events", messages.sort("row"), (_message_checks(), order_checks()), source)
    plan = follow(sifted.passed)
    if plan.gaps:
        result.notes.append(f"book: {plan.gaps:,} gaps in the update ids; not known from each to the next snapshot")
    changes = _changes(plan, sifted.passed["_message"].to_numpy(), canonical("trades", levels, ["price"], ["size"]))
    unknown, stale = plan.unknown, plan.stale
    sifted = refuse("events", sifted, unknown, "no snapshot", source)
    sifted = refuse("events", sifted, stale[~unknown], "stale update", source)
    rows = build_depth(changes).with_columns(named).with_row_index("row", offset=1)
    built = sift_book(
        rows.with_columns(pl.col("row").cast(pl.Int64)),
        instruments,
        Source(stream.file, origin="rows built from book messages"),
        duplicates=False,
    )
    result.frames["book"] = conform("book", built.passed)
    result.quarantine = pl.concat([result.quarantine, sifted.quarantine, built.quarantine])
    result.counts |= {"events": sifted.counts, "book": built.counts}


def _bad_levels(levels: pl.DataFrame) -> pl.DataFrame:
    """The first reason against a level of each message that has one."""
    checks = [*price_checks(levels, ["price"]), *size_checks(levels, ["size"], zero_allowed=True)]
    reason = pl.coalesce(pl.when(failed.fill_null(True)).then(pl.lit(name)) for name, failed in checks)
    return levels.with_columns(reason.alias("_bad")).group_by("message").agg(pl.col("_bad").drop_nulls().first())


def _message_checks() -> list[Check]:
    ids = pl.col("final").is_null() | ((pl.col("kind") == DEPTH) & pl.col("first").is_null())
    return [
        ("unreadable", pl.col("_message").is_null() | pl.col("ts_event").is_null() | ids | ~pl.col("_readable")),
        *((reason, pl.col("_bad") == reason) for reason in ("bad price", "off tick", "bad size", "off lot")),
    ]


@dataclass
class Plan:
    """Which messages make the book, in which order and when."""

    unknown: np.ndarray
    """bool for each message: a change of a book not known then, before its snapshot or after a gap."""
    stale: np.ndarray
    """bool for each message: the book held this already (older than a snapshot, or seen before)."""
    gaps: int = 0
    steps: list[tuple[int, int, bool, bool]] = field(default_factory=list)
    """(message or -1, ts_event, whether the book is forgotten first, whether a row may follow)."""


def follow(messages: pl.DataFrame) -> Plan:
    """Binance's rules over messages in order of arrival: `kind`, `first`, `final`, `previous`, `ts_event`."""
    plan = Plan(np.zeros(len(messages), np.bool_), np.zeros(len(messages), np.bool_))
    waiting: list[int] = []
    known: int | None = None
    opening = False
    rows = messages.select("kind", "first", "final", "previous", "ts_event").rows()
    now = 0

    def take(index: int) -> bool:
        """Apply a diff where it continues the book; False at a gap."""
        nonlocal known, opening
        _, first, final, previous, _ = rows[index]
        if known is None:
            return False
        if final < known or (final == known and not (opening and previous is not None)):
            plan.stale[index] = True
            return True
        joins: bool
        if opening:
            joins = first <= known + 1 if previous is None else previous <= known
        else:
            joins = first == known + 1 if previous is None else previous == known
        if joins:
            known, opening = final, False
            plan.steps.append((index, now, False, True))
        return joins

    for index, (kind, _, final, _, stamp) in enumerate(rows):
        now = max(now, stamp)
        if kind != SNAPSHOT:
            if not take(index):
                if known is not None:
                    plan.gaps += 1
                    plan.steps.append((-1, now, True, True))
                    known = None
                waiting.append(index)
            continue
        if known is not None and final < known:
            plan.stale[index] = True
            continue
        known, opening = final, True
        plan.steps.append((index, now, True, True))
        start = len(plan.steps)
        rest = list(waiting)
        while rest and take(rest[0]):
            del rest[0]
        if rest:
            # A snapshot older than the diffs kept, or diffs with a gap among them: wait for the next one.
            del plan.steps[start - 1 :]
            plan.stale[index] = True
            known, waiting = None, [message for message in waiting if not plan.stale[message]]
        else:
            # One batch: the book is shown when all that was known then is in it.
            plan.steps[start - 1 :] = [(*step[:3], False) for step in plan.steps[start - 1 :]]
            plan.steps[-1] = (*plan.steps[-1][:3], True)
            waiting = []
    plan.unknown[waiting] = True
    return plan


def _changes(plan: Plan, message_of: np.ndarray, levels: pl.DataFrame) -> LevelChanges:
    """The levels of the planned messages in order, every step opened by a `clear` or by nothing."""
    steps = np.array(plan.steps, dtype=np.int64).reshape(-1, 4)
    index, stamp, clear, shows = steps.T
    message = np.where(index >= 0, message_of[index] if len(message_of) else -1, -1)
    keys = levels["message"].to_numpy()
    start, stop = np.searchsorted(keys, message, "left"), np.searchsorted(keys, message, "right")
    # One row of its own opens each step: a clear, or a change that is left out again below.
    lengths = stop - start + 1
    ends = np.cumsum(lengths)
    step = np.repeat(np.arange(len(steps)), lengths)
    place = np.arange(len(step)) - np.repeat(ends - lengths, lengths) - 1
    opens = place < 0
    taken = np.where(opens, 0, start[step] + place)

    def column(name: str) -> np.ndarray:
        values = levels[name].to_numpy()
        return np.where(opens, 0, values[taken] if len(values) else 0)

    last = np.zeros(len(step), np.bool_)
    last[ends - 1] = shows == 1
    changes = LevelChanges(
        stamp[step], column("ask"), column("price"), column("size"), opens & (clear[step] == 1), last
    )
    # A message without levels keeps its opening row, so that its batch still ends.
    return changes.take(np.flatnonzero(~opens | changes.clear))


def _add_trades(result: Imported, stream: Stream, trades: pl.DataFrame, instrument: Instrument) -> None:
    source = Source(stream.file, trades.select("row", "line"))
    off_book: Check = ("off market", pl.col("_execution").is_in(_ON_BOOK).not_())
    frame = trades.with_columns(pl.lit(instrument.symbol).alias("instrument"))
    sifted = sift_trades(frame, {instrument.symbol: instrument}, source, [off_book])
    result.frames["trades"] = conform("trades", sifted.passed)
    result.quarantine = pl.concat([result.quarantine, sifted.quarantine])
    result.counts["trades"] = sifted.counts
