"""Quantile Huber loss against sb3-contrib, a hand value, and the quantiles it is minimal at."""

import pytest
import torch
from sb3_contrib.common.utils import quantile_huber_loss

from foxhunt.rl.quantile import lower_tail, quantile_huber


def test_hand_value() -> None:
    """Zeros against ones, ten quantiles: each term 0.5 * tau, tau averages 0.5, summed over ten: 2.5."""
    tau = (torch.arange(10) + 0.5).div(10).expand(3, 10)
    loss = quantile_huber(torch.zeros(3, 10), torch.ones(3, 10), tau)
    torch.testing.assert_close(loss, torch.full((3,), 2.5))
    torch.testing.assert_close(loss / 10, torch.full((3,), 0.25))


def test_equals_sb3_contrib() -> None:
    torch.manual_seed(0)
    online, target = torch.randn(16, 8, dtype=torch.float64) * 2, torch.randn(16, 5, dtype=torch.float64) * 2
    tau = torch.rand(16, 8, dtype=torch.float64)
    theirs = quantile_huber_loss(online, target, tau[..., None], sum_over_quantiles=True)
    torch.testing.assert_close(quantile_huber(online, target, tau).mean(), theirs)


def test_sums_over_online_levels_and_averages_over_target_samples() -> None:
    """The same levels twice weigh double, the same samples twice weigh the same."""
    torch.manual_seed(0)
    online, target, tau = torch.randn(4, 3), torch.randn(4, 5), torch.rand(4, 3)
    once = quantile_huber(online, target, tau)
    torch.testing.assert_close(quantile_huber(online.repeat(1, 2), target, tau.repeat(1, 2)), 2 * once)
    torch.testing.assert_close(quantile_huber(online, target.repeat(1, 2), tau), once)


def test_kappa_divides() -> None:
    """Far from zero the loss is |delta| - kappa/2 after the division, whatever kappa."""
    tau = torch.full((1, 1), 0.5)
    for kappa in (0.5, 1.0, 2.0):
        loss = quantile_huber(torch.zeros(1, 1), torch.full((1, 1), 10.0), tau, kappa)
        assert loss.item() == pytest.approx(0.5 * (10 - kappa / 2))


def test_minimum_is_the_quantile() -> None:
    torch.manual_seed(1)
    samples = torch.randn(1, 20_000)
    tau = torch.tensor([[0.1, 0.5, 0.9]])
    estimate = torch.zeros(1, 3, requires_grad=True)
    optimizer = torch.optim.SGD([estimate], 0.2)
    for _ in range(300):
        optimizer.zero_grad()
        quantile_huber(estimate, samples, tau, kappa=0.02).sum().backward()
        optimizer.step()
    expected = torch.quantile(samples[0], tau[0])
    torch.testing.assert_close(estimate.detach()[0], expected, atol=0.02, rtol=0)


def test_no_gradient_into_the_target() -> None:
    target = torch.zeros(1, 2, requires_grad=True)
    online = torch.ones(1, 2, requires_grad=True)
    quantile_huber(online, target, torch.full((1, 2), 0.3)).sum().backward()
    assert target.grad is None
    assert (online.grad != 0).all()


def test_lower_tail_mean_is_cvar() -> None:
    """Uniform returns on [0, 1]: quantile at tau is tau, CVaR(0.25) is 0.125."""
    torch.manual_seed(0)
    assert lower_tail(torch.rand(1, 100_000), 0.25).mean().item() == pytest.approx(0.125, abs=1e-3)
