"""A study of two arms and two seeds: figures that training and back-testing by hand give too, and what is refused."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from foxhunt.cli import main
from foxhunt.config import LearnerConfig, NetworkConfig, TrainConfig
from foxhunt.data.imported import Imported
from foxhunt.data.simulator import Simulation
from foxhunt.data.store import write_dataset
from foxhunt.errors import ConfigError, DataError
from foxhunt.evaluate.ablate import Cell, Failure, Study, ablate
from foxhunt.evaluate.ablation import FIGURES, conclusion, markdown, tabulate
from foxhunt.evaluate.backtest import backtest_run
from foxhunt.rl.trainer import Trainer

from .conftest import MARKET, SPLIT

TINY = [
    *("--steps", "512", "--environments", "16", "--evaluations", "2", "--market.initial-cash", "500000"),
    *("--network.hidden1", "8", "--network.hidden2", "8", "--network.head-hidden", "8", "--network.atoms", "11"),
    *("--learner.batch-size", "16", "--learner.warmup-steps", "64", "--learner.replay-capacity", "4000"),
    *("--split.train", "0%/40%", "--split.validate", "40%/70%", "--split.test", "70%/100%"),
]


@pytest.fixture(scope="module")
def data(simulation: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ablate") / "data"
    frames = {"book": simulation.book, "trades": simulation.trades}
    write_dataset(folder, Imported({"SIM": simulation.instrument}, frames))
    return folder


@pytest.fixture(scope="module")
def base(data: Path) -> TrainConfig:
    network = NetworkConfig(hidden1=8, hidden2=8, head_hidden=8, atoms=11)
    learner = LearnerConfig(batch_size=16, warmup_steps=64, replay_capacity=4000)
    return TrainConfig(
        data=data, steps=512, evaluations=2, market=MARKET, split=SPLIT, network=network, learner=learner, seed=3
    )


@pytest.fixture(scope="module")
def study(base: TrainConfig, data: Path) -> Study:
    return ablate(replace(base, out=data.parent / "study"), ["trunk"], seeds=2, workers=2)


def test_cells_equal_training_and_backtesting_by_hand(study: Study, base: TrainConfig, tmp_path: Path) -> None:
    assert [(cell.arm, cell.seed) for cell in study.cells] == [("base", 3), ("base", 4), ("trunk", 3), ("trunk", 4)]
    relu = replace(base.network, trunk="relu")
    by_hand = {}
    for cell in (study.cells[0], study.cells[3]):
        network = relu if cell.arm == "trunk" else base.network
        run = tmp_path / cell.arm
        Trainer(replace(base, network=network, seed=cell.seed, out=run)).train()
        by_hand[cell.arm] = backtest_run(run, seeds=1).summary.rows[0].metrics.pnl
        assert cell.profit == pytest.approx(by_hand[cell.arm], abs=1e-9)
    assert by_hand["base"] != by_hand["trunk"]


def test_finished_cells_are_not_trained_again(study: Study) -> None:
    models = sorted(study.config.out.rglob("checkpoints/best-*/model.safetensors"))
    assert len(models) == 4
    before = [model.stat().st_mtime_ns for model in models]
    told: list[tuple[int, int, str]] = []
    again = ablate(study.config, ["trunk"], seeds=2, progress=lambda *said: told.append(said))
    assert again == study
    assert told == [(4, 4, "")]
    assert [model.stat().st_mtime_ns for model in models] == before


def test_no_replay_is_left_behind(study: Study) -> None:
    assert not list(study.config.out.rglob("training.safetensors"))


def cell(arm: str, seed: int, profit: float) -> Cell:
    return Cell(arm, seed, profit, "USD", seconds=60.0 * seed, tape="t", figures=dict.fromkeys(FIGURES, float(seed)))


def test_worth_is_paired_and_signed_by_what_was_on(base: TrainConfig) -> None:
    # Seeds differ by 100, arms by about 2: only pairs tell. The trunk arm has GRN off, temporal turns the scan on.
    profits = {"base": (0.0, 100.0, 200.0), "trunk": (-2.0, 98.1, 197.9), "temporal": (-1.9, 97.9, 198.0)}
    cells = tuple(cell(arm, seed, p) for arm, values in profits.items() for seed, p in enumerate(values, 1))
    rows = tabulate(Study(base, tuple(profits), cells, ()))
    assert [row.verdict for row in rows] == ["", "helps", "hurts"]
    assert [row.change for row in rows] == ["", "trunk off", "temporal on"]
    assert rows[0].profit.mean == 100.0
    trunk = rows[1].worth
    assert trunk is not None
    # Gains 2.0, 1.9, 2.1: mean 2, deviation 0.1; 4.302653 * 0.1 / sqrt(3) = 0.248414.
    assert (trunk.mean, trunk.low, trunk.high) == pytest.approx((2.0, 1.751586, 2.248414), abs=1e-6)
    assert rows[0].minutes == rows[0].figures["h_rms"] == 2.0
    assert conclusion(rows) == "Helped: trunk. Hurt: temporal. Undecided: none."


def test_pairs_are_formed_over_seeds_that_both_arms_have(base: TrainConfig) -> None:
    cells = (cell("base", 1, 10.0), cell("base", 2, 30.0), cell("trunk", 2, 25.0))
    study = Study(base, ("base", "trunk"), cells, (Failure("trunk", 1, "no reason"),))
    rows = tabulate(study)
    assert rows[1].worth is not None
    assert rows[1].worth.mean == 5.0
    assert rows[1].verdict == "undecided"  # one pair proves nothing
    assert "- failed: trunk seed 1: no reason\n" in markdown(study, rows)


def test_command_writes_tables_and_survives_a_failing_arm(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "study"
    arguments = ["ablate", "--data", str(data), *TINY, "--out", str(out), "--seeds", "1", "--switch", "trunk"]
    assert main(arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    with (out / "cells.csv").open() as stream:
        cells = list(csv.DictReader(stream))
    assert [(c["arm"], c["seed"], c["currency"]) for c in cells] == [("base", "0", "USD"), ("trunk", "0", "USD")]
    with (out / "ablation.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["profit"]) for row in rows] == [float(c["profit"]) for c in cells]
    assert float(rows[1]["worth"]) == pytest.approx(float(rows[0]["profit"]) - float(rows[1]["profit"]))
    assert "Helped: none. Hurt: none. Undecided: trunk." in printed
    assert "| trunk | trunk off | 1 |" in (out / "ablation.md").read_text()

    # A cell whose folder cannot be written fails; the others stay.
    shutil.rmtree(out / "trunk")
    (out / "trunk").write_text("in the way")
    assert main(arguments) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "failed: trunk seed 0: cannot write" in printed
    assert "base" in (out / "ablation.md").read_text()
    assert "- failed: trunk seed 0: cannot write" in (out / "ablation.md").read_text()


def test_other_settings_and_foreign_folders_are_refused(study: Study, base: TrainConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds a study with other settings; choose another --out"):
        ablate(replace(study.config, steps=640), ["trunk"], seeds=2)
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match="exists and is not a study; choose another --out"):
        ablate(replace(base, out=tmp_path), ["trunk"])
    with pytest.raises(ConfigError, match="unknown switch"):
        ablate(replace(base, out=tmp_path / "new"), ["gru"])
    with pytest.raises(ConfigError, match="give --data DIR"):
        ablate(TrainConfig(env="CartPole-v1"))
    with pytest.raises(DataError, match="is not a dataset"):
        ablate(replace(base, data=tmp_path / "none", out=tmp_path / "new"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]


def test_a_cell_of_other_settings_is_trained_again(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "study"
    shutil.copytree(study.config.out, out)
    told: list[tuple[int, int, str]] = []
    config = replace(study.config, out=out)
    (out / "study.json").unlink()
    for file in out.rglob("cell.json"):
        record = json.loads(file.read_text())
        record["config"]["out"] = str(file.parent)
        record["config"]["steps"] = 512 if file.parent.name == "seed-3" else 256
        file.write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="is not a study"):
        ablate(config, ["trunk"], seeds=2)
    (out / "study.json").write_text(
        json.dumps({"config": json.loads((study.config.out / "study.json").read_text())["config"] | {"out": str(out)}})
    )
    again = ablate(config, ["trunk"], seeds=2, progress=lambda *said: told.append(said))
    assert told[0] == (2, 4, "")
    assert [c.profit for c in again.cells] == [c.profit for c in study.cells]
