"""One reader a format; each yields canonical frames and quarantined rows; `read_sources` finds and joins them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from foxhunt.data.imported import Imported, merge
from foxhunt.data.readers.files import BINARY, head, header, load, require_file, suffix, table_columns
from foxhunt.data.readers.options import ImportOptions
from foxhunt.errors import DataError


class Reader(Protocol):
    """A module of this package that reads one format."""

    def read(self, paths: Sequence[Path], options: ImportOptions) -> Imported:
        """Read source files; raises `DataError` naming the file and what is wrong with it."""
        ...


@dataclass(frozen=True)
class Format:
    """How a format is found and read."""

    module: str
    together: bool
    """Files of this format are read in one go (they complete each other), not one by one."""
    help: str


FORMATS: Final[dict[str, Format]] = {
    "bitstamp": Format("bitstamp", True, "L3 order events, trades and raw logs of Bitstamp's live feed"),
    "dbn": Format("dbn", True, "Databento books, orders, quotes, trades and bars, with definition files beside them"),
    "binance": Format("binance", True, "raw Binance spot and futures streams: snapshots, diffs and trades"),
    "tardis": Format("tardis", True, "Tardis CSV: trades, quotes, book snapshots and book changes"),
    "lobster": Format("lobster", True, "LOBSTER message and orderbook CSV pairs"),
    "lean": Format("lean", True, "LEAN zips of US equities: quote and trade ticks, bars"),
    "mbp": Format("mbp", False, "snapshots of N levels a side in CSV or Parquet, through a column map"),
    "bars": Format("bars", False, "OHLCV bars in CSV, Parquet or Feather"),
}
"""Every format that can be imported."""


def read_sources(
    sources: Iterable[Path | str],
    options: ImportOptions | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Imported:
    """Read files and folders of any format into one import.

    `progress` is told what is being read. Files of a folder that are no market data (read-mes, licences) are noted and
    left out; a file named by itself must be readable. Raises `DataError` in one line for anything that cannot be
    read, and when no row survives the checks.
    """
    options = options or ImportOptions()
    if options.format not in ("auto", *FORMATS):
        raise DataError(f"unknown format {options.format!r}; choose from auto, {', '.join(FORMATS)}")
    unused: list[str] = []
    groups = _group(sources, options, unused)
    if not groups:
        raise DataError("no market data among the sources; name files or folders")
    parts: list[Imported] = []
    for name, paths in groups:
        progress(f"{paths[0].name}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "") + f" as {name}")
        reader = cast(Reader, import_module(f"foxhunt.data.readers.{FORMATS[name].module}"))
        parts.append(reader.read(paths, options))
    result = merge(parts)
    if unused:
        result.notes.append(f"not used: {', '.join(unused)}")
    _require_rows(result)
    return result


def detect(path: Path) -> str | None:
    """The format of a file by its content and name, None when no reader knows it."""
    # Reader modules are imported here, so that naming a format needs none but its own.
    from foxhunt.data.readers import bars, binance_lines, bitstamp, dbn_file, lean, lobster, mbp, tardis

    require_file(path)
    if lobster.recognises(path):
        return "lobster"
    if lean.recognises(path):
        return "lean"
    start = head(path)
    if dbn_file.recognises(path, start):
        return "dbn"
    if bitstamp.recognises(path, start):
        return "bitstamp"
    if binance_lines.recognises(start):
        return "binance"
    for columns in _tables(path, start):
        if tardis.recognises(columns):
            return "tardis"
        if mbp.recognises(columns):
            return "mbp"
        if bars.recognises(columns):
            return "bars"
    return None


def _tables(path: Path, start: bytes) -> list[list[str]]:
    """Column names of the tables in a file."""
    if suffix(path) in BINARY or path.suffix.lower() == ".zip":
        return [table_columns(part) for part in load(path)]
    return [header(start)]


def _group(sources: Iterable[Path | str], options: ImportOptions, unused: list[str]) -> list[tuple[str, list[Path]]]:
    """Files by format: one group for formats read together, one a file for the others."""
    groups: list[tuple[str, list[Path]]] = []
    shared: dict[str, list[Path]] = {}
    for source in sources:
        path = Path(source)
        inside = path.is_dir()
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if inside else [path]:
            require_file(file)
            name = _format_of(file, options, inside, unused)
            if name is None:
                continue
            if FORMATS[name].together:
                if name not in shared:
                    shared[name] = []
                    groups.append((name, shared[name]))
                shared[name].append(file)
            else:
                groups.append((name, [file]))
    return groups


def _format_of(file: Path, options: ImportOptions, inside: bool, unused: list[str]) -> str | None:
    """The user's format, or the one found; files of a folder that no reader knows are noted."""
    if options.format != "auto" and not inside:
        return options.format
    found = detect(file)
    if found is None and options.map is not None and suffix(file) in ("csv", "parquet", "txt"):
        return "mbp"
    if found is None and not inside:
        raise DataError(
            f"{file} is of no known format; name one with --format ({', '.join(FORMATS)}) "
            "or describe its columns with --map"
        )
    if found is None or options.format not in ("auto", found):
        unused.append(file.name)
        return None
    return found


def _require_rows(result: Imported) -> None:
    """Refuse an import of which nothing is left: almost always a wrong tick, time zone or map."""
    if any(len(frame) for frame in result.frames.values()):
        return
    reasons = result.quarantine.group_by("reason").len().sort("len", descending=True)
    found = "; ".join(f"{reason}: {rows:,}" for reason, rows in reasons.iter_rows()) or "no rows at all"
    raise DataError(f"{result.sources[0]}: every row was rejected ({found}); check tick, time zone and map")


__all__ = ["FORMATS", "Format", "ImportOptions", "Reader", "detect", "read_sources"]
