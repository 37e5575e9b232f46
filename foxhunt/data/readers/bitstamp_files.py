"""The files of a Bitstamp recording as tables: order events, trades and raw logs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import polars as pl

from foxhunt.data.readers.files import Part, csv_frame, header, load, number
from foxhunt.errors import DataError

_EVENT_COLUMNS: Final = ("id", "timestamp", "price", "volume", "action", "direction")
_TRADE_COLUMNS: Final = ("timestamp", "exchange_timestamp", "price", "amount", "side")


class Table(NamedTuple):
    """Rows of one role: `row`, `arrival` and `exchange` (ms, null where absent), then the role's own columns."""

    file: str
    frame: pl.DataFrame


def role_of(start: bytes) -> Literal["events", "trades", "log"] | None:
    """What a file that starts like this holds; None when it is not Bitstamp's."""
    columns = {name.replace(".", "_") for name in header(start)}
    if columns.issuperset(_EVENT_COLUMNS):
        return "events"
    if columns.issuperset(_TRADE_COLUMNS):
        return "trades"
    words = start.split(b"\n", 1)[0].split(b" ", 2)
    known = (b"order_created", b"order_changed", b"order_deleted", b"order_book", b"trade")
    return "log" if len(words) == 3 and words[0].isdigit() and words[1] in known else None


def load_tables(paths: Sequence[Path], notes: list[str]) -> tuple[Table, Table | None]:
    """Events and trades of all files; a log's own events count only when no events file is given.

    Raises `DataError` for a file of another kind, files of one role that overlap, and when there are no events.
    """
    events: list[Table] = []
    trades: list[Table] = []
    logs: list[tuple[str, pl.DataFrame]] = []
    for part in (part for path in paths for part in load(path)):
        role = role_of(part.data[:4096])
        if role is None:
            raise DataError(
                f"{part.name} is no bitstamp file; its first line has none of its forms (foxhunt data import --help)"
            )
        if role == "events":
            events.append(_csv_events(part))
        elif role == "trades":
            trades.append(_csv_trades(part))
        else:
            logs.append((part.name, _log_lines(part)))
    for name, lines in logs:
        trades.append(_log_trades(name, lines))
        books = lines.filter(pl.col("kind") == "order_book").height
        notes.append(f"{Path(name).name}: {books:,} order_book snapshots of the log are not used")
    if logs and events:
        notes.append("order events of the log are not used: the events file has them")
    events = events or [_log_events(name, lines) for name, lines in logs]
    if not events:
        raise DataError(f"{paths[0]}: no order events among the files; add the events file to the command")
    return _join(events), _join(trades) if trades else None


def _join(tables: list[Table]) -> Table:
    """Tables of one role in order of time; row numbers go on from file to file."""
    if len(tables) == 1:
        return tables[0]
    spans = sorted(
        (*table.frame.select(pl.col("arrival").min(), pl.col("arrival").max().alias("end")).row(0), index)
        for index, table in enumerate(tables)
    )
    tables = [tables[index] for _, _, index in spans]
    for (_, end, _), (start, _, _), one, other in zip(spans, spans[1:], tables, tables[1:], strict=False):
        if start < end:
            raise DataError(f"{one.file} and {other.file} hold the same time; import them apart")
    frame = pl.concat([t.frame for t in tables]).with_columns(pl.int_range(1, pl.len() + 1).alias("row"))
    return Table(" + ".join(t.file for t in tables), frame)


def _csv_events(part: Part) -> Table:
    frame = csv_frame(part)
    # The 2015 recordings spell the column with a dot and count volume in whole 1e-8.
    old = "exchange.timestamp" in frame.columns
    exchange = next((c for c in ("exchange_timestamp", "exchange.timestamp") if c in frame.columns), None)
    return Table(
        part.name,
        frame.select(
            "row",
            pl.col("timestamp").cast(pl.Int64, strict=False).alias("arrival"),
            (pl.col(exchange) if exchange else pl.lit(None)).cast(pl.Int64, strict=False).alias("exchange"),
            pl.col("id").cast(pl.Int64, strict=False),
            number("price"),
            (number("volume") / 1e8 if old else number("volume")).alias("size"),
            "action",
            "direction",
        ),
    )


def _csv_trades(part: Part) -> Table:
    frame = csv_frame(part)
    exchange = "exchange_timestamp" in frame.columns
    return Table(
        part.name,
        frame.select(
            "row",
            pl.col("timestamp").cast(pl.Int64, strict=False).alias("arrival"),
            (pl.col("exchange_timestamp") if exchange else pl.lit(None)).cast(pl.Int64, strict=False).alias("exchange"),
            number("price"),
            number("amount").alias("size"),
            pl.col("side").replace_strict({"buy": "B", "sell": "A"}, default="N").alias("side"),
        ),
    )


def _log_lines(part: Part) -> pl.DataFrame:
    lines = pl.Series("line", part.data.decode("utf-8", errors="replace").splitlines())
    return (
        lines.to_frame()
        .with_row_index("row", offset=1)
        .select(
            pl.col("row").cast(pl.Int64),
            pl.col("line").str.extract(r"^(\d+) ").cast(pl.Int64, strict=False).alias("arrival"),
            pl.lit(None, pl.Int64).alias("exchange"),
            pl.col("line").str.extract(r"^\d+ (\w+)").alias("kind"),
            "line",
        )
    )


def _json_number(key: str) -> pl.Expr:
    return pl.col("line").str.extract(rf'"{key}": "?([-+.\deE]+)').cast(pl.Float64, strict=False)


def _log_events(name: str, lines: pl.DataFrame) -> Table:
    # A line that is neither a trade nor a snapshot is an event, readable or not: a log may end in half a line.
    frame = lines.filter(~pl.col("kind").is_in(["trade", "order_book"]).fill_null(False)).select(
        "row",
        "arrival",
        "exchange",
        pl.col("line").str.extract(r'"id": (\d+)').cast(pl.Int64, strict=False).alias("id"),
        _json_number("price").alias("price"),
        _json_number("amount").alias("size"),
        pl.col("kind").str.strip_prefix("order_").alias("action"),
        _json_number("order_type").replace_strict({0.0: "bid", 1.0: "ask"}, default=None).alias("direction"),
    )
    return Table(name, frame)


def _log_trades(name: str, lines: pl.DataFrame) -> Table:
    frame = lines.filter(pl.col("kind") == "trade").select(
        "row",
        "arrival",
        "exchange",
        _json_number("price").alias("price"),
        _json_number("amount").alias("size"),
        pl.lit("N").alias("side"),
    )
    return Table(name, frame)
