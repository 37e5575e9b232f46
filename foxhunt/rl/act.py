"""From network outputs to decisions: values, exploration, limits, and the history an agent carries along."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import ActingConfig
from foxhunt.interface import Decision, Limits, Observation
from foxhunt.market.actions import FLAT
from foxhunt.nn.encoder import HISTORY, HISTORY_VALID
from foxhunt.nn.network import Network, NetworkOutput
from foxhunt.rl.quantile import lower_tail

QUANTILE_LEVELS = 32
"""Evenly spaced levels at which the quantile head is read when acting."""

GREEDY = -1
"""In place of a held random action: the branch follows the network."""


def greedy(q_t: Float[Tensor, "batch branches actions"]) -> Int[Tensor, "batch branches"]:
    """Best action of every branch; values of actions that do not exist are minus infinity."""
    return q_t.argmax(-1)


def uniform(counts: Int[Tensor, " branches"], batch: int, generator: torch.Generator) -> Int[Tensor, "batch branches"]:
    """Random actions, independent over branches and environments."""
    draw = torch.rand(batch, len(counts), dtype=torch.float64, device=counts.device, generator=generator)
    return (draw * counts).long()


def explore(
    action: Int[Tensor, "batch branches"],
    held: Int[Tensor, "batch branches"],
    counts: Int[Tensor, " branches"],
    epsilon: Float[Tensor, ""],
    renewal: float,
    generator: torch.Generator,
) -> tuple[Int[Tensor, "batch branches"], Int[Tensor, "batch branches"]]:
    """The action, but random for a share epsilon of the time, and what every branch holds on to (`GREEDY`: nothing).

    At chance `renewal` a branch of an environment chooses anew: random with chance epsilon, greedy otherwise. Until
    the next choice a random action is repeated and a greedy branch follows the network. With renewal 1 this is plain
    epsilon-greedy; below 1 random positions last, where turning them at every step would cost more than it shows.
    Source: Dabney, Ostrovski and Barreto 2021, with geometric durations.
    """
    anew = torch.rand(action.shape, device=action.device, generator=generator) < renewal
    explores = torch.rand(action.shape, device=action.device, generator=generator) < epsilon
    chosen = torch.where(explores, uniform(counts, len(action), generator), GREEDY)
    held = torch.where(anew, chosen, held)
    return torch.where(held == GREEDY, action, held), held


class History:
    """What the last steps of every environment left behind; empty where an episode has just begun."""

    def __init__(self, environments: int, past: int, width: int, device: torch.device | str) -> None:
        self.memory = torch.zeros(environments, past, width, device=device)
        self.valid = torch.zeros(environments, past, dtype=torch.bool, device=device)

    def add_to(self, observation: Observation) -> Observation:
        """The observation with the history before it."""
        return {**observation, HISTORY: self.memory, HISTORY_VALID: self.valid}

    def push(self, memory: Float[Tensor, "environments width"], begins: Bool[Tensor, " environments"]) -> None:
        """Append what this step leaves; where `begins`, the next observation opens an episode and has no past."""
        self.memory = torch.cat((self.memory[:, 1:], memory.unsqueeze(1)), 1)
        valid = torch.cat((self.valid[:, 1:], torch.ones_like(self.valid[:, :1])), 1)
        self.valid = valid & ~begins.unsqueeze(1)

    def state_dict(self) -> dict[str, Any]:
        """Both tensors."""
        return {"memory": self.memory, "valid": self.valid}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from `state_dict`."""
        self.memory.copy_(state["memory"])
        self.valid.copy_(state["valid"])


class Actor:
    """A network that acts in a number of environments and remembers what it needs for that."""

    def __init__(self, network: Network, acting: ActingConfig, environments: int) -> None:
        self.network, self.acting = network, acting
        self._trades = "direction" in network.heads.names
        width, device = network.encoder.memory_width, network.atoms.device
        self.history = History(environments, network.config.past, width, device) if network.config.temporal else None

    def look(self, observation: Observation) -> NetworkOutput:
        """What the network makes of an observation and the history before it."""
        output: NetworkOutput = self.network(self.history.add_to(observation) if self.history else observation)
        return output

    def best(self, output: NetworkOutput) -> Int[Tensor, "environments branches"]:
        """Greedy action of every branch; flat where selectivity says that no trade pays."""
        action = greedy(self.values(output))
        if self.acting.selectivity and self._trades and output.selectivity_logit is not None:
            trades = output.selectivity_logit.sigmoid() >= self.acting.selectivity_threshold
            at = self.network.heads.names.index("direction")
            direction = torch.where(trades, action[:, at], FLAT)
            action = torch.cat((action[:, :at], direction.unsqueeze(1), action[:, at + 1 :]), 1)
        return action

    def values(self, output: NetworkOutput) -> Float[Tensor, "environments branches actions"]:
        """Values acted on, coordinated across branches where the network does that."""
        if self.acting.values == "quantile":
            level = (torch.arange(QUANTILE_LEVELS, device=output.h.device) + 0.5) / QUANTILE_LEVELS
            tau = lower_tail(level, self.acting.cvar).expand(len(output.h), -1)
            q = self.network.mask(self.network.quantiles(output.h, tau).mean(1))
        else:
            q = self.network.values(output.logits)
        return self.network.coordinate(q)

    def limits(self, output: NetworkOutput) -> Limits | None:
        """Limits on the trade that the heads switched on ask for."""
        risk = output.risk if self.acting.risk_budget else None
        plan = output.plan if self.acting.trade_plan else None
        if not self._trades or (risk is None and plan is None):
            return None
        return Limits(risk, *(plan or (None, None, None)))

    def remember(self, output: NetworkOutput, begins: Bool[Tensor, " environments"]) -> None:
        """Keep what this step leaves to later ones; where `begins`, the next observation opens an episode."""
        if self.history:
            self.history.push(output.memory, begins)

    def forget(self) -> None:
        """Every environment begins a new episode."""
        if self.history:
            self.history.valid.zero_()

    def state_dict(self) -> dict[str, Any]:
        """The history."""
        return self.history.state_dict() if self.history else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from `state_dict`."""
        if self.history:
            self.history.load_state_dict(state)


Watch = Callable[[Actor, Observation, NetworkOutput, Decision], None]
"""Told of every decision: who took it, on what, and what the network said."""


class GreedyPolicy:
    """An agent that plays one episode in every environment; make a fresh one for the next."""

    def __init__(self, network: Network, acting: ActingConfig, watch: Watch | None = None) -> None:
        self.network, self.acting, self.watch = network, acting, watch
        self._actor: Actor | None = None

    @torch.no_grad()
    def __call__(self, observation: Observation) -> Decision:
        count = len(observation["market"])
        if self._actor is None:
            self._actor = Actor(self.network, self.acting, count)
        output = self._actor.look(observation)
        self._actor.remember(output, begins=torch.zeros(count, dtype=torch.bool, device=output.h.device))
        decision = Decision(self._actor.best(output), self._actor.limits(output))
        if self.watch:
            self.watch(self._actor, observation, output, decision)
        return decision
