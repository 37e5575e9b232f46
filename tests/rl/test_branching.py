"""Branches: Double-Q selection, the mixture target, loss, priorities."""

import math

import pytest
import torch

from foxhunt.rl.branching import double_q_mixture, take_actions
from foxhunt.rl.losses import branching_c51_loss, branching_td_error


def test_selector_and_target_play_different_parts() -> None:
    """Online values choose the action, the target network's distribution of that action counts."""
    selector = torch.tensor([[[1.0, 2.0], [5.0, 4.0]]])  # branch 0 takes action 1, branch 1 action 0
    probabilities = torch.tensor([[[[0.9, 0.1], [0.3, 0.7]], [[0.6, 0.4], [0.0001, 0.9999]]]])
    mixture = double_q_mixture(selector, probabilities.log())
    torch.testing.assert_close(mixture, torch.tensor([[(0.3 + 0.6) / 2, (0.7 + 0.4) / 2]]))


def test_actions_that_do_not_exist_are_never_selected() -> None:
    selector = torch.tensor([[[-3.0, -torch.inf], [-1.0, -2.0]]])
    probabilities = torch.tensor([[[[0.2, 0.8], [1.0, 0.0]], [[0.4, 0.6], [0.5, 0.5]]]])
    torch.testing.assert_close(double_q_mixture(selector, (probabilities + 1e-30).log()), torch.tensor([[0.3, 0.7]]))


def test_mixture_has_the_mean_of_the_branches() -> None:
    torch.manual_seed(0)
    logits, atoms = torch.randn(6, 4, 3, 11, dtype=torch.float64), torch.linspace(-2, 3, 11, dtype=torch.float64)
    selector = torch.randn(6, 4, 3, dtype=torch.float64)
    values = (take_actions(logits, selector.argmax(-1)).softmax(-1) * atoms).sum(-1)
    torch.testing.assert_close(double_q_mixture(selector, logits) @ atoms, values.mean(1))


def test_take_actions() -> None:
    logits = torch.arange(24.0).view(1, 2, 3, 4)
    taken = take_actions(logits, torch.tensor([[2, 0]]))
    assert taken.tolist() == [[[8.0, 9.0, 10.0, 11.0], [12.0, 13.0, 14.0, 15.0]]]


def test_loss_by_hand() -> None:
    """Mean over branches, then importance-weighted mean over the batch."""
    logits = torch.zeros(2, 2, 2)
    logits[0, 1] = torch.tensor([0.0, math.log(3)])
    target = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    first = (math.log(2) + math.log(4)) / 2
    second = math.log(2)
    loss = branching_c51_loss(logits, target, torch.tensor([0.25, 1.0]))
    assert loss.item() == pytest.approx((0.25 * first + second) / 2)


def test_priority_sums_absolute_errors_over_branches() -> None:
    """Errors of opposite sign do not cancel."""
    q = torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, 0.0]])
    assert branching_td_error(q, torch.tensor([2.0, -1.5])).tolist() == [2.0, 4.5]
