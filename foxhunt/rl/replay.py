"""Time-major replay: one copy of every observation, transitions gathered on demand."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import LearnerConfig, require
from foxhunt.interface import Hold, Observation
from foxhunt.nn.encoder import HISTORY, HISTORY_VALID
from foxhunt.nn.network import Network
from foxhunt.rl.outcome import Trade, judge_trade
from foxhunt.rl.priorities import Priorities
from foxhunt.rl.returns import n_step_return


class Batch(NamedTuple):
    """Transitions for one update."""

    observation: dict[str, Float[Tensor, "batch width"]]
    action: Int[Tensor, "batch branches"]
    reward: Float[Tensor, " batch"]
    """Discounted reward of up to n steps."""
    discount: Float[Tensor, " batch"]
    """Weight of the value at `next_observation`; 0 after a termination."""
    next_observation: dict[str, Float[Tensor, "batch width"]]
    weight: Float[Tensor, " batch"]
    """Importance weights, at most 1."""
    slot: Int[Tensor, " batch"]
    """Where the transitions lie, for `Replay.prioritise`."""
    consecutive: Bool[Tensor, " pairs"] | None = None
    """With pairs on: whether samples 2i and 2i + 1 are consecutive steps."""
    trade: Trade | None = None
    """What became of a trade in the direction taken; None where the environment tells no moves."""


@dataclass(frozen=True)
class ReplayOptions:
    """What is stored and handed out beyond plain transitions."""

    memory: int = 0
    """Width of what each step leaves to the history; 0 keeps no history."""
    past: int = 0
    """Steps of history handed out with each observation."""
    horizon: int = 0
    """Steps over which a trade is judged; 0 judges none."""
    pairs: bool = False
    """Hand out pairs of consecutive steps."""

    @classmethod
    def of(cls, network: Network, config: LearnerConfig) -> "ReplayOptions":
        """What a network and its losses need."""
        needs = network.config
        return cls(
            memory=network.encoder.memory_width if needs.temporal else 0,
            past=needs.past,
            horizon=needs.plan_horizon if needs.forecasts_trades else 0,
            pairs=config.predictive_coding > 0,
        )


class Replay:
    """A ring of rows [rows, environments, ...] with prioritised draws of n-step transitions.

    A row holds an observation, the action taken on it and what came of it; the next observation is the next row's.
    Autoreset is next-step, so the true final observation of an episode has a row of its own, whose action was ignored:
    that row is marked and never starts a transition (at the ring's head its predecessor may be gone, hence the mark).
    The newest row has no successor yet and is never drawn. A window ends with its episode, or with the newest row;
    then it is shorter than n and bootstraps with discount^(its length).
    """

    def __init__(
        self,
        widths: dict[str, int],
        branches: int,
        environments: int,
        config: LearnerConfig,
        seed: int,
        device: torch.device | str = "cpu",
        options: ReplayOptions = ReplayOptions(),
    ) -> None:
        rows = config.replay_capacity // environments
        require(
            rows > config.n_step + 1,
            f"learner.replay_capacity {config.replay_capacity} leaves {rows} rows for {environments} environments; "
            f"n_step {config.n_step} needs at least {(config.n_step + 2) * environments}",
        )
        self.rows, self.environments = rows, environments
        self.n_step, self.discount = config.n_step, config.discount
        self.options = options
        shape = (rows, environments)
        self.observation = {part: torch.zeros(*shape, width, device=device) for part, width in widths.items()}
        self.action = torch.zeros(*shape, branches, dtype=torch.long, device=device)
        self.reward = torch.zeros(shape, device=device)
        self.terminated = torch.zeros(shape, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(shape, dtype=torch.bool, device=device)
        self.ignored = torch.ones(shape, dtype=torch.bool, device=device)  # empty rows start no transition either
        self.memory = torch.zeros(*shape, options.memory, device=device)
        self.move, self.cost = (torch.zeros(shape if options.horizon else (0, 0), device=device) for _ in range(2))
        self.head = torch.zeros(1, dtype=torch.long, device=device)
        """Row to be written next."""
        self.priorities = Priorities(rows * environments, config.priority_exponent, seed, device)

    def add(
        self,
        observation: Observation,
        action: Int[Tensor, "environments branches"],
        reward: Float[Tensor, " environments"],
        terminated: Bool[Tensor, " environments"],
        truncated: Bool[Tensor, " environments"],
        ignored: Bool[Tensor, " environments"],
        memory: Float[Tensor, "environments memory"] | None = None,
        hold: Hold | None = None,
    ) -> None:
        """Store one vector step: what was seen, done and got; `ignored` marks actions swallowed by the autoreset.

        `memory` is what the step leaves to the history, `hold` what the full cap would have brought; each is needed
        when the options ask for it.
        """
        for part, stored in self.observation.items():
            self._put(stored, observation[part])
        self._put(self.action, action)
        self._put(self.reward, reward)
        self._put(self.terminated, terminated)
        self._put(self.truncated, truncated)
        self._put(self.ignored, ignored)
        if self.options.memory:
            assert memory is not None
            self._put(self.memory, memory)
        if self.options.horizon:
            assert hold is not None
            self._put(self.move, hold.move)
            self._put(self.cost, hold.cost)
        previous = (self.head - 1) % self.rows
        mass = self.priorities.mass.view(self.rows, self.environments)
        mass.index_copy_(0, previous, torch.where(self.ignored[previous], 0, self.priorities.peak))
        mass.index_fill_(0, self.head, 0)
        self.head.copy_((self.head + 1) % self.rows)

    def sample(self, count: int, importance_exponent: Float[Tensor, ""]) -> Batch:
        """Draw `count` transitions in proportion to their mass; needs two added rows. Fixed shapes, no host sync.

        With pairs on, half as many are drawn, and each is followed by the step after it.
        """
        slot, consecutive = self._draw(count)
        row, environment = slot // self.environments, slot % self.environments
        window = self._window(row, self.n_step)
        step = n_step_return(
            self.reward[window, environment],
            self.terminated[window, environment],
            self.truncated[window, environment],
            available=self._newer(row),
            discount=self.discount,
        )
        final = (row + step.length) % self.rows
        weight = self.priorities.importance(self._chance(slot), importance_exponent)
        if consecutive is not None:
            # What follows the end of an episode is no transition: it fills its place and counts for nothing.
            weight = torch.stack((weight[::2], weight[1::2] * consecutive), 1).flatten()
        action = self.action[row, environment]
        return Batch(
            observation=self._observe(row, environment),
            action=action,
            reward=step.reward,
            discount=step.discount,
            next_observation=self._observe(final, environment),
            weight=weight,
            slot=slot,
            consecutive=consecutive,
            trade=self._trade(row, environment, action[:, 0]) if self.options.horizon else None,
        )

    def spread(self, count: int) -> dict[str, Tensor] | None:
        """Observations evenly spread over the transitions held, for a look at them; None while there are none.

        Draws nothing, so that who looks changes nothing. Waits for the device.
        """
        slot = self.priorities.mass.nonzero().squeeze(1)
        if not len(slot):
            return None
        slot = slot[torch.linspace(0, len(slot) - 1, count, device=slot.device).long()]
        return self._observe(slot // self.environments, slot % self.environments)

    def _draw(self, count: int) -> tuple[Int[Tensor, " count"], Bool[Tensor, " pairs"] | None]:
        """Slots of a batch; with pairs on each odd place holds the successor of the even one before it."""
        if not self.options.pairs:
            return self.priorities.draw(count), None
        first = self.priorities.draw(count // 2)
        second = (first + self.environments) % (self.rows * self.environments)
        consecutive = self.priorities.mass[second] > 0
        slot = torch.stack((first, torch.where(consecutive, second, first)), 1).flatten()
        return slot, consecutive

    def _chance(self, slot: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Mass in proportion to which each slot is in a batch: its own, and with pairs on its predecessor's too."""
        mass = self.priorities.mass[slot]
        if not self.options.pairs:
            return mass
        return mass + self.priorities.mass[(slot - self.environments) % (self.rows * self.environments)]

    def _newer(self, row: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Rows written after each row."""
        return (self.head - 1 - row) % self.rows

    def _window(self, row: Int[Tensor, " batch"], steps: int) -> Int[Tensor, "steps batch"]:
        """Each row and those after it."""
        return (row + torch.arange(steps, device=row.device)[:, None]) % self.rows

    def _observe(self, row: Int[Tensor, " batch"], environment: Int[Tensor, " batch"]) -> dict[str, Tensor]:
        """Observation of each row, with the history before it when it is kept."""
        observation = {part: stored[row, environment] for part, stored in self.observation.items()}
        if self.options.memory:
            back = torch.arange(self.options.past, 0, -1, device=row.device)[:, None]
            before = (row - back) % self.rows
            # A row continues the one before it unless that one's action was ignored; what the ring has overwritten,
            # or never held, is no history either.
            linked = ~self.ignored[before, environment] & (back <= (row - self.head) % self.rows)
            valid = linked.flip(0).long().cumprod(0).flip(0) > 0
            observation[HISTORY] = self.memory[before, environment].transpose(0, 1)
            observation[HISTORY_VALID] = valid.transpose(0, 1)
        return observation

    def _trade(self, row: Tensor, environment: Tensor, direction: Int[Tensor, " batch"]) -> Trade:
        """What became of a trade in the direction taken (0 short, 1 flat, 2 long) at each row."""
        horizon = self.options.horizon
        window = self._window(row, horizon)
        ended = (self.terminated | self.truncated)[window[:-1], environment].any(0)
        complete = ~ended & (self._newer(row) >= horizon)
        return judge_trade(self.move[window, environment], complete, direction - 1, self.cost[row, environment])

    def prioritise(self, slot: Int[Tensor, " batch"], priority: Float[Tensor, " batch"]) -> None:
        """Write back what an update found: the sum over branches of |TD error|."""
        self.priorities.write(slot, priority)

    def state_dict(self) -> dict[str, Any]:
        """Everything, for a bit-exact continuation."""
        return {**self._tensors(), "priorities": self.priorities.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from `state_dict` of a replay of the same shape."""
        for name, tensor in self._tensors().items():
            tensor.copy_(state[name])
        self.priorities.load_state_dict(state["priorities"])

    def _tensors(self) -> dict[str, Tensor]:
        names = ("action", "reward", "terminated", "truncated", "ignored", "memory", "move", "cost", "head")
        return {n: getattr(self, n) for n in names} | {f"observation.{p}": t for p, t in self.observation.items()}

    def _put(self, stored: Tensor, value: Tensor) -> None:
        stored.index_copy_(0, self.head, value.to(stored.dtype)[None])
