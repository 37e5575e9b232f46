"""Collecting: what is stored, epsilon over time, returns of finished episodes, evaluation episodes, lost states."""

from typing import Any

import pytest
import torch

from foxhunt.config import ActingConfig, LearnerConfig, NetworkConfig
from foxhunt.interface import Observation, StepResult
from foxhunt.nn.network import Network
from foxhunt.rl.act import GreedyPolicy
from foxhunt.rl.collect import Collector, play_episodes
from foxhunt.rl.replay import Replay

LENGTHS = torch.tensor([2, 3, 5])


class Clock:
    """Environment e ends after LENGTHS[e] steps (e = 1 by truncation); observation and reward are the step's number."""

    environments = 3
    branches = (("a", 2), ("b", 3))
    widths = {"market": 1}  # noqa: RUF012
    reward_unit = torch.tensor([1.0, 2.0, 10.0])

    def __init__(self) -> None:
        self.resets = 0

    def reset(self, seed: int | None = None) -> Observation:
        self.resets += 1
        self.time = torch.zeros(3, dtype=torch.long)
        self.done = torch.zeros(3, dtype=torch.bool)
        return self._observe()

    def step(self, action: torch.Tensor, limits: object = None) -> StepResult:
        self.time = torch.where(self.done, 0, self.time + 1)
        reward = self.time.double()
        ended = ~self.done & (self.time == LENGTHS)
        self.done = ended
        terminal = torch.tensor([True, False, True])
        return StepResult(self._observe(), reward, ended & terminal, ended & ~terminal)

    def state_dict(self) -> dict[str, Any]:
        return {"opaque": "a clock"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError("an opaque state is not loaded")

    def _observe(self) -> Observation:
        return {"market": self.time[:, None].float()}


def make(total: int = 300, **settings: float) -> Collector:
    torch.manual_seed(0)
    network = Network(Clock.widths, Clock.branches, NetworkConfig(hidden1=8, hidden2=8, head_hidden=8))
    config = LearnerConfig(
        **{"batch_size": 1, "warmup_steps": 30, "replay_capacity": 60, "discount": 0.5, "n_step": 2, **settings}
    )
    return Collector(
        Clock(), network, Replay(Clock.widths, 2, 3, config, seed=0), config, ActingConfig(), total, seed=0
    )


def test_rows_hold_what_was_seen_done_and_got() -> None:
    collector = make()
    for _ in range(7):
        collector.collect()
    replay = collector.replay
    # Environment 0 counts 0 1 2 | 0 1 2 | 0: the 2 is the final observation, whose action is swallowed.
    assert replay.observation["market"][:7, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert replay.ignored[:7, 0].tolist() == [False, False, True, False, False, True, False]
    assert replay.terminated[:7, 0].tolist() == [False, True, False, False, True, False, False]
    assert not replay.truncated[:7, 0].any()
    assert replay.truncated[:7, 1].tolist() == [False, False, True, False, False, False, True]
    assert replay.reward[:7, 1].tolist() == pytest.approx([0.5, 1.0, 1.5, 0.0, 0.5, 1.0, 1.5])  # unit 2
    assert replay.reward[:5, 2].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


def test_returns_of_finished_episodes_are_in_plain_reward() -> None:
    collector = make()
    for _ in range(7):
        collector.collect()
    # Finished: 1+2 twice, 1+2+3 twice (the second at the seventh step), 1+...+5 once.
    assert collector.take_statistics() == (3 + 3 + 6 + 6 + 15, 5)
    assert collector.take_statistics() == (0.0, 0)
    assert collector.running_return.tolist() == [1.0, 0.0, 1.0]


def test_epsilon_schedule() -> None:
    collector = make(total=301, warmup_steps=60, epsilon_start=0.9, epsilon_end=0.1, epsilon_fraction=0.5)
    seen = {}
    for _ in range(100):
        seen[int(collector.steps)] = float(collector.epsilon())
        collector.collect()
    assert seen[57] == 1.0
    assert seen[60] == pytest.approx(0.9 - 0.8 * 60 / 150)
    assert seen[75] == pytest.approx(0.5)
    assert seen[150] == pytest.approx(0.1)
    assert seen[297] == pytest.approx(0.1)


def test_a_lost_environment_begins_new_episodes_that_no_transition_crosses() -> None:
    collector, twin = make(), make()
    for _ in range(4):
        collector.collect()
    twin.replay.load_state_dict(collector.replay.state_dict())
    twin.load_state_dict(collector.state_dict())
    assert twin.environment.resets == 2  # type: ignore[attr-defined]  # the clock counts them
    for _ in range(3):
        twin.collect()
    replay = twin.replay
    # Environment 2 was at 4 of 5: step 3 becomes a truncation, 4 its final observation, then a new count from 0.
    assert replay.observation["market"][:8, 2, 0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert replay.truncated[:8, 2].tolist() == [False, False, False, True, False, False, False, False]
    assert replay.ignored[:8, 2].tolist() == [False] * 4 + [True] + [False] * 3
    # Environment 1 had just been reset by the autoreset (0 1 2 3 | 0): cut there, too.
    assert replay.observation["market"][:8, 1, 0].tolist() == [0, 1, 2, 3, 0, 0, 1, 2]
    assert replay.ignored[:8, 1].tolist() == [False, False, False, True, True, False, False, False]
    batch = replay.sample(600, torch.tensor(1.0))
    at_3 = (batch.observation["market"][:, 0] == 3) & (batch.slot % 3 == 2)
    assert at_3.any()
    assert (batch.next_observation["market"][at_3] == 4).all()
    assert torch.equal(batch.discount[at_3], torch.full((int(at_3.sum()),), 0.5))


def test_evaluation_plays_one_episode_everywhere() -> None:
    collector = make()
    returns = play_episodes(GreedyPolicy(collector.network, ActingConfig()), Clock(), seed=0)
    assert returns.tolist() == [3, 6, 15]
    assert returns.dtype == torch.float64
