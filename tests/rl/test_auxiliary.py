"""Auxiliary losses: where each is minimal, worked by hand or recovered from planted data."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from foxhunt.rl.auxiliary import (
    calibration_error,
    error_share,
    kelly_loss,
    pinball,
    predictive_coding,
    probability_loss,
)


def fit(parameter: torch.Tensor, loss_of: Callable[[], torch.Tensor], steps: int = 500, rate: float = 0.05) -> None:
    """Minimise loss_of() over one parameter by Adam with a falling step."""
    optimizer = torch.optim.Adam([parameter], rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().mean().backward()
        optimizer.step()
        falling.step()


def test_error_share_by_hand() -> None:
    share = error_share(torch.tensor([-3.0, 0.0, 1.0]), torch.tensor(1.0))
    assert share.tolist() == [0.75, 0.0, 0.5]


def test_kelly_optimum() -> None:
    """Returns +2 with probability 0.6, -1 with 0.4: mu = 0.8, sigma^2 + mu^2 = 2.8, f = 0.2857."""
    outcome = torch.tensor([2.0] * 6 + [-1.0] * 4)
    fraction = torch.tensor(0.9, requires_grad=True)
    fit(fraction, lambda: kelly_loss(fraction.expand(10), outcome))
    assert fraction.item() == pytest.approx(0.8 / 2.8, abs=1e-3)


def test_pinball_minimum_is_the_quantile() -> None:
    torch.manual_seed(0)
    outcome = torch.rand(10_000)
    guess = torch.tensor(0.5, requires_grad=True)
    fit(guess, lambda: pinball(guess.expand(10_000), outcome, 0.8), rate=0.02)
    assert guess.item() == pytest.approx(0.8, abs=0.01)


def test_probability_loss_calibrates_on_planted_probabilities() -> None:
    torch.manual_seed(0)
    x = torch.randn(20_000, 3)
    probability = torch.sigmoid(2 * x[:, 0] - x[:, 1])
    outcome = torch.bernoulli(probability)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(200):
        optimizer.zero_grad()
        probability_loss(model(x)[:, 0], outcome).mean().backward()
        optimizer.step()
    predicted = torch.sigmoid(model(x)[:, 0].detach())
    assert calibration_error(predicted, outcome) < 0.02
    assert (predicted - probability).abs().max() < 0.05


def test_calibration_error_by_hand() -> None:
    """Two bins are used: 4 samples at 0.1 with outcomes 0,0,1,0 and 1 sample at 1.0 with outcome 1."""
    predicted = torch.tensor([0.1, 0.1, 0.1, 0.1, 1.0])
    outcome = torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0])
    assert calibration_error(predicted, outcome).item() == pytest.approx(4 / 5 * 0.15)


def test_calibration_bins_are_left_closed() -> None:
    """1/15 opens the second bin: alone there, its gap is not averaged with the first bin's."""
    predicted = torch.tensor([0.0, 1 / 15], dtype=torch.float64)
    outcome = torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert calibration_error(predicted, outcome).item() == pytest.approx((1 + 1 / 15) / 2)


class TestPredictiveCoding:
    def test_means_over_valid_pairs_only(self) -> None:
        h = torch.tensor([[1.0, 3.0], [0.0, 0.0], [5.0, 5.0]])
        following = torch.tensor([[0.0, 1.0], [2.0, 0.0], [-99.0, 99.0]])
        loss = predictive_coding(h, following, torch.tensor([True, True, False]))
        assert loss.item() == pytest.approx((2.5 + 2.0) / 2)

    def test_gradient_flows_to_both_sides(self) -> None:
        h = torch.randn(4, 3, requires_grad=True)
        following = torch.randn(4, 3, requires_grad=True)
        predictive_coding(h, following, torch.ones(4, dtype=torch.bool)).backward()
        torch.testing.assert_close(h.grad, -following.grad)
        torch.testing.assert_close(h.grad, 2 * (h - following).detach() / 12)

    def test_is_zero_without_valid_pairs(self) -> None:
        h = torch.randn(2, 3)
        assert predictive_coding(h, h + 1, torch.zeros(2, dtype=torch.bool)).item() == 0
