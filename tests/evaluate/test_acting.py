"""Heads switched at back-test time, and what the report and the ledger show of them."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from foxhunt.cli import main
from foxhunt.config import ActingConfig, NetworkConfig
from foxhunt.data.simulator import Simulation
from foxhunt.errors import ConfigError
from foxhunt.evaluate.acting import ActingChanges, describe, switched_heads
from foxhunt.evaluate.backtest import Result, backtest_run
from foxhunt.evaluate.record import HEADS
from foxhunt.evaluate.traces import training_slots
from foxhunt.nn.isv import Slot
from foxhunt.presets import FULL

from .test_backtest import untrained

HEADED = replace(FULL, hidden1=16, hidden2=16, head_hidden=8, atoms=11, history=4, plan_horizon=5)
TRAINED = ActingConfig(risk_budget=True, trade_plan=True)
VARIATIONS = [
    "agent without risk budget",
    "agent with selectivity",
    "agent without trade plan",
    "agent with quantile values",
    "agent with CVaR 0.25",
]


@pytest.fixture(scope="module")
def run(simulation: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every head, two of which act, and a record of its training."""
    folder = tmp_path_factory.mktemp("headed")
    run = untrained(folder, simulation, HEADED, acting=TRAINED)
    slots = {f"isv_{slot.name.lower()}": slot / 10 for slot in Slot}
    records = [{"step": 10 * k, "updates": k, **slots, "isv_h_rms": float(k)} for k in range(4)]
    records.append({"step": 30, "evaluation_return": 1.0})
    records.append({"step": 9999, "updates": 9, **slots})
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return run


@pytest.fixture(scope="module")
def result(run: Path) -> Result:
    return backtest_run(run, seeds=1)


def test_ledger_holds_what_every_head_said(result: Result) -> None:
    steps = pl.read_parquet(result.folder / "ledger" / "decisions.parquet")
    assert steps["policy"].unique().sort().to_list() == sorted(
        ["agent", *VARIATIONS, "flat", "buy and hold", "TWAP", "random", "OFI rule"]
    )
    spoken = steps.filter(pl.col("policy").str.starts_with("agent")).select(*HEADS)
    assert spoken.null_count().row(0) == (0,) * len(HEADS)
    assert steps.filter(policy="flat").select(pl.all_horizontal(pl.col(*HEADS).is_null()).all()).item()
    agent = steps.filter(policy="agent")
    assert agent["plan_horizon"].is_between(0, HEADED.plan_horizon).all()
    assert (agent["allowed_lots"] == (agent["risk_budget"] * agent["cap_lots"]).floor()).all()
    assert (steps.filter(policy="agent without risk budget")["allowed_lots"] == agent["cap_lots"]).all()
    assert steps.filter(policy="agent without trade plan")["bracket_exit"].null_count() == agent.height


def test_holding_the_full_cap_earns_what_the_ledger_says(result: Result) -> None:
    """Buy and hold, once it holds the cap: its reward is the move of the cap."""
    steps = pl.read_parquet(result.folder / "ledger" / "decisions.parquet").filter(policy="buy and hold")
    fills = pl.read_parquet(result.folder / "ledger" / "fills.parquet").filter(policy="buy and hold")
    quiet = steps.join(fills, on=["segment", "step"], how="anti").with_columns(
        move=pl.col("hold_move") * pl.col("position_lots") / pl.col("cap_lots")
    )
    assert quiet.filter(pl.col("position_lots") > 0).height > 100
    assert quiet["reward"].to_list() == pytest.approx(quiet["move"].to_list(), abs=1e-9)


def test_summary_judges_every_head(result: Result) -> None:
    record = json.loads((result.folder / "summary.json").read_text())
    assert [row["policy"] for row in record["variations"]] == VARIATIONS
    heads = record["heads"]
    assert heads["unjudged"] == []
    steps = pl.read_parquet(result.folder / "ledger" / "decisions.parquet").filter(policy="agent")
    assert heads["confidence"]["samples"] == steps.height - 3
    assert heads["risk"]["budget"] == pytest.approx(steps["risk_budget"].mean())
    wanted = steps.head(steps.height - HEADED.plan_horizon + 1).filter(pl.col("wanted") != 1)
    assert heads["selectivity"]["samples"] == heads["plan"]["plans"] == wanted.height > 50
    for calibration in (heads["confidence"], heads["selectivity"]):
        assert sum(calibration["count"]) == calibration["samples"]
        gaps = [
            n * abs(f - o)
            for n, f, o in zip(*(calibration[key] for key in ("count", "forecast", "outcome")), strict=True)
            if n
        ]
        assert calibration["error"] == pytest.approx(sum(gaps) / calibration["samples"])
    assert sum(heads["plan"]["ended"].values()) == pytest.approx(1)
    assert sum(heads["plan"]["exits"].values()) > 0


def test_page_shows_every_head(result: Result) -> None:
    html = result.report.read_text()
    names = ("confidence", "selectivity", "risk", "plan", "internal-state", "regime")
    assert [html.count(f'id="{name}"') for name in names] == [1] * len(names)
    for name in VARIATIONS:
        assert f"<td>{name}</td>" in html
    assert result.summary.heads is not None
    assert result.summary.heads.confidence is not None
    assert f"Expected calibration error {result.summary.heads.confidence.error:.3f}" in html


def test_a_changed_head_acts_as_its_variation_did(run: Path, result: Result, tmp_path: Path) -> None:
    other = backtest_run(run, seeds=1, acting=ActingChanges(risk_budget=False), out=tmp_path / "out")
    assert other.summary.rows[0].metrics == result.summary.variations[0].metrics
    back = next(row for row in other.summary.variations if row.policy == "agent with risk budget")
    assert back.metrics == result.summary.rows[0].metrics
    record = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert record["reproduce"].endswith("--acting.risk-budget False")
    assert record["config"]["acting"]["risk_budget"] is False
    assert record["facts"]["acting"].endswith("acting heads: trade plan; trained otherwise")


def test_command_switches_heads(run: Path, tmp_path: Path) -> None:
    flags = ["--acting.no-risk-budget", "--acting.selectivity", "--acting.selectivity-threshold", "0.25"]
    flags += ["--acting.trade-plan", "--acting.values", "quantile", "--acting.cvar", "0.25"]
    assert main(["backtest", str(run), "--seeds", "1", "--no-variations", "--out", str(tmp_path / "out"), *flags]) == 0
    record = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert record["variations"] == []
    assert record["reproduce"].endswith("--acting.trade-plan True --no-variations")
    assert record["config"]["acting"] == {
        "values": "quantile", "cvar": 0.25, "risk_budget": False, "selectivity": True, "selectivity_threshold": 0.25,
        "trade_plan": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--acting.cvar", "0.25"], "acting.cvar below 1 needs acting.values quantile"),
        (["--acting.selectivity-threshold", "2"], "acting.selectivity_threshold must be in [0, 1]"),
        (["--acting.values", "quantile", "--acting.cvar", "0"], "acting.cvar must be in (0, 1]"),
    ],
)
def test_contradictions_are_one_line(
    run: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["backtest", str(run), "--out", str(tmp_path / "out"), *flags]) == 2
    assert capsys.readouterr().err == f"foxhunt backtest: {said}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (ActingChanges(risk_budget=True), "acting.risk_budget needs network.risk_budget"),
        (ActingChanges(selectivity=True), "acting.selectivity needs network.selectivity"),
        (ActingChanges(trade_plan=True), "acting.trade_plan needs network.trade_plan"),
        (ActingChanges(values="quantile"), "acting.values quantile needs network.quantiles"),
    ],
)
def test_a_head_that_is_missing_cannot_act(
    simulation: Simulation, tmp_path: Path, changes: ActingChanges, said: str
) -> None:
    run = untrained(tmp_path, simulation, NetworkConfig(hidden1=8, hidden2=8, head_hidden=8, atoms=3))
    with pytest.raises(ConfigError, match=said):
        backtest_run(run, acting=changes)


def test_variations_switch_one_thing_each() -> None:
    cautious = ActingConfig(values="quantile", cvar=0.5, selectivity=True)
    found = switched_heads(cautious, HEADED)
    assert found == {
        "with risk budget": replace(cautious, risk_budget=True),
        "without selectivity": replace(cautious, selectivity=False),
        "with trade plan": replace(cautious, trade_plan=True),
        "without quantile values": replace(cautious, values="categorical", cvar=1.0),
        "without caution": replace(cautious, cvar=1.0),
    }
    assert switched_heads(ActingConfig(), NetworkConfig()) == {}
    assert describe(cautious) == (
        "values: mean of the quantile head over the worst 0.5; acting heads: selectivity (threshold 0.5)"
    )


def test_slots_of_training_are_read_up_to_the_checkpoint(run: Path, tmp_path: Path) -> None:
    slots = training_slots(run, until=1234)
    assert slots["step"].to_list() == [10, 20, 30]
    assert slots["h_rms"].to_list() == [1, 2, 3]
    assert slots["health"].to_list() == [1.1] * 3
    assert training_slots(tmp_path, until=1234).height == 0
