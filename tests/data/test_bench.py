"""The import benchmark: what it counts and what it writes."""

import csv
from pathlib import Path

import pytest

from foxhunt.bench import data
from foxhunt.data.readers import ImportOptions, read_sources


def test_speeds_and_versions_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "A.csv"
    source.write_text("date,open,high,low,close\n" + "".join(f"2022-06-{d:02d},10,11,9,10\n" for d in range(1, 29)))
    case = data.Case("bars csv", (source,), ImportOptions(), "text", source.read_text)
    monkeypatch.setattr(data, "SECONDS", 0.0)
    monkeypatch.setattr(data, "cases", lambda _: iter([case]))
    data.run(tmp_path / "out" / "data.csv")
    with (tmp_path / "out" / "data.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["case"], row["rows"], row["imports"]) == ("bars csv", "28", "20")
    assert 0 < int(row["p95_rows_per_s"]) <= int(row["median_rows_per_s"])
    assert int(row["parser_rows_per_s"]) > int(row["median_rows_per_s"]), (
        "reading text alone is quicker than importing it"
    )
    assert row["python"].startswith("3.")


def test_rows_that_the_import_made_itself_are_not_counted(tmp_path: Path) -> None:
    source = tmp_path / "orders.csv"
    source.write_text(
        "id,timestamp,exchange_timestamp,price,volume,action,direction\n"
        "1,1000,1000,100.0,1.5,created,bid\n2,1001,1001,101.0,2.0,created,ask\n"
    )
    assert data.source_rows(read_sources([source], ImportOptions(tick_size="1"))) == 2
