"""The sample order book that `foxhunt demo` trades: half an hour of Bitstamp's BTC/USD of 2026-05-02."""

from importlib.util import find_spec
from pathlib import Path

from foxhunt.errors import MissingExtraError


def sample_paths() -> list[Path]:
    """Order events and trades shipped in the PyPI package ob-analytics, ready for `read_sources`.

    The package's data files are found without importing it. Raises `MissingExtraError` when it is not installed.
    """
    spec = find_spec("ob_analytics")
    folders = [Path(p) / "_sample_data" for p in (spec.submodule_search_locations or [])] if spec else []
    files = [folder / name for folder in folders for name in ("orders.csv.gz", "trades.csv")]
    if not files or not all(file.is_file() for file in files):
        raise MissingExtraError("ob-analytics", "demo", "the sample order book")
    return files
