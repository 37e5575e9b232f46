"""The run: bookkeeping of updates, records and evaluations, refusal of bad settings, what is left on disk."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from foxhunt.config import LearnerConfig, NetworkConfig, TrainConfig
from foxhunt.errors import ConfigError
from foxhunt.nn.isv import Slot
from foxhunt.rl.agent import load_agent
from foxhunt.rl.profile import PHASES, PhaseProfile
from foxhunt.rl.trainer import RECORDS, Snapshot, Trainer


def small(out: Path, **changes: Any) -> TrainConfig:
    return TrainConfig(
        **{
            "env": "CartPole-v1",
            "out": out,
            "steps": 800,
            "environments": 4,
            "evaluations": 4,
            "evaluation_episodes": 2,
            "network": NetworkConfig(hidden1=8, hidden2=8, head_hidden=8, atoms=11, v_min=0, v_max=100),
            "learner": LearnerConfig(batch_size=8, warmup_steps=100, steps_per_update=10, replay_capacity=400),
            **changes,
        }
    )


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_metrics_checkpoints_and_events(tmp_path: Path) -> None:
    trainer = Trainer(small(tmp_path / "run"))
    shown: list[Snapshot] = []

    class Display:
        def show(self, snapshot: Snapshot) -> None:
            shown.append(snapshot)

    summary = trainer.train(display=Display())
    assert (summary.step, summary.finished) == (800, True)
    assert trainer.updates == (800 - 100) // 10 == int(trainer.learner.updates)
    written = records(tmp_path / "run")
    evaluations = [r for r in written if "evaluation_return" in r]
    assert [r["step"] for r in evaluations] == [200, 400, 600, 800]
    assert summary.best_evaluation == max(r["evaluation_return"] for r in evaluations)
    assert summary.last_evaluation == evaluations[-1]["evaluation_return"]
    training = [r for r in written if "epsilon" in r]
    assert len(training) == RECORDS
    assert training[-1]["updates"] == 70
    assert training[0]["loss"] is None
    slots = {slot: training[-1][f"isv_{slot.name.lower()}"] for slot in Slot}
    assert [slots[slot] for slot in Slot] == trainer.learner.network.encoder.isv.slots.tolist()
    assert slots[Slot.TD_ERROR] > 0
    assert sum(r["episodes"] for r in training) == sum(r["episodes"] for r in training if r["return"] is not None)
    # CartPole pays 1 a step: returns of finished and running episodes are all steps but the swallowed ones.
    paid = sum(r["return"] * r["episodes"] for r in training if r["episodes"])
    total = paid + float(trainer.collector.running_return.sum())
    swallowed = sum(r["episodes"] for r in training) - int(trainer.collector.ended.sum())
    assert total == pytest.approx(800 - swallowed)
    assert [s.step for s in shown] == list(range(4, 801, 4))
    assert [s.step for s in shown if s.evaluated] == [200, 400, 600, 800]
    assert set(shown[-1].shares) == set(PHASES)
    assert sum(shown[-1].shares.values()) == pytest.approx(1)
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    last, best = load_agent(tmp_path / "run", "last"), load_agent(tmp_path / "run", "best")
    assert torch.equal(
        last.network.encoder.trunk[0].inner.weight, trainer.learner.network.encoder.trunk[0].inner.weight
    )
    best_steps = [r["step"] for r in evaluations if r["evaluation_return"] == summary.best_evaluation]
    assert best.step == best_steps[-1]


def test_updates_keep_their_pace_whatever_the_number_of_environments(tmp_path: Path) -> None:
    for environments in (1, 7):
        config = small(tmp_path / str(environments), environments=environments, steps=303)
        trainer = Trainer(config)
        trainer.train()
        assert trainer.step == -(-303 // environments) * environments
        assert trainer.updates == (trainer.step - 100) // 10
        assert trainer.learner.total_updates == trainer.updates
        assert float(trainer.learner.importance_exponent()) == 1.0


def test_equal_seeds_give_equal_runs_and_others_do_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        Trainer(small(tmp_path / name, seed=seed)).train()
    texts = [(tmp_path / name / "metrics.jsonl").read_text() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_existing_runs_are_not_overwritten_unasked(tmp_path: Path) -> None:
    config = small(tmp_path / "run", steps=200)
    Trainer(config).train()
    with pytest.raises(ConfigError, match="already holds a run; continue it with --resume"):
        Trainer(config)
    trainer = Trainer(replace(config, steps=100, evaluations=1), overwrite=True)
    assert not (tmp_path / "run" / "checkpoints").exists()
    trainer.train()
    assert load_agent(tmp_path / "run").step == 100
    assert records(tmp_path / "run")[-1]["step"] == 100


def test_stop_saves_where_it_stopped(tmp_path: Path) -> None:
    trainer = Trainer(small(tmp_path / "run"))

    class Stopper:
        def show(self, snapshot: Snapshot) -> None:
            if snapshot.step == 252:
                trainer.stop()

    summary = trainer.train(display=Stopper())
    assert (summary.step, summary.finished) == (252, False)
    assert load_agent(tmp_path / "run", "last").step == 252


def test_divergence_is_told_with_a_remedy(tmp_path: Path) -> None:
    trainer = Trainer(small(tmp_path / "run"))
    trainer.train(stop_at=120)
    trainer.learner.parameters.fill_(float("nan"))
    with pytest.raises(ConfigError, match=r"the loss became nan by step \d+; lower learner.learning-rate"):
        trainer.train()


def test_nothing_to_train_on_and_unwritable_output_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"give --data DIR .* or --env ID"):
        Trainer(small(tmp_path, env=None))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*metrics.jsonl .*choose another --out"):
        Trainer(small(tmp_path / "file" / "run"))


def test_impossible_device_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"device 'nowhere' cannot be used .* try cpu"):
        Trainer(TrainConfig(env="CartPole-v1", out=tmp_path / "run", device="nowhere"))
    assert not (tmp_path / "run").exists()


def test_profile_charges_phases() -> None:
    profile = PhaseProfile()
    assert profile.shares() == dict.fromkeys(PHASES, 0.0)
    with pytest.raises(ZeroDivisionError), profile.phase("update"):
        _ = 1 / 0
    assert profile.seconds["update"] > 0
    assert profile.shares()["update"] == 1.0
