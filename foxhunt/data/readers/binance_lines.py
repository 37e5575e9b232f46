"""Raw Binance streams as tables: `<stamp of arrival> <JSON>` lines with diffs, trades and REST snapshots among them.

Fields are taken by patterns instead of a JSON parser: a line that is cut short or holds anything else then fails by
itself, and the rest of the file stays readable at full speed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from foxhunt.data.readers.files import Part, load
from foxhunt.data.units import to_stamps
from foxhunt.errors import DataError

DEPTH: Final = "depthUpdate"
SNAPSHOT: Final = "snapshot"
TRADES: Final = ("trade", "aggTrade")
OTHERS: Final = ("bookTicker", "markPriceUpdate", "markPrice", "kline", "forceOrder", "24hrTicker", "24hrMiniTicker")
"""Streams that recorders keep beside the book and that hold neither book changes nor trades."""

_NUMBER: Final = r"""["']?(\d+(?:\.\d+)?)["']?"""
_LEVELS: Final = r'\s*:\s*(\[[\[\]",.\d\s]*?\])\s*(?:,\s*"[a-zA-Z]|\})'
"""A list of [price, size] lists up to the next key or the end of its object."""
_LEVEL: Final = r'\[\s*"?\d+(?:\.\d+)?"?\s*,\s*"?\d+(?:\.\d+)?"?\s*\]'


class Stream(NamedTuple):
    """Lines of all files in order of arrival."""

    file: str
    lines: pl.DataFrame
    """`row`, `arrival` (ns), `kind`, `symbol`, `line`."""


def recognises(start: bytes) -> bool:
    """Whether a file starts like a recording of a Binance stream."""
    stamp, _, rest = start.split(b"\n", 1)[0].partition(b" ")
    known = (b'"stream"', b'"depthUpdate"', b'"lastUpdateId"', b'"aggTrade"', b'"e":"trade"', b'"e": "trade"')
    return stamp.isdigit() and rest.lstrip().startswith(b"{") and any(word in rest for word in known)


def load_lines(paths: Sequence[Path]) -> Stream:
    """Lines of all files, files in order of their first stamp; row numbers go on from file to file.

    Raises `DataError` for a file that is damaged or holds no stream.
    """
    parts = [part for path in paths for part in load(path)]
    tables = [(_lines(part), part.name) for part in parts]
    tables.sort(key=lambda pair: int(pair[0]["arrival"].drop_nulls().head(1).sum()))
    lines = pl.concat([table for table, _ in tables]).with_columns(pl.int_range(1, pl.len() + 1).alias("row"))
    return Stream(" + ".join(name for _, name in tables), lines)


def _lines(part: Part) -> pl.DataFrame:
    text = [line for line in part.data.decode("utf-8", errors="replace").split("\n") if line.strip()]
    if not text:
        raise DataError(f"{part.name} is empty")
    line = pl.col("line")
    stamp = line.str.extract(r"^(\d{1,19})\s+\{").cast(pl.Int64, strict=False)
    whole = line.str.contains(r"\}\s*$")
    kind = pl.coalesce(
        line.str.extract(r'"e"\s*:\s*"(\w+)"'),
        pl.when(line.str.contains('"lastUpdateId"', literal=True)).then(pl.lit(SNAPSHOT)),
        line.str.extract(r'"stream"\s*:\s*"[^@"]*@(\w+)'),
    )
    frame = pl.DataFrame({"line": text}).with_columns(stamp.alias("arrival"), kind.alias("kind"))
    if frame["kind"].null_count() == len(frame):
        raise DataError(f"{part.name} holds no Binance stream; its lines must be a stamp, a blank and JSON")
    return frame.select(
        pl.lit(0, pl.Int64).alias("row"),
        to_stamps(frame["arrival"], "UTC").alias("arrival"),
        pl.when(whole).then("kind").alias("kind"),
        line.str.extract(r'"s"\s*:\s*"(\w+)"').alias("symbol"),
        "line",
    )


def depth_table(lines: pl.DataFrame) -> pl.DataFrame:
    """Diffs and snapshots with `first`, `final`, `previous` update ids, `exchange` (ns or null), `bids` and `asks`.

    An id or a side that cannot be read is null; `previous` is null on spot markets.
    """
    line = pl.col("line")
    snapshot = pl.col("kind") == SNAPSHOT
    table = lines.filter(pl.col("kind").is_in([DEPTH, SNAPSHOT])).with_columns(
        _integer("U").alias("first"),
        pl.when(snapshot).then(_integer("lastUpdateId")).otherwise(_integer("u")).alias("final"),
        _integer("pu").alias("previous"),
        pl.coalesce(_integer("T"), _integer("E")).alias("exchange"),
        *(
            pl.when(snapshot)
            .then(line.str.extract(rf'"{long}"{_LEVELS}'))
            .otherwise(line.str.extract(rf'"{short}"{_LEVELS}'))
            .alias(long)
            for short, long in (("b", "bids"), ("a", "asks"))
        ),
    )
    return table.with_columns(to_stamps(table["exchange"], "UTC").alias("exchange"))


def level_table(depth: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Every level of every message, and for each message whether all its levels could be read.

    The table has `message` (place in `depth`), `ask` (0 bid, 1 ask), `price` and `size` as float64.
    """
    tables: list[pl.DataFrame] = []
    readable = pl.Series("readable", np.ones(len(depth), np.bool_))
    messages = pl.Series("message", np.arange(len(depth)), pl.Int64)
    for side, name in enumerate(("bids", "asks")):
        text = depth[name]
        found = text.str.extract_all(_LEVEL)
        # Each level has one bracket of its own, and the list one more.
        expected = text.str.count_matches("[", literal=True) - 1
        readable &= (found.list.len() == expected).fill_null(False)
        pairs = pl.DataFrame({"message": messages, "pair": found}).explode("pair").drop_nulls("pair")
        numbers = pairs["pair"].str.extract_groups(rf"\[\s*{_NUMBER}\s*,\s*{_NUMBER}").struct.unnest()
        tables.append(
            pl.DataFrame(
                {
                    "message": pairs["message"],
                    "ask": pl.Series(np.full(len(pairs), side), dtype=pl.Int64),
                    "price": numbers[:, 0].cast(pl.Float64, strict=False),
                    "size": numbers[:, 1].cast(pl.Float64, strict=False),
                }
            )
        )
    return pl.concat(tables).sort("message", maintain_order=True), readable


def trade_table(lines: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Trades of one kind: `row`, `arrival`, `exchange` (ns), `price`, `size`, `side` (the aggressor), `line`."""
    line = pl.col("line")
    maker = line.str.extract(r'"m"\s*:\s*(true|false)')
    table = lines.filter(pl.col("kind") == kind).select(
        "row",
        "arrival",
        pl.coalesce(_integer("T"), _integer("E")).alias("exchange"),
        line.str.extract(rf'"p"\s*:\s*{_NUMBER}').cast(pl.Float64, strict=False).alias("price"),
        line.str.extract(rf'"q"\s*:\s*{_NUMBER}').cast(pl.Float64, strict=False).alias("size"),
        # `m` says that the buyer was resting, so the seller was the aggressor.
        maker.replace_strict({"true": "A", "false": "B"}, default="N").alias("side"),
        line.str.extract(r'"X"\s*:\s*"(\w+)"').alias("_execution"),
        "line",
    )
    return table.with_columns(to_stamps(table["exchange"], "UTC").alias("exchange"))


def _integer(key: str) -> pl.Expr:
    return pl.col("line").str.extract(rf'"{key}"\s*:\s*(\d{{1,19}})\b').cast(pl.Int64, strict=False)
