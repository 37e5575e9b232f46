"""Policies that need no learning: what an agent must beat, on the same data, orders and fees."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.evaluate.arena import Arena, Policy
from foxhunt.evaluate.record import Backtest
from foxhunt.interface import Decision, Limits, Observation
from foxhunt.market.actions import CROSS, FLAT, JOIN, LONG, SHORT, URGENT

FULL: Final = 2
"""Largest magnitude."""

TOLERANCE: Final = 0.05
"""How far the turnover of random trading may be from the agent's, as a share of it."""
CANDIDATES: Final = 16
"""Switching chances, or thresholds, tried side by side in one sweep."""


class Constant:
    """The same action always."""

    def __init__(self, direction: int, magnitude: int = FULL, order: int = CROSS, urgency: int = URGENT) -> None:
        self.action = torch.tensor([direction, magnitude, order, urgency])

    def __call__(self, observation: Observation) -> Decision:
        market = observation["market"]
        return Decision(self.action.to(market.device).expand(len(market), -1))


def flat() -> Policy:
    """Never trades."""
    return Constant(FLAT)


def buy_and_hold() -> Policy:
    """Buys the full cap with crossing orders at the start and keeps it."""
    return Constant(LONG)


class Schedule:
    """Buys the full cap by crossing, lot by lot, evenly over the decisions of each account (TWAP)."""

    def __init__(self, decisions: Int[Tensor, " environments"]) -> None:
        """`decisions` is how many each account will make."""
        self.decisions, self.made = decisions, 0
        self.buy = Constant(LONG)

    def __call__(self, observation: Observation) -> Decision:
        self.made += 1
        share = (self.made / self.decisions.double()).clamp(max=1)
        return self.buy(observation)._replace(limits=Limits(risk=share))


def twap(arena: Arena) -> Policy:
    """Buys the full cap evenly over each account's time."""
    segments = arena.tape.segments
    return Schedule(segments[:, 1] - segments[:, 0] - 1)


class RandomSwitching:
    """Holds a random target and draws another one now and then; flat until the first draw.

    Direction and magnitude are uniform. Order and urgency are drawn from `styles`, the agent's own, so that random
    trading pays for its fills what the agent pays. Environments of one group share their draws, whatever their
    chances: raising a chance adds switches and moves none.
    """

    def __init__(
        self,
        chance: Float[Tensor, " environments"],
        styles: Int[Tensor, "rows 2"],
        group: Int[Tensor, " environments"],
        seed: int,
    ) -> None:
        self.chance, self.styles, self.group = chance, styles, group
        self.groups = int(group.max()) + 1
        self.generator = torch.Generator().manual_seed(seed)
        self.action = torch.tensor([FLAT, FULL, CROSS, URGENT]).repeat(len(chance), 1)

    def __call__(self, observation: Observation) -> Decision:
        draw = torch.rand(self.groups, 4, generator=self.generator, dtype=torch.float64)[self.group]
        switch = draw[:, 0] < self.chance
        aim = (draw[:, 1:3] * 3).long()
        style = self.styles[(draw[:, 3] * len(self.styles)).long()]
        self.action = torch.where(switch.unsqueeze(1), torch.cat([aim, style], 1), self.action)
        return Decision(self.action.to(observation["market"].device))


@dataclass(frozen=True)
class Matched:
    """Random trading that turns over as much as the agent."""

    policy: RandomSwitching
    chance: float
    ratio: float
    """Turnover over the agent's, mean over seeds; 0 when the agent never traded."""


def match_turnover(arena: Arena, agent: Backtest, seeds: int) -> Matched:
    """Choose the switching chance with which random trading turns over what the agent did.

    Two sweeps try `CANDIDATES` chances each, all seeds and segments side by side; the second refines the first. An
    agent that turns over more than switching at every decision gets the closest there is: `ratio` tells.
    """
    traded = float(agent.fills["notional"].sum())
    styles = torch.from_numpy(agent.decisions.select("order", "urgency").to_numpy().astype(np.int64))
    if traded == 0:
        return Matched(_random(arena, np.zeros(1), styles, seeds), 0.0, 0.0)
    chances = np.geomspace(0.2 / agent.decisions.height, 1.0, CANDIDATES)
    for _ in range(2):
        totals = arena.totals(_random(arena, chances, styles, seeds), CANDIDATES * seeds)
        ratios = totals.traded.view(CANDIDATES, seeds).mean(1).numpy() / traded
        best = int(np.abs(ratios - 1).argmin())
        chosen = float(chances[best]), float(ratios[best])
        other = min(best + 1, CANDIDATES - 1) if ratios[best] < 1 else max(best - 1, 0)
        chances = np.linspace(chances[best], chances[other], CANDIDATES)
    return Matched(_random(arena, np.array(chosen[:1]), styles, seeds), *chosen)


def _random(arena: Arena, chances: np.ndarray, styles: Tensor, seeds: int) -> RandomSwitching:
    """Copies ordered by chance, then seed; every chance sees the same draws."""
    accounts = seeds * arena.segments
    chance = torch.from_numpy(chances).repeat_interleave(accounts)
    return RandomSwitching(chance, styles, torch.arange(accounts).repeat(len(chances)), seed=0)


class OfiRule:
    """Full long when imbalance reaches a threshold, full short when it reaches minus the threshold, else as before."""

    def __init__(self, threshold: Float[Tensor, " environments"], order: Int[Tensor, " environments"]) -> None:
        self.threshold, self.order = threshold, order
        self.direction = torch.full_like(order, FLAT)

    def __call__(self, observation: Observation) -> Decision:
        imbalance = observation["ofi3"][:, 0]  # the shortest horizon
        self.direction = torch.where(imbalance >= self.threshold, LONG, self.direction)
        self.direction = torch.where(imbalance <= -self.threshold, SHORT, self.direction)
        rest = torch.full_like(self.order, FULL), self.order, torch.full_like(self.order, URGENT)
        return Decision(torch.stack([self.direction, *rest], 1))


@dataclass(frozen=True)
class FittedRule:
    """The OFI rule that earned most on the data it was fitted on."""

    threshold: float
    order: int
    profit: float
    """After fees, on that data."""

    def policy(self, arena: Arena) -> OfiRule:
        """The rule for every segment of an arena."""
        device = arena.tape.device
        threshold = torch.full((arena.segments,), self.threshold, device=device)
        return OfiRule(threshold, torch.full((arena.segments,), self.order, device=device))


def fit_ofi_rule(arena: Arena) -> FittedRule:
    """Choose threshold and order kind (join or cross) by profit after fees in one sweep of a train or validate arena.

    Thresholds are quantiles of the imbalance's size, from the median to what one decision in a thousand reaches, and
    infinity: where no threshold pays for its fees, the best rule is to stay flat.
    """
    quantiles = 1 - np.geomspace(0.5, 0.001, CANDIDATES // 2 - 1)
    sizes = arena.imbalance().abs().cpu().numpy()
    thresholds = np.tile(np.append(np.quantile(sizes, quantiles), np.inf), 2).astype(np.float32)
    orders = np.repeat([JOIN, CROSS], CANDIDATES // 2)
    rule = OfiRule(
        torch.from_numpy(thresholds).repeat_interleave(arena.segments).to(arena.tape.device),
        torch.from_numpy(orders).repeat_interleave(arena.segments).to(arena.tape.device),
    )
    profit = arena.totals(rule, CANDIDATES).profit
    best = int(profit.argmax())
    return FittedRule(float(thresholds[best]), int(orders[best]), float(profit[best]))
