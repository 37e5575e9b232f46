"""The whole back-test: from a run folder to summary, report and ledger, and what it refuses."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from foxhunt.cli import main
from foxhunt.config import NetworkConfig, TapeConfig, TrainConfig
from foxhunt.data.imported import Imported
from foxhunt.data.schema import Instrument
from foxhunt.data.simulator import Simulation
from foxhunt.data.store import write_dataset
from foxhunt.errors import CheckpointError, ConfigError
from foxhunt.evaluate.backtest import FITTED_ON, Result, backtest_run
from foxhunt.evaluate.facts import fees
from foxhunt.evaluate.format import money, span, typeset
from foxhunt.rl.agent import Agent, derive_seed, make_network
from foxhunt.rl.checkpoint import save_checkpoint
from foxhunt.rl.task import make_task

from .conftest import MARKET, SPLIT

POLICIES = ["agent", "flat", "buy and hold", "TWAP", "random", "OFI rule"]


@pytest.fixture(scope="module")
def run(simulation: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose agent has learned nothing: a network with the weights it began with."""
    folder = tmp_path_factory.mktemp("backtest")
    return untrained(folder, simulation, NetworkConfig(hidden1=16, hidden2=16, head_hidden=16, atoms=11))


def untrained(folder: Path, simulation: Simulation, network: NetworkConfig, **config: Any) -> Path:
    """Run folder of an agent with the weights it began with, and the data beside it."""
    frames = {"book": simulation.book, "trades": simulation.trades}
    write_dataset(folder / "data", Imported({"SIM": simulation.instrument}, frames))
    settings = TrainConfig(
        data=folder / "data", tape=TapeConfig(), market=MARKET, split=SPLIT, network=network, **config
    )
    task = make_task(settings)
    environment = task.environment
    weights = make_network(environment.widths, environment.branches, network, derive_seed(0, "weights"))
    agent = Agent(weights, settings, environment.widths, environment.branches, task.fitted, step=1234)
    save_checkpoint(folder / "run", "best", 1234, agent.state_dict())
    return folder / "run"


@pytest.fixture(scope="module")
def result(run: Path) -> Result:
    return backtest_run(run, seeds=2)


def test_everything_is_written_and_agrees(run: Path, result: Result) -> None:
    assert result.folder == run / "backtest-test"
    assert sorted(p.name for p in result.folder.iterdir()) == ["ledger", "report.html", "summary.json"]
    record = json.loads((result.folder / "summary.json").read_text())
    assert [row["policy"] for row in record["rows"]] == POLICIES
    assert record["verdict"] == result.summary.verdict
    assert record["reproduce"] == f"foxhunt backtest {run} --split test --checkpoint best --seeds 2"
    html = result.report.read_text()
    decisions = pl.read_parquet(result.folder / "ledger" / "decisions.parquet")
    fills = pl.read_parquet(result.folder / "ledger" / "fills.parquet")
    for row in record["rows"]:
        own = decisions.filter(policy=row["policy"])
        assert own["seed"].n_unique() == row["seeds"]
        assert own["reward"].sum() / row["seeds"] == pytest.approx(row["metrics"]["pnl"])
        assert fills.filter(policy=row["policy"])["fee"].sum() / row["seeds"] == pytest.approx(row["metrics"]["fees"])
        assert row["interval"]["low"] <= row["metrics"]["pnl"] <= row["interval"]["high"]
        assert f">{typeset(money(row['metrics']['pnl']))}<" in html
    assert typeset(result.summary.verdict).replace("'", "&#x27;") in html


def test_the_split_judged_is_the_one_asked_for(run: Path, result: Result, tmp_path: Path) -> None:
    other = backtest_run(run, split="validate", seeds=1, out=tmp_path / "out", report=tmp_path / "page" / "report.html")
    assert sorted(p.name for p in other.folder.iterdir()) == ["ledger", "summary.json"]
    assert other.report.is_file()
    times = [pl.read_parquet(r.folder / "ledger" / "decisions.parquet")["time"] for r in (other, result)]
    assert times[0].max() < times[1].min()
    assert "no held-out result" in other.summary.verdict
    assert "no held-out result" not in result.summary.verdict


def test_rules_are_never_fitted_on_the_split_they_are_judged_on() -> None:
    assert all(judged != fitted for judged, fitted in FITTED_ON.items())
    assert "test" not in FITTED_ON.values()


def test_command_prints_table_and_verdict(
    run: Path, result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")  # narrower terminals wrap long intervals
    assert main(["backtest", str(run), "--seeds", "2", "--out", str(tmp_path / "out")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert result.summary.verdict in printed
    assert result.summary.comparison in printed
    for row in result.summary.rows:
        assert f"{row.policy} {money(row.metrics.pnl)} {span(row.interval.low, row.interval.high)}" in printed
    again = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert again["rows"] == json.loads((result.folder / "summary.json").read_text())["rows"]  # bit for bit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere is not a run with checkpoints; give a folder written by foxhunt train"),
        (["{run}", "--checkpoint", "last"], "has no 'last' checkpoint; it has: best"),
        (["{run}", "--out", "{run}"], "exists and is not an earlier back-test; choose another --out"),
        (["{run}", "--seeds", "0"], "seeds must be at least 1"),
        (["{run}", "--data", "nowhere"], "nowhere is not a dataset"),
        (["{run}", "--device", "abacus"], "device 'abacus' cannot be used"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    run: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.rglob("*"))
    assert main(["backtest", *(argument.format(run=run) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert sorted(run.rglob("*")) == before


def test_data_that_changed_since_training_is_refused(run: Path, simulation: Simulation, tmp_path: Path) -> None:
    frames = {"book": simulation.book[:-50], "trades": simulation.trades}
    write_dataset(tmp_path / "data", Imported({"SIM": simulation.instrument}, frames))
    with pytest.raises(CheckpointError, match=r"is not the data that .* was trained on"):
        backtest_run(run, data=tmp_path / "data")


def test_moved_data_is_found_again(run: Path, result: Result, tmp_path: Path) -> None:
    shutil.copytree(run.parent / "data", tmp_path / "moved")
    moved = backtest_run(run, data=tmp_path / "moved", seeds=2, out=tmp_path / "out")
    assert moved.summary == result.summary
    record = json.loads((moved.folder / "summary.json").read_text())
    assert record["reproduce"].endswith(f"--seeds 2 --data {tmp_path / 'moved'} --out {tmp_path / 'out'}")


def test_gymnasium_runs_have_no_backtest(run: Path, tmp_path: Path) -> None:
    from foxhunt.rl.agent import load_agent

    agent = load_agent(run)
    other = replace(agent, config=replace(agent.config, data=None, env="CartPole-v1"), fitted={})
    save_checkpoint(tmp_path / "run", "best", 1, other.state_dict())
    with pytest.raises(CheckpointError, match="trained on CartPole-v1, not on market"):
        backtest_run(tmp_path / "run")


def test_unknown_split_is_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown split 'holdout'; choose from train, validate, test"):
        backtest_run(run, split="holdout")  # type: ignore[arg-type]


def test_facts_say_what_trading_cost(result: Result) -> None:
    facts = json.loads((result.folder / "summary.json").read_text())["facts"]
    assert facts["fees"] == "maker 0 bps, taker 0.5 bps"
    assert facts["account"] == "500,000.00 USD for each instrument and uninterrupted stretch, leverage 1"
    assert facts["test"].startswith("70%/100%: 1970-01-01 00:07:00 to 00:09:59 UTC, 179 decisions, 1 account")
    share = Instrument("S", "0.01", maker_bps=2.5, taker_bps=2.5, sell_bps=10)
    future = Instrument("F", "0.25", taker_per_lot=1.5)
    assert fees((share,), None, None) == "maker 2.5 bps, taker 2.5 bps, sells 10 bps more"
    assert fees((share, replace(share, symbol="T")), None, None) == fees((share,), None, None)
    assert fees((share, future), None, None).endswith("; F: maker 0 bps, taker 0 bps + 1.5 a lot")
    assert fees((future,), 0.0, 1.0) == "maker 0 bps, taker 1 bps"
