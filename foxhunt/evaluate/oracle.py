"""The best that could be known about a simulated market: trading on its hidden state."""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from foxhunt.data.simulator import Simulation
from foxhunt.evaluate.arena import Arena
from foxhunt.evaluate.baselines import FULL
from foxhunt.interface import Decision, Observation
from foxhunt.market.actions import CROSS, FLAT, URGENT


class Oracle:
    """Holds the full cap in the direction of the hidden state, crossing whenever it changes.

    It sees the state the moment it changes, which no agent can: agents see the order flow that follows. It does not
    see single trades or the price, so it is the optimum of following the signal, not of knowing the future.
    """

    def __init__(self, arena: Arena, simulation: Simulation) -> None:
        changes = simulation.signal["ts_event"].to_numpy()
        at = np.searchsorted(changes, arena.tape.time.cpu().numpy(), side="right") - 1
        state = torch.from_numpy(simulation.signal["state"].to_numpy()[at])
        self.direction: Int[Tensor, " rows"] = (state + FLAT).to(arena.tape.device)
        self.row = arena.tape.segments[:, 0].clone()
        self.last = arena.tape.segments[:, 1] - 1

    def __call__(self, observation: Observation) -> Decision:
        direction = self.direction[self.row]
        self.row = torch.minimum(self.row + 1, self.last)
        rest = [torch.full_like(direction, action) for action in (FULL, CROSS, URGENT)]
        return Decision(torch.stack([direction, *rest], 1))
