"""A run that stops and goes on equals one that never stopped, bit for bit: weights, replay, metrics, everything."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from foxhunt.config import ActingConfig, LearnerConfig, MarketConfig, NetworkConfig, TrainConfig
from foxhunt.data.imported import Imported
from foxhunt.data.simulator import SimulatorConfig, simulate
from foxhunt.data.store import write_dataset
from foxhunt.errors import CheckpointError
from foxhunt.presets import PRESETS
from foxhunt.rl.checkpoint import checkpoint_folder
from foxhunt.rl.state import read_state
from foxhunt.rl.trainer import Trainer

CARTPOLE = TrainConfig(
    env="CartPole-v1",
    steps=800,
    environments=4,
    evaluations=3,
    evaluation_episodes=2,
    network=NetworkConfig(hidden1=8, hidden2=8, head_hidden=8, atoms=11, v_min=0, v_max=100),
    learner=LearnerConfig(
        batch_size=16, warmup_steps=100, steps_per_update=6, replay_capacity=600, target_rate=0.5, target_period=7
    ),
)


MARKET = replace(
    CARTPOLE,
    env=None,
    steps=600,
    market=MarketConfig(episode_steps=40),
    network=NetworkConfig(hidden1=8, hidden2=8, head_hidden=8, atoms=11),
)


FULL = replace(
    MARKET,
    network=replace(
        PRESETS["full"].network, hidden1=8, hidden2=8, head_hidden=8, atoms=11, history=6, quantiles=4, plan_horizon=5
    ),
    learner=replace(MARKET.learner, predictive_coding=0.01, replay_capacity=400),
    acting=ActingConfig(values="quantile", cvar=0.5, risk_budget=True, selectivity=True, trade_plan=True),
)
"""Every head on, and every one of them acting."""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 20 simulated minutes."""
    return write_market(tmp_path_factory.mktemp("data") / "market", seed=0)


def write_market(folder: Path, seed: int) -> Path:
    simulation = simulate(SimulatorConfig(seconds=1200, seed=seed))
    frames = {"book": simulation.book, "trades": simulation.trades}
    instruments = {simulation.instrument.symbol: simulation.instrument}
    return write_dataset(folder, Imported(instruments, frames), overwrite=folder.exists()).path


def leaves(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested state with its path."""
    if isinstance(state, dict | list):
        items = state.items() if isinstance(state, dict) else enumerate(state)
        for key, value in items:
            yield from leaves(value, f"{path}/{key}")
    else:
        yield path, state


def assert_same(ours: Any, theirs: Any) -> None:
    left, right = dict(leaves(ours)), dict(leaves(theirs))
    assert left.keys() == right.keys()
    for path, value in left.items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == right[path].dtype, path
            assert torch.equal(value, right[path]), path
        else:
            assert value == right[path], path


def assert_same_run(whole: Path, parts: Path) -> None:
    """Last and best checkpoint and metrics of two runs agree to the last bit; only their folders differ."""
    assert (whole / "metrics.jsonl").read_bytes() == (parts / "metrics.jsonl").read_bytes()
    for which, names in (("last", ("model", "training")), ("best", ("model",))):
        folders = [checkpoint_folder(run, which) for run in (whole, parts)]  # type: ignore[arg-type]  # two literals
        for name in names:
            states = [read_state(folder, name) for folder in folders]
            for state in states:
                state.get("config", {}).pop("out", None)
            assert_same(*states)


@pytest.mark.parametrize(
    ("stop", "trunk"),
    [(40, "grn"), (404, "grn"), (404, "relu"), (796, "grn")],
    ids=["in warm-up", "half way", "half way relu", "at the end"],
)
def test_cartpole_resumes_bit_for_bit(tmp_path: Path, stop: int, trunk: str) -> None:
    config = replace(CARTPOLE, network=replace(CARTPOLE.network, trunk=trunk))
    Trainer(replace(config, out=tmp_path / "whole")).train()
    Trainer(replace(config, out=tmp_path / "parts")).train(stop_at=stop)
    summary = Trainer.resume(tmp_path / "parts").train()
    assert summary.finished
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize(("preset", "stop"), [(MARKET, 44), (MARKET, 300), (FULL, 300)], ids=["early", "late", "full"])
def test_a_market_run_resumes_bit_for_bit(tmp_path: Path, simulated: Path, preset: TrainConfig, stop: int) -> None:
    config = replace(preset, data=simulated)
    Trainer(replace(config, out=tmp_path / "whole")).train()
    Trainer(replace(config, out=tmp_path / "parts")).train(stop_at=stop)
    assert Trainer.resume(tmp_path / "parts").train().finished
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_market_run_refuses_other_data(tmp_path: Path) -> None:
    data = write_market(tmp_path / "market", seed=1)
    Trainer(replace(MARKET, data=data, out=tmp_path / "run")).train(stop_at=44)
    write_market(data, seed=2)
    with pytest.raises(CheckpointError, match="has changed since the run started"):
        Trainer.resume(tmp_path / "run")


def test_a_moved_run_that_wrote_on_after_its_checkpoint_resumes_bit_for_bit(tmp_path: Path) -> None:
    """A killed run: metrics run ahead of the last checkpoint and are cut back to it."""
    Trainer(replace(CARTPOLE, out=tmp_path / "whole")).train()
    Trainer(replace(CARTPOLE, out=tmp_path / "parts")).train(stop_at=500)
    with (tmp_path / "parts" / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 504, "loss": 1.0}\n{"step": 5')
    (tmp_path / "parts").rename(tmp_path / "moved")
    Trainer.resume(tmp_path / "moved").train()
    assert_same_run(tmp_path / "whole", tmp_path / "moved")


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    Trainer(replace(CARTPOLE, out=tmp_path / "run")).train()
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert Trainer.resume(tmp_path / "run").train().finished
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_a_damaged_replay_is_refused_in_one_line(tmp_path: Path) -> None:
    Trainer(replace(CARTPOLE, out=tmp_path / "run")).train(stop_at=200)
    file = checkpoint_folder(tmp_path / "run", "last") / "training.safetensors"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"training.safetensors is damaged \(checksum differs\)"):
        Trainer.resume(tmp_path / "run")
