"""The Gymnasium views."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from foxhunt.config import MarketConfig, SplitConfig, TapeConfig
from foxhunt.data.simulator import SimulatorConfig, simulate
from foxhunt.errors import ConfigError
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.gymnasium import IDENTIFIER
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.split import split_tape
from foxhunt.market.tape import Tape
from foxhunt.market.tape_build import build_tape

MAKE = f"foxhunt.market.gymnasium:{IDENTIFIER}"
MARKET = MarketConfig(episode_steps=20)


@pytest.fixture(scope="module")
def tape() -> Tape:
    """Ten simulated minutes."""
    simulation = simulate(SimulatorConfig(seconds=600, seed=3))
    return build_tape([(simulation.book, simulation.trades, simulation.instrument)], TapeConfig())


@pytest.mark.parametrize("actions", ["branches", "flat"])
@pytest.mark.filterwarnings("error")
def test_passes_gymnasiums_own_check(tape: Tape, actions: str) -> None:
    """check_env without a single warning."""
    check_env(gymnasium.make(MAKE, tape=tape, market=MARKET, actions=actions).unwrapped, skip_render_check=True)


def test_single_view_plays_the_vector_environment(tape: Tape) -> None:
    """Same observations, same money, reward in reward units."""
    view = gymnasium.make(MAKE, tape=tape, market=MARKET)
    train = split_tape(tape, SplitConfig())["train"]
    scaler = FeatureScaler.fit(train, MARKET)
    vector = TradingEnvironment(train, MARKET, 1, scaler=scaler)
    observation, _ = view.reset(seed=7)
    expected = vector.reset(7)
    random = np.random.default_rng(0)
    for step in range(20):
        assert np.array_equal(observation, torch.cat(list(expected.values()), 1)[0].numpy())
        action = random.integers(0, 3, 4)
        observation, reward, terminated, truncated, info = view.step(action)
        result = vector.step(torch.from_numpy(action).view(1, 4))
        expected = result.observation
        assert info["money"] == float(result.reward[0])
        assert reward == float(result.reward[0]) / float(scaler.reward_unit[0])
        assert (terminated, truncated) == (False, step == 19)


def test_flat_actions_are_the_branches_in_order(tape: Tape) -> None:
    """Action 2 * 27 + 1 * 9 + 2 * 3 + 0 is long, half, cross, patient."""
    flat, branches = (gymnasium.make(MAKE, tape=tape, market=MARKET, actions=a) for a in ("flat", "branches"))
    flat.reset(seed=1)
    branches.reset(seed=1)
    for index, action in ((69, (2, 1, 2, 0)), (0, (0, 0, 0, 0)), (80, (2, 2, 2, 2))):
        assert flat.step(index)[4] == branches.step(np.array(action))[4]


def test_vector_view_steps_many_accounts(tape: Tape) -> None:
    """make_vec serves the vector environment itself, with next-step autoreset."""
    view = gymnasium.make_vec(MAKE, num_envs=8, tape=tape, market=MARKET)
    observation, _ = view.reset(seed=2)
    assert observation.shape == (8, view.single_observation_space.shape[0])
    assert view.observation_space.contains(observation)
    truncations = []
    for _ in range(22):
        _, reward, _, truncated, info = view.step(view.action_space.sample())
        truncations.append(bool(truncated.all()))
    assert truncations.index(True) == 19
    assert reward.dtype == np.float64
    assert info["equity"].shape == (8,)


@pytest.mark.parametrize("vector", [False, True])
def test_unseeded_environments_play_different_episodes(tape: Tape, vector: bool) -> None:
    """Two without a seed start apart; two with the same seed start together, and go on together."""

    def make() -> Any:
        kwargs = {"tape": tape, "market": MARKET}
        return gymnasium.make_vec(MAKE, num_envs=4, **kwargs) if vector else gymnasium.make(MAKE, **kwargs)

    first, second = make(), make()
    assert not np.array_equal(first.reset()[0], second.reset()[0])
    assert np.array_equal(first.reset(seed=5)[0], second.reset(seed=5)[0])
    again = first.reset()[0]
    assert np.array_equal(again, second.reset()[0])
    assert not np.array_equal(again, first.reset(seed=5)[0])


def test_says_what_it_needs(tape: Tape) -> None:
    """One line for each way to call it wrongly."""
    with pytest.raises(ConfigError, match="either data=FOLDER"):
        gymnasium.make(MAKE)
    with pytest.raises(ConfigError, match="part must be one of train, validate, test"):
        gymnasium.make(MAKE, tape=tape, part="dev")
    with pytest.raises(ConfigError, match="actions must be"):
        gymnasium.make(MAKE, tape=tape, actions="one")
