"""Import speed of every reader, beside what its parser alone takes (polars, or Databento's decoder).

Each case reads its files again and again, in one process and on as many threads as polars takes. The figure a user can
rely on is that of the slowest imports: rows a second at the 95th percentile of time.
"""

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import polars as pl
from rich.console import Console
from rich.table import Table

from foxhunt import __version__
from foxhunt.bench.results import write_results
from foxhunt.data.imported import Imported
from foxhunt.data.readers import ImportOptions, read_sources
from foxhunt.data.sample import sample_paths
from foxhunt.errors import MissingExtraError

RESULTS: Final = Path("benchmarks/results/data.csv")
SECONDS: Final = 3.0
"""Least time spent on each figure, after one unmeasured run."""
IMPORTS: Final = 20
"""Least number of imports behind a figure: fewer have no 95th percentile."""
_ENVIRONMENT: Final = ("foxhunt", "polars", "databento-dbn", "python", "machine", "cores", "load")
COLUMNS: Final = (
    *("case", "rows", "megabytes", "imports", "median_rows_per_s", "p95_rows_per_s", "parser", "parser_rows_per_s"),
    *_ENVIRONMENT,
)
"""Columns of the results file; `p95_rows_per_s` is the speed that 95 % of the imports reach."""


@dataclass(frozen=True)
class Case:
    """One import to time, and the parser beside it."""

    name: str
    files: tuple[Path, ...]
    options: ImportOptions
    parser: str
    parse: Callable[[], object]
    """Parses the same files without checking or building anything."""


def run(out: Path | None = None) -> None:
    """Time every case whose files are there; print a table and write a CSV (default benchmarks/results/data.csv).

    Market data is looked for in FOXHUNT_DATA, or ../shared/data beside the working folder; the sample order book of
    the demo extra is timed in any case.
    """
    out = out or RESULTS
    rows = [measure(case) for case in cases(Path(os.environ.get("FOXHUNT_DATA", "../shared/data")))]
    table = Table("case", "rows", "median/s", "95 % reach/s", "parser alone/s", "parser")
    for row in rows:
        speeds = (row["rows"], row["median_rows_per_s"], row["p95_rows_per_s"], row["parser_rows_per_s"])
        table.add_row(row["case"], *(f"{speed:,}" for speed in speeds), row["parser"])
    for column in table.columns[1:5]:
        column.justify = "right"
    console = Console()
    console.print(table)
    write_results(out, COLUMNS, rows)
    console.print(f"written to {out}")


def cases(folder: Path) -> Iterator[Case]:
    """Every case whose files exist, most rows first within a format."""
    try:
        events, trades = sample_paths()
        yield _text_case("bitstamp events", (events, trades), (events, trades))
    except MissingExtraError as error:
        Console(stderr=True).print(f"left out: {error}")
    day = folder / "bitstamp_l3_20150501" / "2015-05-01.log.bz2"
    book = folder / "es_mbo" / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"
    quotes = folder / "databento" / "nautilus" / "historical_bars_catalog" / "databento"
    updates = quotes / "futures_mbp-1_2024-07-01T23-58_2024-07-02T00-02.dbn.zst"
    parquet = folder / "ashare_l2" / "SZ5_20220601_mbp10.parquet"
    messages, books = (
        folder / "lobster" / f"AAPL_2012-06-21_34200000_57600000_{role}_10.csv" for role in ("message", "orderbook")
    )
    bars = folder / "bars" / "fxcm" / "usdjpy-m1-ask-2013.csv"
    if day.is_file():
        yield Case("bitstamp log", (day,), ImportOptions(), "bz2", lambda: _decompress(day))
    if book.is_file():
        yield _dbn_case("dbn mbo", book)
    if updates.is_file():
        yield _dbn_case("dbn mbp-1", updates)
    if parquet.is_file():
        yield Case("mbp-10 parquet", (parquet,), ImportOptions(), "polars", lambda: pl.read_parquet(parquet))
    if messages.is_file() and books.is_file():
        yield _text_case("lobster", (messages, books), (messages, books))
    if bars.is_file():
        yield _text_case("bars csv", (bars,), (bars,))


def measure(case: Case) -> dict[str, Any]:
    """Time one case; the row of the results file."""
    # Other work on the machine slows an import down; the figure is only as good as this is low.
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    imported = read_sources(case.files, case.options)
    rows = source_rows(imported)
    times = _times(lambda: read_sources(case.files, case.options))
    parser = _times(case.parse)
    return {
        "case": case.name,
        "rows": rows,
        "megabytes": round(sum(file.stat().st_size for file in case.files) / 1e6, 3),
        "imports": len(times),
        "median_rows_per_s": round(rows / statistics.median(times)),
        "p95_rows_per_s": round(rows / statistics.quantiles(times, n=20, method="inclusive")[-1]),
        "parser": case.parser,
        "parser_rows_per_s": round(rows / statistics.median(parser)),
        "foxhunt": __version__,
        "polars": pl.__version__,
        "databento-dbn": version("databento-dbn") if case.parser.startswith("databento") else "",
        "python": platform.python_version(),
        "machine": _processor(),
        "cores": os.cpu_count(),
        "load": round(load, 2),
    }


def source_rows(imported: Imported) -> int:
    """Rows read from the source files: derived rows (built books, inferred trades) are not counted again."""
    sources = ("source rows", "order events")
    return sum(c.read for stage in imported.counts.values() for c in stage.values() if c.origin in sources)


def _times(action: Callable[[], object]) -> list[float]:
    """Seconds of single runs, for at least `SECONDS` and `IMPORTS`, after one that warms up."""
    action()
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < IMPORTS:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return times


def _text_case(name: str, files: tuple[Path, ...], tables: tuple[Path, ...]) -> Case:
    return Case(name, files, ImportOptions(), "polars", lambda: [pl.read_csv(t, infer_schema=False) for t in tables])


def _dbn_case(name: str, file: Path) -> Case:
    return Case(name, (file,), ImportOptions(), "databento", lambda: _decode(file))


def _decode(file: Path) -> int:
    databento_dbn, zstandard = import_module("databento_dbn"), import_module("zstandard")
    decoder = databento_dbn.DBNDecoder()
    decoder.write(zstandard.ZstdDecompressor().stream_reader(file.read_bytes(), read_across_frames=True).read())
    return len(decoder.decode())


def _decompress(file: Path) -> int:
    import bz2

    return len(bz2.decompress(file.read_bytes()))


def _processor() -> str:
    """The processor's name, which Linux keeps in /proc."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.is_file() else []
    return names[0].split(":", 1)[1].strip() if names else platform.processor() or platform.machine()
