"""Re-checking a stored dataset finds what someone changed in it."""

import json
from pathlib import Path

import polars as pl
import pytest

from foxhunt.data.readers import ImportOptions, read_sources
from foxhunt.data.recheck import Failure, recheck
from foxhunt.data.store import Dataset, write_dataset
from foxhunt.errors import DataError


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    path = tmp_path / "A.csv"
    rows = "".join(f"{1_654_047_000 + n},10.0{n},5,10.1{n},7\n" for n in range(6))
    path.write_text("ts_event,bid_px_00,bid_sz_00,ask_px_00,ask_sz_00\n" + rows + "1654047003,10,5,11,7\n")
    return write_dataset(tmp_path / "d", read_sources([path], ImportOptions(tick_size="0.01")))


def change(dataset: Dataset, row: int, **values: int) -> None:
    file = dataset.file("book")
    frame = pl.read_parquet(file)
    for name, value in values.items():
        frame[row, name] = value
    frame.write_parquet(file)


def test_what_was_imported_holds(dataset: Dataset) -> None:
    assert recheck(dataset) == []
    assert dataset.quarantine()["reason"].to_list() == ["out of order"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"bid_px_00": 99_000_000_000}, "crossed"),
        ({"bid_px_00": 10_005_000_000}, "off tick"),
        ({"ask_sz_00": 0}, "bad size"),
        ({"ts_event": 1}, "out of order"),
    ],
)
def test_a_changed_row_is_found(dataset: Dataset, values: dict[str, int], reason: str) -> None:
    change(dataset, 3, **values)
    assert recheck(dataset) == [Failure("book", "A", reason, 1, 4)]


def test_a_coarser_tick_in_the_index_is_found(dataset: Dataset) -> None:
    index = dataset.path / "dataset.json"
    record = json.loads(index.read_text())
    record["instruments"]["A"]["tick_size"] = "0.02"
    index.write_text(json.dumps(record))
    assert recheck(Dataset.open(dataset.path)) == [Failure("book", "A", "off tick", 3, 2)]


def test_lost_rows_and_lost_ledger_entries_are_damage(dataset: Dataset) -> None:
    ledger = dataset.path / "quarantine.parquet"
    pl.read_parquet(ledger).clear().write_parquet(ledger)
    with pytest.raises(DataError, match=r"quarantine\.parquet holds 0 rows, dataset\.json says 1"):
        recheck(dataset)
    frame = pl.read_parquet(dataset.file("book"))
    frame.head(5).write_parquet(dataset.file("book"))
    with pytest.raises(DataError, match=r"book\.parquet holds 5 rows of A, dataset\.json says 6"):
        recheck(dataset)
