"""The dataset folder: Parquet files of the canonical schema, with instruments and counts in `dataset.json` beside them.

dataset.json         format, sources, instruments, counts, time range
book.parquet         these three as far as they exist, sorted by instrument, then ts_event
trades.parquet
bars.parquet
quarantine.parquet   every rejected row with its reason
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from foxhunt import __version__
from foxhunt.data.frames import QUARANTINE_SCHEMA, SCHEMAS, empty_frame
from foxhunt.data.imported import CONSERVATION, Count, Counts, Imported
from foxhunt.data.schema import KINDS, Instrument, Kind
from foxhunt.errors import DataError

FORMAT: Final = 1
"""Version of the folder's layout, raised when it changes so that older programs refuse newer folders."""

INDEX: Final = "dataset.json"


@dataclass(frozen=True)
class Dataset:
    """A stored dataset; frames are read when asked for."""

    path: Path
    instruments: dict[str, Instrument]
    counts: Counts
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    time_range: tuple[int, int] | None
    """First and last `ts_event` over all kinds, ns UTC; None when there are no rows."""

    @classmethod
    def open(cls, path: Path | str) -> "Dataset":
        """Read the index of a dataset folder; raises `DataError` naming the file that is missing or damaged."""
        path = Path(path)
        index = path / INDEX
        if not index.is_file():
            raise DataError(f"{path} is not a dataset ({INDEX} is missing); make one with: foxhunt data import")
        try:
            record = json.loads(index.read_text(encoding="utf-8"))
            if record["format"] != FORMAT:
                raise DataError(f"format {record['format']}, this version reads {FORMAT}; import the data again")
            span = record["time_range"]
            return cls(
                path=path,
                instruments={s: Instrument.from_json(r) for s, r in record["instruments"].items()},
                counts={
                    stage: {symbol: Count(**count) for symbol, count in by_symbol.items()}
                    for stage, by_symbol in record["counts"].items()
                },
                sources=tuple(record["sources"]),
                notes=tuple(record["notes"]),
                time_range=None if span is None else (int(span[0]), int(span[1])),
            )
        except DataError as error:
            raise DataError(f"{index}: {error}") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{index} is damaged ({type(error).__name__}: {error}); import the data again") from error

    def kinds(self, symbol: str) -> tuple[Kind, ...]:
        """The kinds of data stored for an instrument."""
        self._require(symbol)
        return tuple(kind for kind in KINDS if symbol in self.counts.get(kind, {}) and self.file(kind).is_file())

    def file(self, kind: Kind) -> Path:
        """Where rows of a kind are stored."""
        return self.path / f"{kind}.parquet"

    def frame(self, kind: Kind, symbol: str) -> pl.DataFrame:
        """Rows of one kind and instrument in order of `ts_event`, canonical columns; empty when there are none.

        Raises `DataError` for an unknown symbol or an unreadable file.
        """
        self._require(symbol)
        if symbol not in self.counts.get(kind, {}):
            return empty_frame(kind)
        file = self.file(kind)
        if not file.is_file():
            raise DataError(f"{file} is missing although {INDEX} lists it; import the data again")
        with _readable(file):
            frame = pl.scan_parquet(file).filter(pl.col("instrument") == symbol).select(*SCHEMAS[kind]).collect()
        if frame.schema != pl.Schema(SCHEMAS[kind]):
            raise DataError(f"{file}: columns are not of the canonical types; import the data again")
        return frame

    def quarantine(self) -> pl.DataFrame:
        """Every rejected row, with file, row, reason and the record itself."""
        file = self.path / "quarantine.parquet"
        with _readable(file):
            return pl.read_parquet(file, columns=list(QUARANTINE_SCHEMA))

    def _require(self, symbol: str) -> None:
        if symbol not in self.instruments:
            raise DataError(f"{self.path} has no instrument {symbol!r}; it holds {', '.join(self.instruments)}")


def write_dataset(out: Path | str, imported: Imported, *, overwrite: bool = False) -> Dataset:
    """Store an import as a dataset folder, whole or not at all.

    Everything is written to a hidden folder beside `out`, which then takes its name. Raises `DataError` when `out`
    exists (unless `overwrite`, which replaces an earlier dataset and nothing else) or cannot be written.
    """
    out = Path(out)
    check_target(out, overwrite=overwrite)
    fresh = out.with_name(f".{out.name}.new-{os.getpid()}")
    try:
        fresh.mkdir(parents=True)
        _write_files(fresh, imported)
        _take_place(fresh, out)
    except OSError as error:
        raise DataError(f"cannot write {out}: {error.strerror or error}; choose another --out") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Dataset.open(out)


def check_target(out: Path, *, overwrite: bool) -> None:
    """Refuse a target that exists or lies in a folder that cannot be written, before the long work starts."""
    if out.exists():
        if not overwrite:
            raise DataError(f"{out} exists; choose another --out or pass --overwrite")
        if not out.is_dir() or (any(out.iterdir()) and not (out / INDEX).is_file()):
            raise DataError(f"{out} is not a dataset folder, so --overwrite leaves it alone; choose another --out")
    parent = next(p for p in out.absolute().parents if p.exists())
    if not parent.is_dir():
        raise DataError(f"cannot write {out}: {parent} is not a folder; choose another --out")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise DataError(f"cannot write {out}: no permission in {parent}; choose another --out")


def _write_files(folder: Path, imported: Imported) -> None:
    stamps: list[int] = []
    for kind, frame in imported.frames.items():
        # A stable sort keeps the source's order among rows of one stamp.
        frame.sort("instrument", "ts_event", maintain_order=True).write_parquet(
            folder / f"{kind}.parquet", compression="zstd", row_group_size=100_000
        )
        if len(frame):
            stamps += [frame["ts_event"].min(), frame["ts_event"].max()]  # type: ignore[list-item]  # Int64 column
    imported.quarantine.select(*QUARANTINE_SCHEMA).write_parquet(folder / "quarantine.parquet", compression="zstd")
    index: dict[str, Any] = {
        "format": FORMAT,
        "foxhunt": __version__,
        "sources": imported.sources,
        "notes": imported.notes,
        "instruments": {symbol: i.to_json() for symbol, i in sorted(imported.instruments.items())},
        "law": CONSERVATION,
        "counts": {
            stage: {symbol: count.to_json() for symbol, count in sorted(by_symbol.items())}
            for stage, by_symbol in imported.counts.items()
        },
        "time_range": [min(stamps), max(stamps)] if stamps else None,
    }
    (folder / INDEX).write_text(json.dumps(index, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _take_place(fresh: Path, out: Path) -> None:
    """Rename `fresh` to `out`; an earlier dataset there is set aside first and comes back if the rename fails."""
    if not out.exists():
        fresh.replace(out)
        return
    aside = out.with_name(f".{out.name}.old-{os.getpid()}")
    out.replace(aside)
    try:
        fresh.replace(out)
    except OSError:
        aside.replace(out)
        raise
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn what polars raises on a damaged or missing file into one line."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{file} is damaged or missing ({str(error).splitlines()[0]}); import the data again"
        ) from error
