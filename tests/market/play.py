"""Play actions on a tape and look at what happened."""

from collections.abc import Sequence

import torch

from foxhunt.config import MarketConfig
from foxhunt.interface import StepResult
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.state import StepEvents
from foxhunt.market.tape import Tape

SHORT, FLAT, LONG = 0, 1, 2
QUARTER, HALF, FULL = 0, 1, 2
JOIN, IMPROVE, CROSS = 0, 1, 2
PATIENT, NORMAL, URGENT = 0, 1, 2
Action = tuple[int, int, int, int]
STAY_FLAT: Action = (FLAT, FULL, CROSS, NORMAL)


class Player:
    """One account, from the first row of a tape's first segment."""

    def __init__(self, tape: Tape, market: MarketConfig) -> None:
        self.environment = TradingEnvironment(tape, market, sweep=True)

    def step(self, action: Action) -> tuple[StepResult, StepEvents]:
        """One decision; every account takes the same action."""
        result = self.environment.step(torch.tensor([action] * self.environment.environments))
        assert self.environment.events is not None
        return result, self.environment.events

    def steps(self, actions: Sequence[Action]) -> list[StepEvents]:
        """Several decisions."""
        return [self.step(action)[1] for action in actions]

    @property
    def position(self) -> int:
        """Lots held."""
        return int(self.environment.state.account.position[0])

    @property
    def cash(self) -> float:
        """Money."""
        return float(self.environment.state.account.cash[0])

    @property
    def ahead(self) -> int:
        """Lots before the working order."""
        return int(self.environment.state.order.ahead[0])

    @property
    def remaining(self) -> int:
        """Lots of the working order."""
        return int(self.environment.state.order.remaining[0])


def takes(events: StepEvents) -> list[tuple[int, int]]:
    """(tick, signed lots) of the taker fills of the first account."""
    filled = events.taker_lots[0] != 0
    return list(zip(events.taker_tick[0][filled].tolist(), events.taker_lots[0][filled].tolist(), strict=True))
