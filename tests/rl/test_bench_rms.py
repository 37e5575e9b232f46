"""The benchmark of h's size: one row a trunk, with what its run's monitor saw last."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from foxhunt.bench import rms
from foxhunt.cli import main
from foxhunt.presets import PRESETS


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preset that trains in a second."""
    default = PRESETS["default"]
    preset = replace(
        default,
        environments=4,
        market=replace(default.market, episode_steps=20),
        network=replace(default.network, hidden1=8, hidden2=8, head_hidden=8, atoms=11),
        learner=replace(default.learner, batch_size=16, warmup_steps=60, replay_capacity=400),
    )
    monkeypatch.setitem(PRESETS, "tiny", preset)


@pytest.mark.usefixtures("tiny")
def test_writes_what_the_monitor_saw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, folder = tmp_path / "results" / "rms.csv", tmp_path / "runs"
    sizes = ["--preset", "tiny", "--steps", "200", "--hours", "0.25", "--folder", str(folder), "--out", str(out)]
    assert main(["bench", "rms", *sizes]) == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [tuple(row) for row in rows] == [rms.COLUMNS] * 2
    for row, trunk in zip(rows, ("grn", "relu"), strict=True):
        assert (row["trunk"], row["preset"], row["steps"]) == (trunk, "tiny", "200")
        assert json.loads((folder / trunk / "config.json").read_text())["network"]["trunk"] == trunk
        written = [json.loads(line) for line in (folder / trunk / "metrics.jsonl").read_text().splitlines()]
        (seen,) = [record for record in written if "monitor_h_rms" in record]
        for name in ("h_rms", "values_rms", "matched_rms", "dead_units", "effective_rank"):
            assert float(row[name]) == pytest.approx(seen[f"monitor_{name}"], abs=5e-5)
        before, after = (seen[f"monitor_{name}_rms"] / seen["monitor_h_rms"] for name in ("values", "matched"))
        assert float(row["ratio_before"]) == pytest.approx(before, abs=5e-5)
        assert float(row["ratio_after"]) == pytest.approx(after, abs=5e-5)
    printed = capsys.readouterr().out
    assert "relu: RMS of h" in printed
    assert f"written to {out}" in printed


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("arguments", "said"), [(["--preset", "tin"], "unknown preset"), (["--preset", "tiny", "--steps", "60"], "60")]
)
def test_refuses_what_cannot_be_run(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs"
    assert main(["bench", "rms", *arguments, "--folder", str(folder), "--out", str(tmp_path / "rms.csv")]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
