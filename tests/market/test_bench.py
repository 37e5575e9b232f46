"""The environment's benchmark."""

import csv
from pathlib import Path

import pytest

from foxhunt.bench import environment
from foxhunt.cli import main


def test_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row with every column; speed is environments over time, and the 20 % speed is the slower one."""
    out = tmp_path / "results" / "environment.csv"
    assert main(["bench", "env", "--environments", "8", "--steps", "20", "--out", str(out)]) == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [tuple(row) for row in rows] == [environment.COLUMNS]
    row = rows[0]
    speed = int(row["median_steps_per_s"])
    assert speed == pytest.approx(8 / (float(row["median_ms"]) / 1e3), rel=1e-3)
    assert int(row["p20_steps_per_s"]) <= speed <= int(row["p80_steps_per_s"])
    assert (row["levels"], row["mode"]) == ("10", "eager")
    assert f"written to {out}" in capsys.readouterr().out


def test_refuses_sizes_it_cannot_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit 2, no file."""
    out = tmp_path / "environment.csv"
    assert main(["bench", "env", "--environments", "0", "--out", str(out)]) == 2
    assert "--environments must be at least 1" in capsys.readouterr().err
    assert not out.exists()
