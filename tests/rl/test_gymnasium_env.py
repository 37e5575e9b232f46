"""The adaptor for Gymnasium environments: autoreset, actions, scaling, saving."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from foxhunt.errors import ConfigError
from foxhunt.rl.gymnasium_env import GymnasiumEnvironment, ObservationScale
from foxhunt.rl.state import read_state, write_state


class Counting(gymnasium.Env[Any, Any]):
    """Observation: steps so far and the last action; ends after three steps."""

    def __init__(self, action_space: spaces.Space[Any], opaque: bool = False) -> None:
        self.action_space = action_space
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        if opaque:
            self.world = object()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.steps += 1
        first, *rest = np.atleast_1d(action)
        return np.array([self.steps, first, rest[0] if rest else 0], np.float32), 1.0, self.steps == 3, False, {}


for name, space, opaque in [
    ("Offset", spaces.Discrete(3, start=5), False),
    ("Multi", spaces.MultiDiscrete([2, 4]), False),
    ("Opaque", spaces.Discrete(2), True),
    ("Continuous", spaces.Box(-1, 1, (2,)), False),
]:
    gymnasium.register(f"test/{name}-v0", lambda space=space, opaque=opaque: Counting(space, opaque))


def act(*rows: list[int]) -> torch.Tensor:
    return torch.tensor(rows)


def test_next_step_autoreset() -> None:
    environment = GymnasiumEnvironment("test/Offset-v0", 1)
    environment.reset(seed=0)
    served = [environment.step(act([0])) for _ in range(5)]
    assert [int(step.observation["market"][0, 0]) for step in served] == [1, 2, 3, 0, 1]
    assert [step.reward.item() for step in served] == [1, 1, 1, 0, 1]
    assert [step.terminated.item() for step in served] == [False, False, True, False, False]
    assert served[0].reward.dtype == torch.float64


def test_actions_reach_the_environment() -> None:
    offset = GymnasiumEnvironment("test/Offset-v0", 2)
    assert offset.branches == (("action", 3),)
    offset.reset(seed=0)
    assert offset.step(act([0], [2])).observation["market"][:, 1].tolist() == [5, 7]
    multi = GymnasiumEnvironment("test/Multi-v0", 2)
    assert multi.branches == (("action0", 2), ("action1", 4))
    assert multi.widths == {"market": 3}
    multi.reset(seed=0)
    assert multi.step(act([1, 3], [0, 2])).observation["market"][:, 1:].tolist() == [[1, 3], [0, 2]]


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("NoSuch-v0", "cannot make Gymnasium environment 'NoSuch-v0'"),
        ("test/Continuous-v0", "needs Discrete or one-row MultiDiscrete"),
        ("FrozenLake-v1", "needs a flat Box"),
    ],
)
def test_unusable_environments_are_refused_in_one_line(identifier: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        GymnasiumEnvironment(identifier, 1)
    assert "\n" not in str(caught.value)


def test_environments_are_seeded_one_by_one() -> None:
    first = GymnasiumEnvironment("CartPole-v1", 3).reset(seed=7)["market"]
    assert torch.equal(first, GymnasiumEnvironment("CartPole-v1", 3).reset(seed=7)["market"])
    assert torch.equal(first[1:], GymnasiumEnvironment("CartPole-v1", 2).reset(seed=8)["market"])
    assert not torch.equal(first[0], first[1])


def test_scale_is_what_a_random_policy_meets() -> None:
    scale = ObservationScale.fit("CartPole-v1", seed=0)
    assert torch.equal(scale.center, ObservationScale.fit("CartPole-v1", seed=0).center)
    plain, scaled = GymnasiumEnvironment("CartPole-v1", 50), GymnasiumEnvironment("CartPole-v1", 50, scale)
    plain.reset(seed=1)
    scaled.reset(seed=1)
    generator = torch.Generator().manual_seed(1)
    seen = []
    for _ in range(100):
        action = torch.randint(0, 2, (50, 1), generator=generator)
        raw, ours = plain.step(action).observation["market"], scaled.step(action).observation["market"]
        torch.testing.assert_close(ours, ((raw - scale.center) / scale.scale).clamp(-10, 10))
        seen.append(ours)
    spread = torch.cat(seen).std(0)
    assert ((spread > 0.6) & (spread < 1.6)).all(), spread


def test_an_entry_that_never_moves_keeps_its_scale() -> None:
    assert ObservationScale.fit("test/Offset-v0", seed=0).scale[2] == 1.0


@pytest.mark.parametrize("identifier", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0"])
def test_saved_state_continues_bit_for_bit(identifier: str, tmp_path: Any) -> None:
    """Through files, into freshly made environments, over episode ends and their random resets."""
    original = GymnasiumEnvironment(identifier, 3)
    original.reset(seed=3)
    generator = torch.Generator().manual_seed(0)
    count = original.branches[0][1]
    actions = [torch.randint(0, count, (3, 1), generator=generator) for _ in range(650)]
    for action in actions[:437]:
        original.step(action)
    write_state(tmp_path, "state", original.state_dict())
    twin = GymnasiumEnvironment(identifier, 3)
    twin.load_state_dict(read_state(tmp_path, "state"))
    ends = 0
    for action in actions[437:]:
        ours, theirs = original.step(action), twin.step(action)
        assert torch.equal(ours.observation["market"], theirs.observation["market"])
        assert torch.equal(ours.reward, theirs.reward)
        assert torch.equal(ours.terminated, theirs.terminated)
        assert torch.equal(ours.truncated, theirs.truncated)
        ends += int((ours.terminated | ours.truncated).sum())
    assert ends > 0


def test_what_cannot_be_saved_is_named() -> None:
    environment = GymnasiumEnvironment("test/Opaque-v0", 1)
    environment.reset(seed=0)
    assert environment.state_dict() == {"opaque": "test/Opaque-v0: Counting.world of type object"}
