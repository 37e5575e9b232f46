"""What a reader hands over: canonical frames, instruments, the quarantine ledger and counts: nothing is lost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import polars as pl

from foxhunt.data.frames import conform, empty_frame, empty_quarantine
from foxhunt.data.schema import KINDS, Instrument, Kind
from foxhunt.errors import DataError

CONSERVATION: Final = (
    "rows read = rows out + rows quarantined, for every stage and symbol; order events count as out when applied to "
    "the book, whose rows are counted apart"
)
"""The law every dataset states and `Count` enforces."""

STAGES: Final = ("events", *KINDS)


@dataclass(frozen=True)
class Count:
    """Rows of one stage (events, book, trades, bars) and one symbol: `read = out + sum(quarantined)`."""

    read: int
    out: int
    quarantined: dict[str, int] = field(default_factory=dict)
    """Reason -> rows; the reasons are those of `schema.REASONS`."""
    origin: str = "source rows"
    """What was read: rows of the source, or rows this program derived and from what."""

    def __post_init__(self) -> None:
        if self.read != self.out + sum(self.quarantined.values()):
            raise DataError(f"{self.read} rows read, but {self.out} out and {self.quarantined} quarantined")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON-ready form."""
        return {"read": self.read, "out": self.out, "quarantined": self.quarantined, "origin": self.origin}


Counts = dict[str, dict[str, Count]]
"""Stage -> symbol -> count."""


@dataclass
class Imported:
    """The result of reading some source files, ready for `store.write_dataset`."""

    instruments: dict[str, Instrument]
    frames: dict[Kind, pl.DataFrame]
    """Canonical columns of each kind present; the store sorts them by instrument and time."""
    quarantine: pl.DataFrame = field(default_factory=empty_quarantine)
    counts: Counts = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    """Source files, as the user named them."""
    notes: list[str] = field(default_factory=list)
    """What a user should know about this import: inferred ticks, inferred aggressors, shifted stamps."""

    def __post_init__(self) -> None:
        self.frames = {kind: conform(kind, frame) for kind, frame in self.frames.items()}
        if not self.counts:
            self.counts = {kind: plain_counts(frame) for kind, frame in self.frames.items()}


def plain_counts(frame: pl.DataFrame, origin: str = "source rows") -> dict[str, Count]:
    """Counts by symbol of a frame from which nothing was quarantined."""
    sizes = frame.group_by("instrument").len().sort("instrument")
    return {symbol: Count(rows, rows, origin=origin) for symbol, rows in sizes.iter_rows()}


def merge(parts: Iterable[Imported]) -> Imported:
    """One import of several; counts of the same stage and symbol add up.

    Raises `DataError` when two parts describe one symbol differently or hold the same time of it.
    """
    parts = list(parts)
    _refuse_overlap(parts)
    instruments: dict[str, Instrument] = {}
    counts: Counts = {}
    for part in parts:
        for symbol, instrument in part.instruments.items():
            if instruments.setdefault(symbol, instrument) != instrument:
                raise DataError(
                    f"{part.sources[0]}: instrument {symbol} differs from the sources before it; "
                    "give --tick-size and --lot-size, or import the files apart"
                )
        for stage, by_symbol in part.counts.items():
            for symbol, count in by_symbol.items():
                known = counts.setdefault(stage, {}).get(symbol)
                counts[stage][symbol] = count if known is None else _add(known, count)
    frames: dict[Kind, pl.DataFrame] = {
        kind: pl.concat([part.frames.get(kind, empty_frame(kind)) for part in parts])
        for kind in KINDS
        if any(kind in part.frames for part in parts)
    }
    return Imported(
        instruments=instruments,
        frames=frames,
        quarantine=pl.concat([part.quarantine for part in parts]),
        counts=counts,
        sources=[source for part in parts for source in part.sources],
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _refuse_overlap(parts: list[Imported]) -> None:
    """Two files that cover one time of an instrument would double its rows."""
    spans: dict[tuple[Kind, str], list[tuple[int, int, str]]] = {}
    for part in parts if len(parts) > 1 else []:
        for kind, frame in part.frames.items():
            ranges = frame.group_by("instrument").agg(
                pl.col("ts_event").min().alias("a"), pl.col("ts_event").max().alias("b")
            )
            for symbol, first, last in ranges.iter_rows():
                spans.setdefault((kind, symbol), []).append((first, last, part.sources[0]))
    for (stage, symbol), ranges_of in spans.items():
        for (_, end, one), (start, _, other) in pairwise(sorted(ranges_of)):
            if start < end:
                raise DataError(f"{one} and {other} both hold {stage} of {symbol} for the same time; import them apart")


def _add(a: Count, b: Count) -> Count:
    reasons: Mapping[str, int] = {
        reason: a.quarantined.get(reason, 0) + b.quarantined.get(reason, 0)
        for reason in dict.fromkeys((*a.quarantined, *b.quarantined))
    }
    return Count(a.read + b.read, a.out + b.out, dict(reasons), a.origin)
