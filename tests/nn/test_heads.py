"""Heads by hand, and each on a signal planted for it."""

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import accumulate, product

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from foxhunt.config import LearnerConfig
from foxhunt.interface import Hold
from foxhunt.nn.heads import EnsembleValueHead, LinearHead, RiskBudgetHead, TradePlanHead
from foxhunt.rl.auxiliary import calibration_error, error_share, kelly_loss, pinball, probability_loss
from foxhunt.rl.objective import HORIZON_LEVEL, STOP_LEVEL, TARGET_LEVEL
from foxhunt.rl.outcome import judged_mean
from foxhunt.rl.replay import Batch, Replay, ReplayOptions


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


WIDTH, STEPS = 6, 5
"""Features of h, and steps over which a planted trade is judged."""


def live(episodes: int, moves: Callable[[torch.Tensor], torch.Tensor], cost: float, seed: int) -> Batch:
    """What replay makes of trades planted in a series of `Hold`.

    Every episode of eight steps has an h of its own, whose first feature is the regime, -1 or 1; it takes one
    direction, mostly long or short, all along. `moves` draws from h [episodes, WIDTH] one step's gain of the direction
    taken. What follows the episode would spoil every answer if a trade were judged by it.
    """
    generator = torch.Generator().manual_seed(seed)
    config = LearnerConfig(replay_capacity=10 * episodes, priority_exponent=0.0)
    replay = Replay({"h": WIDTH}, 1, episodes, config, seed, options=ReplayOptions(horizon=STEPS))
    h = torch.randn(episodes, WIDTH, generator=generator)
    h[:, 0] = h[:, 0].sign()
    side = torch.multinomial(torch.tensor([0.45, 0.1, 0.45]), episodes, replacement=True, generator=generator) - 1
    none = torch.zeros(episodes, dtype=torch.bool)
    for step in range(10):
        over = step >= 8
        move = torch.full((episodes,), -50.0) if over else side * moves(h)
        hold = Hold(move, torch.full((episodes,), cost))
        ends, ignored = torch.full_like(none, step == 7), torch.full_like(none, over)
        replay.add({"h": h}, (side + 1).unsqueeze(1), torch.zeros(episodes), ends, none, ignored, hold=hold)
    return replay.sample(8000, torch.tensor(0.4))


def judged(batch: Batch, each: torch.Tensor) -> torch.Tensor:
    """A head's loss as the objective takes it."""
    assert batch.trade is not None
    return judged_mean(each, batch.trade, batch.weight)


def test_selectivity_recovers_planted_probability() -> None:
    """Steps of +1 or -1 at a cost of 4: a trade pays when all five go its way, at a chance that is logistic in h."""

    def chance(h: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(1.5 * h[:, 1] - 1)

    def moves(h: torch.Tensor) -> torch.Tensor:
        return torch.bernoulli(chance(h) ** (1 / STEPS)) * 2 - 1

    torch.manual_seed(1)
    batch, fresh = live(5000, moves, 4.0, seed=1), live(5000, moves, 4.0, seed=2)
    head, h = LinearHead(WIDTH), batch.observation["h"]
    train(head, lambda: judged(batch, probability_loss(head(h), batch.trade.pays)), 300, 0.05)
    here, h = fresh.trade.judged, fresh.observation["h"]
    assert 0.3 < here.float().mean() < 0.5
    predicted = torch.sigmoid(head(h)).detach()
    assert calibration_error(predicted[here], fresh.trade.pays[here]) < 0.05
    assert (predicted - chance(h)).abs().mean() < 0.03


def test_risk_budget_recovers_the_kelly_optimum_of_each_regime() -> None:
    """Normal steps of mean m at cost 1: a trade's growth has mu = (5 m - 1) / sqrt(5) and sigma = 1 or 2, told by h."""
    torch.manual_seed(2)
    mean, sigma = torch.tensor([0.45, 0.65]), torch.tensor([1.0, 2.0])

    def regime(h: torch.Tensor) -> torch.Tensor:
        return (h[:, 0] > 0).long()

    def moves(h: torch.Tensor) -> torch.Tensor:
        return mean[regime(h)] + sigma[regime(h)] * torch.randn(len(h))

    batch = live(8000, moves, 1.0, seed=3)
    h, growth = batch.observation["h"], batch.trade.growth(STEPS)
    head, isv, predicted_error = RiskBudgetHead(WIDTH, 12), torch.zeros(len(h), 12), torch.full((len(h),), 0.5)
    train(head, lambda: judged(batch, kelly_loss(head(h, isv, predicted_error), growth)), 400)
    fraction = head(h, isv, predicted_error).detach()
    for value in (0, 1):
        mu = (STEPS * mean[value] - 1) / STEPS**0.5
        optimum = mu / (sigma[value] ** 2 + mu**2)
        assert fraction[regime(h) == value].mean().item() == pytest.approx(optimum.item(), rel=0.1)


UP = 0.46
"""Chance that a planted walk goes up; with it no quantile below lies at a jump of the distribution."""


def walk_quantile(of: Callable[[list[int]], int], level: float) -> int:
    """Exact quantile of a number that tells of a walk, over all walks of STEPS steps."""
    chance: defaultdict[int, float] = defaultdict(float)
    for walk in product((-1, 1), repeat=STEPS):
        chance[of(list(accumulate(walk)))] += math.prod(UP if step > 0 else 1 - UP for step in walk)
    below = accumulate(chance[value] for value in sorted(chance))
    return next(value for value, share in zip(sorted(chance), below, strict=True) if share >= level)


def test_trade_plan_recovers_planted_quantiles() -> None:
    """Walks with steps of 1 or 3, told by h: every walk of five steps is known, and so is every quantile."""

    def size(h: torch.Tensor) -> torch.Tensor:
        return torch.where(h[:, 0] > 0, 3.0, 1.0)

    def moves(h: torch.Tensor) -> torch.Tensor:
        return (torch.bernoulli(torch.full((len(h),), UP)) * 2 - 1) * size(h)

    torch.manual_seed(3)
    batch = live(5000, moves, 0.5, seed=4)
    h, trade = batch.observation["h"], batch.trade
    head = TradePlanHead(WIDTH, 16, largest_excursion=20.0, largest_horizon=STEPS)

    def loss() -> torch.Tensor:
        plan = head(h)
        target = pinball(plan.target, trade.favourable, TARGET_LEVEL)
        stop = pinball(plan.stop, trade.adverse, STOP_LEVEL)
        return judged(batch, target + stop + pinball(plan.horizon, trade.peak, HORIZON_LEVEL) / STEPS)

    train(head, loss, 600, 0.02)
    plan = head(h)
    target = walk_quantile(lambda path: max(0, *path), TARGET_LEVEL)
    stop = walk_quantile(lambda path: max(0, *(-p for p in path)), STOP_LEVEL)
    horizon = walk_quantile(lambda path: path.index(max(path)) + 1, HORIZON_LEVEL)
    assert (target, stop, horizon) == (1, 3, 2)
    for unit in (1.0, 3.0):
        here = size(h) == unit
        assert plan.target[here].median().item() == pytest.approx(target * unit, abs=0.1 * unit)
        assert plan.stop[here].median().item() == pytest.approx(stop * unit, abs=0.1 * unit)
        assert plan.horizon[here].median().item() == pytest.approx(horizon, abs=0.2)


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
