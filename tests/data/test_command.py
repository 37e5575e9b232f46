"""`foxhunt data` as a user runs it: summaries, exit codes, one line for every bad input, nothing left behind."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from foxhunt.cli import main
from foxhunt.data.store import Dataset

BOOK = """\
ts_event,bid_px_00,bid_sz_00,ask_px_00,ask_sz_00
1654047000,10.00,5,10.01,7
1654047001,10.00,5,10.02,7
1654047001,10.00,5,10.02,7
1654047000,10.00,5,10.01,7
1654047002,10.03,5,10.02,7
1654047003,10.02,5,10.02,7
1654047004,10.00,0,10.02,7
1654047005,nan,5,10.02,7
1654047006,10.005,5,10.02,7
later,10.00,5,10.02,7
1654047008,10.01,5,10.02,7
"""


def run(*arguments: object) -> int:
    return main(["data", *(str(a) for a in arguments)])


def test_import_writes_a_dataset_and_prints_every_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "A.csv").write_text(BOOK)
    assert run("import", tmp_path / "A.csv", "--out", tmp_path / "d", "--tick-size", "0.01") == 0
    printed = " ".join(capsys.readouterr().out.split())
    for text in (
        "book A 11 3 bad price 1, bad size 1, crossed 1, duplicate 1, locked 1,",
        "off tick 1, out of order 1, unreadable 1",
        "rows read = rows out + rows quarantined",
        "2022-06-01 01:30:00 to 2022-06-01 01:30:08 UTC",
        "8 rejected rows",
    ):
        assert text in printed
    dataset = Dataset.open(tmp_path / "d")
    assert len(dataset.frame("book", "A")) == 3
    ledger = dataset.quarantine().sort("row")
    assert ledger.select("row", "reason").rows() == [
        (3, "duplicate"),
        (4, "out of order"),
        (5, "crossed"),
        (6, "locked"),
        (7, "bad size"),
        (8, "bad price"),
        (9, "off tick"),
        (10, "unreadable"),
    ]
    assert json.loads(ledger["record"][7])["ts_event"] == "later"
    assert json.loads((tmp_path / "d" / "dataset.json").read_text())["law"].startswith("rows read = rows out")


def test_inspect_and_validate_read_what_import_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "A.csv").write_text(BOOK)
    run("import", tmp_path / "A.csv", "--out", tmp_path / "d", "--tick-size", "0.01")
    capsys.readouterr()
    assert run("inspect", tmp_path / "d") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "A 0.01 1 1 USD round the clock" in printed
    assert "A 3 0 1 6 6 0.00%" in printed, "rows, gaps, spread, size at best, ten levels, one-sided"
    assert run("validate", tmp_path / "d") == 0
    assert "all 3 rows hold" in " ".join(capsys.readouterr().out.split())


def test_validate_exits_1_for_bad_rows_and_2_for_no_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "A.csv").write_text(BOOK)
    run("import", tmp_path / "A.csv", "--out", tmp_path / "d", "--tick-size", "0.01")
    frame = pl.read_parquet(tmp_path / "d" / "book.parquet")
    frame[1, "bid_px_00"] = 99_000_000_000
    frame.write_parquet(tmp_path / "d" / "book.parquet")
    assert run("validate", tmp_path / "d") == 1
    assert "crossed" in capsys.readouterr().out
    assert run("validate", tmp_path / "nowhere") == 2
    assert run("inspect", tmp_path / "nowhere") == 2


def truncated_dbn(folder: Path, write_dbn: Callable[..., Path]) -> Path:
    dbn = pytest.importorskip("databento_dbn")
    bars = [dbn.OHLCVMsg(33, 1, 17, n, 10**9, 10**9, 10**9, 10**9, 1) for n in range(9)]
    path = write_dbn("ohlcv-1m", bars)
    path.write_bytes(path.read_bytes()[:-7])
    return path


def empty_feather(folder: Path, write_dbn: Callable[..., Path]) -> Path:
    (folder / "bars.feather").write_bytes(b"")
    return folder / "bars.feather"


def lacking_column(folder: Path, write_dbn: Callable[..., Path]) -> Path:
    (folder / "bars.csv").write_text("date,open,high,low\n2022-06-01,1,2,0.5\n")
    return folder / "bars.csv"


def missing(folder: Path, write_dbn: Callable[..., Path]) -> Path:
    return folder / "nowhere.csv"


def unknown(folder: Path, write_dbn: Callable[..., Path]) -> Path:
    (folder / "data.bin").write_bytes(bytes(range(200)))
    return folder / "data.bin"


@pytest.mark.parametrize(
    ("make", "flags", "message"),
    [
        (truncated_dbn, (), "is truncated: record 9 at byte"),
        (empty_feather, ("--format", "bars"), "bars.feather is empty"),
        (lacking_column, ("--format", "bars"), "bars.csv lacks column close"),
        (missing, (), "nowhere.csv does not exist"),
        (unknown, (), "data.bin is of no known format"),
        (unknown, ("--format", "itch"), "unknown format 'itch'; choose from auto, bitstamp"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_no_output(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    write_dbn: Callable[..., Path],
    make: Callable[..., Path],
    flags: tuple[str, ...],
    message: str,
) -> None:
    source = make(tmp_path, write_dbn)
    before = sorted(p.name for p in tmp_path.iterdir())
    assert run("import", source, "--out", tmp_path / "d", *flags) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_unwritable_output_is_refused_before_the_sources_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "A.csv").write_text(BOOK)
    (tmp_path / "file").write_text("")
    cases = {tmp_path / "file" / "d": "is not a folder", tmp_path / "file": "exists"}
    for out, message in cases.items():
        assert run("import", tmp_path / "A.csv", "--out", out) == 2
        assert message in capsys.readouterr().err
    # The superuser may write anywhere, so that the permission itself is what the test takes away.
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run("import", tmp_path / "nowhere.csv", "--out", tmp_path / "d") == 2
    assert "no permission" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["A.csv", "file"]


def test_overwrite_replaces_an_earlier_dataset(tmp_path: Path) -> None:
    (tmp_path / "A.csv").write_text(BOOK)
    (tmp_path / "B.csv").write_text(BOOK)
    run("import", tmp_path / "A.csv", "--out", tmp_path / "d", "--tick-size", "0.01")
    assert run("import", tmp_path / "B.csv", "--out", tmp_path / "d", "--tick-size", "0.01") == 2
    assert run("import", tmp_path / "B.csv", "--out", tmp_path / "d", "--tick-size", "0.01", "--overwrite") == 0
    assert list(Dataset.open(tmp_path / "d").instruments) == ["B"]


def test_no_sources_show_how_to_name_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("import", "--out", tmp_path / "d") == 2
    assert "foxhunt data import orders.csv.gz trades.csv --out data/btc" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["import", "inspect", "validate"])
def test_help_gives_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(command, "--help")
    assert stop.value.code == 0
    assert f"foxhunt data {command} " in capsys.readouterr().out
