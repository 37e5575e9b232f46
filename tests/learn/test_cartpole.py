"""CartPole-v1 from nothing: 100 greedy episodes of the last network, within 60,000 environment steps."""

from dataclasses import replace
from pathlib import Path

import pytest

from foxhunt.presets import PRESETS
from foxhunt.rl.collect import play_episodes
from foxhunt.rl.gymnasium_env import SCALE_STEPS, GymnasiumEnvironment, ObservationScale
from foxhunt.rl.trainer import Trainer

EPISODES = 100
BUDGET = 60_000


def mean_return(trunk: str, seed: int, run: Path) -> float:
    preset = PRESETS["gymnasium"]
    config = replace(
        preset,
        env="CartPole-v1",
        out=run,
        seed=seed,
        steps=BUDGET - SCALE_STEPS,  # the random steps that measure the scale of observations count, too
        evaluations=1,
        network=replace(preset.network, trunk=trunk),
    )
    trainer = Trainer(config)
    assert trainer.train().finished
    agent = trainer.agent()
    scale = ObservationScale(**agent.fitted["scale"])
    returns = play_episodes(agent.policy, GymnasiumEnvironment("CartPole-v1", EPISODES, scale), seed=1_000_000 + seed)
    assert returns.shape == (EPISODES,)
    return float(returns.mean())


@pytest.mark.learn
def test_cartpole_is_solved(tmp_path: Path) -> None:
    assert mean_return("grn", 0, tmp_path / "run") >= 475


@pytest.mark.learn_long
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("trunk", ["grn", "relu"])
def test_cartpole_is_solved_with_every_seed_and_trunk(trunk: str, seed: int, tmp_path: Path) -> None:
    assert mean_return(trunk, seed, tmp_path / "run") >= 475
