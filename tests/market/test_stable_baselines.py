"""stable-baselines3 trains on `foxhunt/Trading-v0` as it is, and learns what there is to learn."""

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor

from foxhunt.config import MarketConfig, SplitConfig, TapeConfig
from foxhunt.market.gymnasium import IDENTIFIER

from .frames import BookRow, tape_of

EPISODE = 32


class Ledger(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps what the account earned in every finished episode, in reward units."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.earned: list[float] = []

    def step(self, action: Any) -> Any:
        """Pass on, and look into the account at the end."""
        result = self.env.step(action)
        if result[2] or result[3]:
            unit = float(self.env.unwrapped._environment.reward_unit[0])
            self.earned.append((result[4]["equity"] - 10_000) / unit)
        return result


def rising(actions: str) -> Ledger:
    """A price that rises two ticks in three seconds out of four and falls two in the fourth: long pays, short does
    not."""
    middle, books = 1000, []
    for second in range(600):
        middle += -2 if second % 4 == 3 else 2
        books += [(second + part, [(middle - 1, 50)], [(middle + 1, 50)]) for part in (0.0, 0.5)]
    rows: list[BookRow] = books
    tape = tape_of(rows, config=TapeConfig(levels=1, ofi_levels=1, volatility_windows=(2, 8)))
    split = SplitConfig(train="0%/90%", validate="90%/95%", test="95%/100%")
    market = MarketConfig(initial_cash=10_000, episode_steps=EPISODE)
    make = f"foxhunt.market.gymnasium:{IDENTIFIER}"
    return Ledger(gymnasium.make(make, tape=tape, split=split, market=market, actions=actions))


def ppo(env: Monitor[Any, Any]) -> BaseAlgorithm:
    """Actions branch by branch."""
    return PPO("MlpPolicy", env, n_steps=128, batch_size=64, learning_rate=1e-3, gamma=0.9, seed=0, device="cpu")


def dqn(env: Monitor[Any, Any]) -> BaseAlgorithm:
    """81 actions."""
    return DQN(
        "MlpPolicy", env, learning_starts=200, train_freq=2, target_update_interval=100, learning_rate=1e-3,
        gamma=0.9, exploration_fraction=0.7, seed=0, device="cpu",
    )  # fmt: skip


@pytest.mark.parametrize(("algorithm", "actions"), [(ppo, "branches"), (dqn, "flat")])
def test_trains_and_learns(algorithm: Callable[[Any], BaseAlgorithm], actions: str) -> None:
    """Parameters move, episodes end on time, returns are what the account earned, and later ones are better."""
    ledger = rising(actions)
    env: Monitor[Any, Any] = Monitor(ledger)
    model = algorithm(env)
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(2048)
    assert any(not torch.equal(p, q) for p, q in zip(before, model.policy.parameters(), strict=True))
    returns = env.get_episode_rewards()
    assert env.get_episode_lengths() == [EPISODE] * len(returns)
    assert len(returns) == 2048 // EPISODE
    assert returns == pytest.approx(ledger.earned, abs=1e-4)
    assert sum(returns[-16:]) > sum(returns[:16])
    position = 0
    observation, _ = env.reset(seed=1)
    for _ in range(10):
        observation, *_, info = env.step(model.predict(observation, deterministic=True)[0])
        position = info["position"]
    assert position > 0
