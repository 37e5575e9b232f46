"""The ring: transitions against brute force on random histories with autoresets, ends and a wrapping head."""

import random
from dataclasses import dataclass

import pytest
import torch

from foxhunt.config import LearnerConfig
from foxhunt.errors import ConfigError
from foxhunt.rl.replay import Batch, Replay


@dataclass
class Row:
    """One environment's step; the observation is the step's own number."""

    step: int
    action: int
    reward: float
    terminated: bool
    truncated: bool
    ignored: bool


def make(environments: int, rows: int, n_step: int = 3, **settings: float) -> Replay:
    config = LearnerConfig(
        replay_capacity=rows * environments, batch_size=1, warmup_steps=1, n_step=n_step, discount=0.9, **settings
    )
    return Replay({"market": 1}, 2, environments, config, seed=0)


def history(environments: int, steps: int, generator: random.Random, end: float) -> list[list[Row]]:
    """Random steps in next-step autoreset mode."""
    ended = [False] * environments
    out = []
    for step in range(steps):
        rows = []
        for e in range(environments):
            terminated = not ended[e] and generator.random() < end
            truncated = not ended[e] and generator.random() < end
            reward = 0.0 if ended[e] else generator.uniform(-1, 1)
            rows.append(Row(step, generator.randrange(5), reward, terminated, truncated, ended[e]))
        ended = [row.terminated or row.truncated for row in rows]
        out.append(rows)
    return out


def add(replay: Replay, rows: list[Row]) -> None:
    replay.add(
        {"market": torch.tensor([[float(row.step)] for row in rows])},
        torch.tensor([[row.action, row.action + 1] for row in rows]),
        torch.tensor([row.reward for row in rows]),
        torch.tensor([row.terminated for row in rows]),
        torch.tensor([row.truncated for row in rows]),
        torch.tensor([row.ignored for row in rows]),
    )


def transitions(rows: list[Row], kept: int, n_step: int, gamma: float) -> dict[int, tuple[float, float, int]]:
    """Brute force over one environment: first step -> (reward, bootstrap weight, step of the final observation)."""
    rows = rows[-kept:]
    out = {}
    for start, row in enumerate(rows[:-1]):
        if row.ignored:
            continue
        total, weight, length = 0.0, 1.0, 0
        while length < n_step and start + length < len(rows) - 1:
            now = rows[start + length]
            total += gamma**length * now.reward
            length += 1
            weight = 0.0 if now.terminated else gamma**length
            if now.terminated or now.truncated:
                break
        out[row.step] = (total, weight, row.step + length)
    return out


def draw_all(replay: Replay) -> Batch:
    """Every transition that can be drawn, by many stratified draws."""
    return replay.sample(40 * replay.rows * replay.environments, torch.tensor(1.0))


@pytest.mark.parametrize("n_step", [1, 3, 5])
@pytest.mark.parametrize("steps", [2, 5, 11, 12, 13, 29, 60])
def test_transitions_equal_brute_force(steps: int, n_step: int) -> None:
    """All transitions and nothing else: none crosses an episode's end or the head, none starts at an ignored row."""
    seed = 100 * steps + n_step
    generator = random.Random(seed)
    environments, capacity = 3, 12
    replay = make(environments, capacity, n_step)
    all_rows = history(environments, steps, generator, end=0.15)
    for rows in all_rows:
        add(replay, rows)
    batch = draw_all(replay)
    seen: set[tuple[int, int]] = set()
    for e in range(environments):
        mine = [rows[e] for rows in all_rows]
        expected = transitions(mine, capacity, n_step, 0.9)
        for i in (batch.slot % environments == e).nonzero()[:, 0].tolist():
            start = int(batch.observation["market"][i])
            reward, weight, final = expected[start]
            assert batch.reward[i].item() == pytest.approx(reward, abs=1e-6), seed
            assert batch.discount[i].item() == pytest.approx(weight, abs=1e-6), seed
            if weight > 0:
                assert batch.next_observation["market"][i].item() == final, seed
            assert batch.action[i].tolist() == [mine[start].action, mine[start].action + 1], seed
            seen.add((e, start))
        assert {start for owner, start in seen if owner == e} == set(expected), seed


def test_true_final_observation_is_the_one_bootstrapped_from() -> None:
    """Next-step autoreset: the step that truncates serves the final observation, in the next row."""
    replay = make(1, 10)
    for row in [
        Row(0, 0, 1.0, False, False, False),
        Row(1, 0, 2.0, False, True, False),
        Row(2, 0, 0.0, False, False, True),  # holds the final observation; its action is swallowed
        Row(3, 0, 5.0, False, False, False),
        Row(4, 0, 7.0, False, False, False),
    ]:
        add(replay, [row])
    batch = draw_all(replay)
    found = {
        int(o): (r, d, int(f))
        for o, r, d, f in zip(
            batch.observation["market"].flatten().tolist(),
            batch.reward.tolist(),
            batch.discount.tolist(),
            batch.next_observation["market"].flatten().tolist(),
            strict=True,
        )
    }
    assert found.keys() == {0, 1, 3}
    assert found[0] == (pytest.approx(1 + 0.9 * 2), pytest.approx(0.81), 2)
    assert found[1] == (pytest.approx(2.0), pytest.approx(0.9), 2)
    assert found[3] == (pytest.approx(5.0), pytest.approx(0.9), 4)


def test_ignored_row_at_the_tail_is_still_known_when_its_predecessor_is_gone() -> None:
    replay = make(1, 6)
    rows = [Row(i, 0, 1.0, False, False, False) for i in range(9)]
    rows[2].terminated, rows[3].ignored = True, True
    for row in rows:
        add(replay, [row])
    # The ring holds steps 3 to 8; step 2, which explains the mark, is overwritten.
    assert set(draw_all(replay).observation["market"].flatten().int().tolist()) == {4, 5, 6, 7}


def test_new_transitions_start_at_the_peak_and_the_newest_row_waits() -> None:
    replay = make(2, 8, priority_exponent=1.0)
    for step in range(3):
        add(replay, [Row(step, 0, 0.0, False, False, False)] * 2)
    assert replay.priorities.mass.view(8, 2).tolist()[:4] == [[1, 1], [1, 1], [0, 0], [0, 0]]
    replay.prioritise(torch.tensor([1]), torch.tensor([6.0]))
    add(replay, [Row(3, 0, 0.0, False, False, False)] * 2)
    assert replay.priorities.mass.view(8, 2)[2].tolist() == pytest.approx([6.0, 6.0], abs=1e-5)


def test_overwritten_slots_lose_their_priority() -> None:
    replay = make(1, 6, priority_exponent=1.0)
    for step in range(6):
        add(replay, [Row(step, 0, 0.0, False, False, False)])
    replay.prioritise(torch.tensor([0]), torch.tensor([1000.0]))
    add(replay, [Row(6, 0, 0.0, False, False, False)])
    assert replay.priorities.mass.tolist() == pytest.approx([0, 1, 1, 1, 1, 1000], abs=1e-3)
    assert replay.observation["market"].flatten().tolist() == [6, 1, 2, 3, 4, 5]


def test_state_round_trip_is_bit_exact() -> None:
    generator = random.Random(4)
    replay, twin = make(3, 12), make(3, 12)
    rows = history(3, 40, generator, 0.1)
    for step in rows[:20]:
        add(replay, step)
    replay.sample(9, torch.tensor(0.5))
    twin.load_state_dict(replay.state_dict())
    for step in rows[20:]:
        add(replay, step)
        add(twin, step)
    ours, theirs = replay.sample(50, torch.tensor(0.5)), twin.sample(50, torch.tensor(0.5))
    assert torch.equal(ours.slot, theirs.slot)
    assert torch.equal(ours.reward, theirs.reward)
    assert torch.equal(ours.next_observation["market"], theirs.next_observation["market"])


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"leaves 3 rows for 10 environments; n_step 3 needs at least 50"):
        make(10, 3)
