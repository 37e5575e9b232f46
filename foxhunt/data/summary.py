"""What a dataset holds, as tables for the terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from foxhunt.data.imported import CONSERVATION, STAGES
from foxhunt.data.recheck import Failure
from foxhunt.data.schema import PRICE_SCALE, Instrument
from foxhunt.data.store import Dataset
from foxhunt.data.validate import within_session

_GAP_NS: Final = 60_000_000_000
"""Silence of the book within a session that counts as a gap."""


def import_summary(dataset: Dataset) -> RenderableType:
    """Rows read, out and quarantined by reason for every stage and symbol, with the notes of the import."""
    table = _table("stage", "symbol", "read", "out", "quarantined", numbers=(2, 3))
    for stage in STAGES:
        for symbol, count in dataset.counts.get(stage, {}).items():
            reasons = ", ".join(f"{reason} {rows:,}" for reason, rows in count.quarantined.items()) or "-"
            table.add_row(stage, symbol or "(none)", f"{count.read:,}", f"{count.out:,}", reasons)
    total = len(dataset.quarantine())
    ledger = f"{total:,} rejected rows with reasons in {dataset.path / 'quarantine.parquet'}" if total else "empty"
    return Group(
        _headline(dataset),
        table,
        *_texts((f"law: {CONSERVATION}", f"quarantine: {ledger}")),
        *_notes(dataset),
    )


def dataset_summary(dataset: Dataset) -> RenderableType:
    """Instruments and their grids, then what each kind of data looks like."""
    instruments = _table("symbol", "tick", "lot", "money a point", "sessions", numbers=(1, 2))
    for symbol, instrument in dataset.instruments.items():
        hours = " ".join(f"{start}-{stop}" for start, stop in instrument.sessions)
        instruments.add_row(
            symbol,
            instrument.tick_size,
            instrument.lot_size,
            f"{instrument.multiplier:g} {instrument.currency}",
            f"{hours} {instrument.timezone}" if hours else "round the clock",
        )
    kinds = [table for table in (_book_table(dataset), _trades_table(dataset), _bars_table(dataset)) if table.row_count]
    quarantined = Text(f"quarantine: {len(dataset.quarantine()):,} rows")
    return Group(_headline(dataset), instruments, *kinds, quarantined, *_notes(dataset))


def failures_table(dataset: Dataset, failures: Sequence[Failure]) -> RenderableType:
    """The rules that stored rows break."""
    table = _table("kind", "symbol", "reason", "rows", "first row", numbers=(3, 4))
    for failure in failures:
        table.add_row(failure.kind, failure.symbol, failure.reason, f"{failure.rows:,}", f"{failure.first_row:,}")
    return Group(_headline(dataset), table)


def _book_table(dataset: Dataset) -> Table:
    table = _table("book", "rows", "gaps", "spread", "best size", "ten levels", "one-sided", numbers=range(1, 7))
    table.caption = "medians; spread in ticks, sizes in lots a side; gaps: silence of over 60 s within a session"
    for symbol, instrument in dataset.instruments.items():
        frame = dataset.frame("book", symbol)
        if not len(frame):
            continue
        sizes = pl.sum_horizontal(c for c in frame.columns if "_sz_" in c)
        spread, best, depth, one_sided = frame.select(
            ((pl.col("ask_px_00") - pl.col("bid_px_00")) / instrument.tick).median().alias("spread"),
            pl.mean_horizontal("bid_sz_00", "ask_sz_00").median().alias("best"),
            (sizes / 2).median().alias("depth"),
            pl.any_horizontal(pl.col("bid_px_00", "ask_px_00").is_null()).mean().alias("one_sided"),
        ).row(0)
        table.add_row(
            symbol,
            f"{len(frame):,}",
            f"{_gaps(frame, instrument):,}",
            *(_number(value) for value in (spread, best, depth)),
            f"{one_sided:.2%}",
        )
    return table


def _trades_table(dataset: Dataset) -> Table:
    table = _table("trades", "rows", "lots", "bought", "sold", "unsigned", "prices", numbers=range(1, 6))
    for symbol in dataset.instruments:
        frame = dataset.frame("trades", symbol)
        if not len(frame):
            continue
        by_side = dict(frame.group_by("side").agg(pl.col("size").sum()).iter_rows())
        volume = sum(by_side.values())
        shares = [by_side.get(side, 0) / volume for side in "BAN"]
        low, high = frame.select(pl.col("price").min(), pl.col("price").max().alias("high")).row(0)
        table.add_row(
            symbol, f"{len(frame):,}", f"{volume:,}", *(f"{share:.1%}" for share in shares), _prices(low, high)
        )
    return table


def _bars_table(dataset: Dataset) -> Table:
    table = _table("bars", "rows", "every", "missing", "lots", "prices", numbers=range(1, 5))
    for symbol in dataset.instruments:
        frame = dataset.frame("bars", symbol)
        if not len(frame):
            continue
        steps = Counter(frame["ts_event"].diff().drop_nulls().to_list())
        every = steps.most_common(1)[0][0] if steps else 0
        missing = sum((step // every - 1) * times for step, times in steps.items())
        volume = "-" if frame["volume"].null_count() == len(frame) else f"{frame['volume'].sum():,}"
        low, high = frame.select(pl.col("low").min(), pl.col("high").max()).row(0)
        table.add_row(symbol, f"{len(frame):,}", f"{every / 1e9:g} s", f"{missing:,}", volume, _prices(low, high))
    return table


def _gaps(frame: pl.DataFrame, instrument: Instrument) -> int:
    """Silences longer than a minute whose ends lie in one session of one local day."""
    local = pl.from_epoch("ts_event", "ns").dt.replace_time_zone("UTC").dt.convert_time_zone(instrument.timezone)
    place = [local.dt.date(), *(within_session(local.dt.time(), *hours) for hours in instrument.sessions)]
    together = pl.all_horizontal(p == p.shift(1) for p in place)
    return int(frame.select((together & (pl.col("ts_event").diff() > _GAP_NS)).sum()).item())


def _headline(dataset: Dataset) -> Text:
    if dataset.time_range is None:
        return Text(f"{dataset.path}: no rows")
    first, last = (
        datetime.fromtimestamp(t // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S") for t in dataset.time_range
    )
    return Text(f"{dataset.path}: {first} to {last} UTC")


def _notes(dataset: Dataset) -> list[Text]:
    return _texts(f"note: {note}" for note in dataset.notes)


def _prices(low: int, high: int) -> str:
    return f"{low / PRICE_SCALE:.10g} to {high / PRICE_SCALE:.10g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.10g}"


def _table(*columns: str, numbers: Iterable[int]) -> Table:
    table = Table(*columns, box=box.SIMPLE_HEAD, caption_justify="left")
    for index in numbers:
        table.columns[index].justify = "right"
    return table


def _texts(lines: Iterable[str]) -> list[Text]:
    return [Text(line) for line in lines]
