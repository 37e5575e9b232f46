"""Histories, pairs and judged trades from replay, against a slow walk over remembered episodes."""

import itertools
from dataclasses import dataclass, field

import pytest
import torch

from foxhunt.config import LearnerConfig
from foxhunt.interface import Hold
from foxhunt.nn.encoder import HISTORY, HISTORY_VALID
from foxhunt.rl.replay import Replay, ReplayOptions

ENVIRONMENTS, PAST, HORIZON = 3, 4, 5


@dataclass
class Diary:
    """A random life in a few environments, stored in a replay and remembered step by step."""

    replay: Replay
    rows: list[list[dict[str, object]]] = field(default_factory=lambda: [[] for _ in range(ENVIRONMENTS)])


def live(steps: int, capacity: int, pairs: bool = False, seed: int = 0) -> Diary:
    """Random episodes; the observation of a row is its number, the memory its negative."""
    torch.manual_seed(seed)
    config = LearnerConfig(replay_capacity=capacity * ENVIRONMENTS, batch_size=8, warmup_steps=8, n_step=2)
    options = ReplayOptions(memory=1, past=PAST, horizon=HORIZON, pairs=pairs)
    diary = Diary(Replay({"market": 1}, 4, ENVIRONMENTS, config, seed, options=options))
    ended = torch.zeros(ENVIRONMENTS, dtype=torch.bool)
    episode = torch.zeros(ENVIRONMENTS, dtype=torch.long)
    for step in range(steps):
        number = torch.full((ENVIRONMENTS, 1), float(step + 1))
        action = torch.randint(3, (ENVIRONMENTS, 4))
        ends = (torch.rand(ENVIRONMENTS) < 0.12) & ~ended
        hold = Hold(torch.randn(ENVIRONMENTS), torch.rand(ENVIRONMENTS))
        never = torch.zeros_like(ends)
        diary.replay.add({"market": number}, action, torch.randn(ENVIRONMENTS), ends, never, ended, -number, hold)
        for e in range(ENVIRONMENTS):
            diary.rows[e].append(
                {
                    "number": step + 1,
                    "episode": int(episode[e]),
                    "ignored": bool(ended[e]),
                    "side": int(action[e, 0]) - 1,
                    "move": float(hold.move[e]),
                    "cost": float(hold.cost[e]),
                }
            )
        episode += ended.long()
        ended = ends
    return diary


def draws(diary: Diary, count: int = 64, times: int = 20) -> "itertools.chain[tuple[int, int, int, object]]":
    """(sample, environment, step index, batch) of many draws."""
    replay = diary.replay

    def one() -> "list[tuple[int, int, int, object]]":
        batch = replay.sample(count, torch.tensor(0.5))
        environment = batch.slot % ENVIRONMENTS
        index = batch.observation["market"][:, 0].long() - 1
        return [(i, int(environment[i]), int(index[i]), batch) for i in range(count)]

    return itertools.chain.from_iterable(one() for _ in range(times))


@pytest.mark.parametrize(("steps", "capacity"), [(30, 100), (150, 40)])
def test_history_is_the_episode_so_far(steps: int, capacity: int) -> None:
    """Also of the next observation, across the ring's seam, and never from what the ring has overwritten."""
    diary = live(steps, capacity)
    checked = 0
    for i, e, index, batch in draws(diary):
        for observation, at in ((batch.observation, index), (batch.next_observation, None)):
            if at is None:
                at = int(observation["market"][i, 0]) - 1
            own = diary.rows[e][at]["episode"]
            expected = [
                -float(row["number"])
                for row in diary.rows[e][max(0, at - PAST) : at]
                if row["episode"] == own and row["number"] > steps - capacity
            ]
            valid = observation[HISTORY_VALID][i]
            assert observation[HISTORY][i, valid, 0].tolist() == expected
            assert valid.tolist() == [False] * (PAST - len(expected)) + [True] * len(expected)
            checked += 1
    assert checked == 2 * 64 * 20


def test_trades_are_judged_by_what_followed() -> None:
    diary = live(200, 80)
    judged = 0
    for i, e, index, batch in draws(diary):
        rows = diary.rows[e][index : index + HORIZON]
        side = rows[0]["side"]
        # A decision acts over one step; all of them must belong to decisions of one episode.
        whole = len(diary.rows[e]) - 1 - index >= HORIZON and all(
            row["episode"] == rows[0]["episode"] and not row["ignored"] for row in rows
        )
        assert bool(batch.trade.judged[i]) == (whole and side != 0)
        if batch.trade.judged[i]:
            path = list(itertools.accumulate(side * row["move"] for row in rows))
            assert batch.trade.profit[i].item() == pytest.approx(path[-1] - rows[0]["cost"], abs=1e-5)
            assert batch.trade.favourable[i].item() == pytest.approx(max(0, *path), abs=1e-5)
            assert batch.trade.adverse[i].item() == pytest.approx(-min(0, *path), abs=1e-5)
            assert batch.trade.peak[i].item() == path.index(max(path)) + 1
            judged += 1
    assert judged > 200


def test_pairs_are_consecutive_steps_of_one_episode() -> None:
    diary = live(200, 80, pairs=True)
    seen = {True: 0, False: 0}
    for i, e, index, batch in draws(diary):
        if i % 2:
            continue
        consecutive = bool(batch.consecutive[i // 2])
        following = int(batch.observation["market"][i + 1, 0]) - 1
        if consecutive:
            assert following == index + 1
            assert diary.rows[e][following]["episode"] == diary.rows[e][index]["episode"]
            assert batch.weight[i + 1] > 0
        else:
            assert following == index
            assert batch.weight[i + 1] == 0
            last = index + 1 >= len(diary.rows[e]) - 1
            assert last or diary.rows[e][index + 1]["ignored"]
        seen[consecutive] += 1
    assert min(seen.values()) > 10


def test_pair_weights_undo_the_chance_of_being_drawn_either_way() -> None:
    """With exponent 1, weight times how often a slot is drawn is the same for all slots, within noise."""
    diary = live(40, 100, pairs=True)
    replay = diary.replay
    every = (replay.priorities.mass > 0).nonzero().flatten()
    replay.prioritise(every, torch.rand(len(every)) * 5 + 0.2)
    total = torch.zeros(replay.rows * ENVIRONMENTS, dtype=torch.float64)
    for _ in range(3000):
        batch = replay.sample(8, torch.tensor(1.0))
        # Undo the division by the batch's largest weight: weights are ratios to the least likely slot drawn.
        chance = replay._chance(batch.slot)
        total.index_add_(0, batch.slot, batch.weight.double() / chance.min())
    share = total[every] / total[every].mean()
    assert share.std() < 0.1
    assert share.min() > 0.7


def test_state_round_trip_is_exact() -> None:
    diary, other = live(150, 40), live(10, 40, seed=9)
    other.replay.load_state_dict(diary.replay.state_dict())
    ours, theirs = (d.replay.sample(16, torch.tensor(0.4)) for d in (diary, other))
    assert torch.equal(ours.slot, theirs.slot)
    assert torch.equal(ours.observation[HISTORY], theirs.observation[HISTORY])
    assert torch.equal(ours.trade.profit, theirs.trade.profit)
