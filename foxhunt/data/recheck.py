"""Checks of a stored dataset: the same row checks as at import, and the counts against the rows."""

from typing import NamedTuple

import polars as pl

from foxhunt.data.schema import KINDS, Kind
from foxhunt.data.store import INDEX, Dataset
from foxhunt.data.validate import Sifted, Source, sift_bars, sift_book, sift_trades
from foxhunt.errors import DataError


class Failure(NamedTuple):
    """Stored rows of one kind and instrument that break one rule."""

    kind: Kind
    symbol: str
    reason: str
    rows: int
    first_row: int
    """Place of the first one among the instrument's rows, from 1."""


def recheck(dataset: Dataset) -> list[Failure]:
    """Apply every row check to a stored dataset; an empty list means that all rows hold.

    Raises `DataError` when a file cannot be read, or rows or ledger entries are missing against `dataset.json`.
    """
    failures: list[Failure] = []
    for symbol in dataset.instruments:
        for kind in (k for k in KINDS if symbol in dataset.counts.get(k, {})):
            frame = dataset.frame(kind, symbol)
            if len(frame) != (expected := dataset.counts[kind][symbol].out):
                raise DataError(f"{dataset.file(kind)} holds {len(frame)} rows of {symbol}, {INDEX} says {expected}")
            failures += _failures(kind, symbol, _sift(dataset, kind, frame))
    listed = sum(sum(c.quarantined.values()) for by_symbol in dataset.counts.values() for c in by_symbol.values())
    if (entries := len(dataset.quarantine())) != listed:
        raise DataError(f"{dataset.path / 'quarantine.parquet'} holds {entries} rows, {INDEX} says {listed}")
    return failures


def _sift(dataset: Dataset, kind: Kind, frame: pl.DataFrame) -> Sifted:
    rows = frame.with_row_index("row", offset=1)
    source = Source(str(dataset.file(kind)))
    if kind == "book":
        return sift_book(rows, dataset.instruments, source, duplicates=False)
    return (sift_trades if kind == "trades" else sift_bars)(rows, dataset.instruments, source)


def _failures(kind: Kind, symbol: str, sifted: Sifted) -> list[Failure]:
    found = sifted.quarantine.group_by("reason").agg(pl.len().alias("rows"), pl.col("row").min().alias("first"))
    return [Failure(kind, symbol, reason, rows, first) for reason, rows, first in found.sort("reason").iter_rows()]
