"""Heads by hand, and each on a signal planted for it."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from foxhunt.nn.heads import EnsembleValueHead, LinearHead, RiskBudgetHead, TradePlanHead
from foxhunt.rl.auxiliary import calibration_error, error_share, kelly_loss, pinball, probability_loss


def train(module: nn.Module, loss_of: Callable[[], torch.Tensor], steps: int, rate: float = 0.01) -> None:
    """Adam with a step size that falls linearly."""
    optimizer = torch.optim.Adam(module.parameters(), rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().mean().backward()
        optimizer.step()
        falling.step()


def test_linear_head_starts_undecided() -> None:
    assert LinearHead(5)(torch.randn(3, 5)).tolist() == [0, 0, 0]


def test_confidence_recovers_planted_error_size() -> None:
    """TD errors whose size depends on h through a logistic share: the head's forecast is calibrated and close."""
    torch.manual_seed(0)
    h = torch.randn(20_000, 8)
    share = torch.sigmoid(h[:, 0] - 0.5 * h[:, 3])
    # |delta| exponential around the odds, so that the share itself is random around its planted mean.
    td_error = share / (1 - share) * torch.empty(20_000).exponential_() * torch.empty(20_000).bernoulli_().mul(2).sub(1)
    target = error_share(td_error, torch.tensor(1.0))
    head = LinearHead(8)
    train(head, lambda: probability_loss(head(h), target), 300, 0.05)
    predicted = torch.sigmoid(head(h)).detach()
    assert calibration_error(predicted, target) < 0.05
    assert torch.corrcoef(torch.stack([predicted, share]))[0, 1] > 0.99


def test_selectivity_recovers_planted_probability() -> None:
    torch.manual_seed(1)
    h = torch.randn(20_000, 8)
    probability = torch.sigmoid(1.5 * h[:, 1] - 1)
    paid = torch.bernoulli(probability)
    head = LinearHead(8)
    train(head, lambda: probability_loss(head(h), paid), 300, 0.05)
    fresh = torch.randn(20_000, 8)
    predicted = torch.sigmoid(head(fresh)).detach()
    outcome = torch.bernoulli(torch.sigmoid(1.5 * fresh[:, 1] - 1))
    assert calibration_error(predicted, outcome) < 0.05


def test_risk_budget_recovers_the_kelly_optimum_of_each_regime() -> None:
    """Two regimes told by h: optimum mu / (sigma^2 + mu^2) is 0.8/2.8 in one, 0.1/1.01 in the other."""
    torch.manual_seed(2)
    regime = torch.arange(8000) % 2
    h = torch.randn(8000, 6)
    h[:, 0] = regime * 2.0 - 1
    calm = torch.where(torch.rand(8000) < 0.6, 2.0, -1.0)
    wild = 0.1 + torch.randn(8000)
    outcome = torch.where(regime == 1, calm, wild)
    head = RiskBudgetHead(6, 12)
    isv, predicted_error = torch.zeros(8000, 12), torch.full((8000,), 0.5)
    train(head, lambda: kelly_loss(head(h, isv, predicted_error), outcome), 400)
    fraction = head(h, isv, predicted_error).detach()
    for value in (0, 1):
        here = outcome[regime == value].double()
        optimum = here.mean() / here.square().mean()
        assert fraction[regime == value].mean().item() == pytest.approx(optimum.item(), rel=0.1)


def test_trade_plan_recovers_planted_quantiles() -> None:
    """Excursions uniform up to 4 in one regime and up to 2 in the other: their 60 % quantiles are 2.4 and 1.2."""
    torch.manual_seed(3)
    regime = torch.arange(8000) % 2
    h = torch.randn(8000, 4) * 0.1
    h[:, 0] = regime * 2.0 - 1
    favourable = torch.rand(8000) * (2.0 + 2.0 * regime)
    adverse, time = torch.rand(8000) * 3.0, torch.randint(1, 21, (8000,)).float()
    head = TradePlanHead(4, 16, largest_excursion=10.0, largest_horizon=50)

    def loss() -> torch.Tensor:
        plan = head(h)
        return (
            pinball(plan.target, favourable, 0.6) + pinball(plan.stop, adverse, 0.8) + pinball(plan.horizon, time, 0.5)
        )

    train(head, loss, 800)
    plan = head(h)
    assert plan.target[regime == 1].mean().item() == pytest.approx(2.4, abs=0.15)
    assert plan.target[regime == 0].mean().item() == pytest.approx(1.2, abs=0.15)
    assert plan.stop.mean().item() == pytest.approx(2.4, abs=0.15)
    assert plan.horizon.mean().item() == pytest.approx(10.5, abs=1)


class TestEnsemble:
    def test_members_differ_and_see_signed_input(self) -> None:
        torch.manual_seed(0)
        logits = EnsembleValueHead(4, 8, 11, members=3)(torch.randn(5, 4))
        assert logits.shape == (5, 3, 11)
        assert (logits[:, 0] - logits[:, 1]).abs().min() > 0

    def test_equals_separate_heads(self) -> None:
        torch.manual_seed(0)
        head = EnsembleValueHead(4, 8, 11, members=3)
        h = torch.randn(5, 4)
        for m in range(3):
            inner = torch.relu(h @ head.inner.weight[8 * m : 8 * m + 8].T + head.inner.bias[8 * m : 8 * m + 8])
            expected = inner @ head.out.weight[m].T + head.out.bias[m]
            torch.testing.assert_close(head(h)[:, m], expected)

    def test_bootstrap_masks_make_members_disagree_where_data_is_thin(self) -> None:
        """Trained on points near zero with masks, members agree there and spread far away."""
        torch.manual_seed(0)
        head = EnsembleValueHead(1, 32, 2, members=8)
        h = torch.randn(256, 1) * 0.3
        label = (h[:, 0] > 0).long()
        mask = torch.bernoulli(torch.full((256, 8), 0.5))

        def loss() -> torch.Tensor:
            each = cross_entropy(head(h).flatten(0, 1), label.repeat_interleave(8), reduction="none")
            return each.view(256, 8) * mask

        train(head, loss, 300, 0.02)
        spread = head(torch.tensor([[0.1], [4.0]])).detach()[..., 1].std(1)
        assert spread[1] > 3 * spread[0]
