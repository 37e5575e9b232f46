"""Limits on a decision: the share of the cap it may use, and bracket orders that close its trade.

A bracket is armed with the plan of the decision that opened the position: profit target, stop and horizon, counted
from the mid at that decision. It is looked at with every decision, closes at market on the next tradable book, and is
gone when the position has changed sides or closed.
"""

from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.interface import Limits
from foxhunt.market.actions import CROSS, FLAT, URGENT

HOLDS, TARGET, STOP, HORIZON = range(4)
EXITS: Final = ("", "target", "stop", "horizon")
"""Why a bracket closed a position."""


class Bracket(NamedTuple):
    """The bracket of every environment; `side` 0 means none."""

    side: Int[Tensor, " environments"]
    entry: Int[Tensor, " environments"]
    """Mid at the decision that opened the position, half ticks."""
    target: Float[Tensor, " environments"]
    """Gain that closes it, half ticks."""
    stop: Float[Tensor, " environments"]
    """Loss that closes it, half ticks."""
    left: Float[Tensor, " environments"]
    """Decisions until it closes."""


def risk_cap(
    cap: Int[Tensor, " environments"], order_lots: Int[Tensor, " environments"], limits: Limits | None
) -> Int[Tensor, " environments"]:
    """The cap that a risk budget leaves, in whole order lots; 0 leaves none."""
    if limits is None or limits.risk is None:
        return cap
    return (limits.risk.clamp(0, 1).double() * cap / order_lots).long() * order_lots


def check_bracket(bracket: Bracket, half_ticks: Int[Tensor, " environments"]) -> Int[Tensor, " environments"]:
    """HOLDS, or why the bracket closes the position at this mid: the stop before the target before the horizon."""
    gain = bracket.side * (half_ticks - bracket.entry)
    late = torch.where(bracket.left <= 0, HORIZON, HOLDS)
    exit_ = torch.where(gain >= bracket.target, TARGET, late)
    exit_ = torch.where(-gain >= bracket.stop, STOP, exit_)
    return torch.where(bracket.side != 0, exit_, HOLDS)


def close_now(
    action: Int[Tensor, "environments 4"], chosen: Bool[Tensor, " environments"]
) -> Int[Tensor, "environments 4"]:
    """The actions, but flat at market where `chosen`."""
    magnitude = torch.zeros_like(action[:, 1])
    closing = torch.stack((magnitude + FLAT, magnitude, magnitude + CROSS, magnitude + URGENT), 1)
    return torch.where(chosen.unsqueeze(1), closing, action)


def arm_bracket(
    bracket: Bracket,
    position: Int[Tensor, " environments"],
    half_ticks: Int[Tensor, " environments"],
    reward_half_ticks: Float[Tensor, " environments"],
    limits: Limits,
) -> Bracket:
    """Brackets after a step: armed anew where the position's side changed, else one decision older.

    Args:
        bracket: before the step.
        position: after it.
        half_ticks: mid at its decision.
        reward_half_ticks: move of the mid by which the full cap gains one reward unit, in half ticks.
        limits: of its decision; a plan that is left out never closes.
    """
    never = torch.full_like(bracket.target, torch.inf)

    def half_ticks_of(excursion: Tensor | None) -> Tensor:
        return never if excursion is None else excursion.double() * reward_half_ticks

    side = position.sign()
    new = side != bracket.side
    horizon = never if limits.horizon is None else limits.horizon.double()
    return Bracket(
        side=side,
        entry=torch.where(new, half_ticks, bracket.entry),
        target=torch.where(new, half_ticks_of(limits.target), bracket.target),
        stop=torch.where(new, half_ticks_of(limits.stop), bracket.stop),
        left=torch.where(new, horizon, bracket.left) - 1,
    )
