"""Multi-step returns by hand, and against a loop on random windows."""

import random

import pytest
import torch

from foxhunt.rl.returns import n_step_return

T, F = True, False


def window(values: list[float] | list[bool]) -> torch.Tensor:
    dtype = torch.bool if isinstance(values[0], bool) else torch.float64
    return torch.tensor(values, dtype=dtype)[:, None]


@pytest.mark.parametrize(
    ("terminated", "truncated", "available", "reward", "discount", "length"),
    [
        ([F, F, F], [F, F, F], 9, 1 + 0.5 * 2 + 0.25 * 4, 0.125, 3),  # nothing ends: gamma^3
        ([F, T, F], [F, F, F], 9, 1 + 0.5 * 2, 0.0, 2),  # termination does not bootstrap
        ([F, F, F], [F, T, F], 9, 1 + 0.5 * 2, 0.25, 2),  # truncation does, with gamma^(actual length)
        ([F, T, F], [F, T, F], 9, 1 + 0.5 * 2, 0.0, 2),  # both flags: termination wins
        ([T, F, F], [F, F, F], 9, 1.0, 0.0, 1),
        ([F, F, T], [F, F, F], 9, 3.0, 0.0, 3),
        ([F, F, F], [F, F, F], 2, 1 + 0.5 * 2, 0.25, 2),  # the ring's head comes first
        ([F, F, T], [F, F, F], 2, 1 + 0.5 * 2, 0.25, 2),  # an end beyond it is stale
        ([F, T, F], [T, F, F], 9, 1.0, 0.5, 1),  # what follows the first end belongs to another episode
    ],
)
def test_hand_worked_windows(
    terminated: list[bool], truncated: list[bool], available: int, reward: float, discount: float, length: int
) -> None:
    step = n_step_return(
        window([1.0, 2.0, 4.0]), window(terminated), window(truncated), torch.tensor([available]), discount=0.5
    )
    assert (step.reward.item(), step.discount.item(), step.length.item()) == (reward, discount, length)


def test_garbage_behind_the_end_does_not_leak() -> None:
    rewards = window([1.0, float("nan"), float("inf")])
    step = n_step_return(rewards, window([T, F, F]), window([F, F, F]), torch.tensor([3]), discount=0.9)
    assert step.reward.item() == 1.0


def test_equals_a_loop_on_random_windows() -> None:
    seed = 5
    generator = random.Random(seed)
    for _ in range(300):
        n, gamma = generator.randint(1, 6), generator.uniform(0.5, 1)
        rewards = [generator.gauss(0, 1) for _ in range(n)]
        terminated = [generator.random() < 0.2 for _ in range(n)]
        truncated = [generator.random() < 0.2 for _ in range(n)]
        available = generator.randint(1, 8)
        total, bootstrap, length = 0.0, 1.0, 0
        for step in range(min(n, available)):
            total += gamma**step * rewards[step]
            length, bootstrap = step + 1, gamma ** (step + 1)
            if terminated[step] or truncated[step]:
                bootstrap = 0.0 if terminated[step] else bootstrap
                break
        ours = n_step_return(
            window(rewards), window(terminated), window(truncated), torch.tensor([available]), discount=gamma
        )
        assert ours.reward.item() == pytest.approx(total, abs=1e-12), seed
        assert ours.discount.item() == pytest.approx(bootstrap, abs=1e-12), seed
        assert ours.length.item() == length, seed


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"\[n, batch\]"):
        n_step_return(torch.zeros(3, 2), torch.zeros(3, 2).bool(), torch.zeros(2, 2).bool(), torch.ones(2), 0.9)
