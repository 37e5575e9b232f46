"""Time-major replay: one copy of every observation, transitions gathered on demand."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import LearnerConfig, require
from foxhunt.interface import Observation
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
    ) -> None:
        rows = config.replay_capacity // environments
        require(
            rows > config.n_step + 1,
            f"learner.replay_capacity {config.replay_capacity} leaves {rows} rows for {environments} environments; "
            f"n_step {config.n_step} needs at least {(config.n_step + 2) * environments}",
        )
        self.rows, self.environments = rows, environments
        self.n_step, self.discount = config.n_step, config.discount
        shape = (rows, environments)
        self.observation = {part: torch.zeros(*shape, width, device=device) for part, width in widths.items()}
        self.action = torch.zeros(*shape, branches, dtype=torch.long, device=device)
        self.reward = torch.zeros(shape, device=device)
        self.terminated = torch.zeros(shape, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(shape, dtype=torch.bool, device=device)
        self.ignored = torch.ones(shape, dtype=torch.bool, device=device)  # empty rows start no transition either
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
    ) -> None:
        """Store one vector step: what was seen, done and got; `ignored` marks actions swallowed by the autoreset."""
        for part, stored in self.observation.items():
            self._put(stored, observation[part])
        self._put(self.action, action)
        self._put(self.reward, reward)
        self._put(self.terminated, terminated)
        self._put(self.truncated, truncated)
        self._put(self.ignored, ignored)
        previous = (self.head - 1) % self.rows
        mass = self.priorities.mass.view(self.rows, self.environments)
        mass.index_copy_(0, previous, torch.where(self.ignored[previous], 0, self.priorities.peak))
        mass.index_fill_(0, self.head, 0)
        self.head.copy_((self.head + 1) % self.rows)

    def sample(self, count: int, importance_exponent: Float[Tensor, ""]) -> Batch:
        """Draw `count` transitions in proportion to their mass; needs two added rows. Fixed shapes, no host sync."""
        slot = self.priorities.draw(count)
        row, environment = slot // self.environments, slot % self.environments
        offset = torch.arange(self.n_step, device=row.device)[:, None]
        window = (row + offset) % self.rows
        newest = (self.head - 1) % self.rows
        step = n_step_return(
            self.reward[window, environment],
            self.terminated[window, environment],
            self.truncated[window, environment],
            available=(newest - row) % self.rows,
            discount=self.discount,
        )
        final = (row + step.length) % self.rows
        return Batch(
            observation={part: stored[row, environment] for part, stored in self.observation.items()},
            action=self.action[row, environment],
            reward=step.reward,
            discount=step.discount,
            next_observation={part: stored[final, environment] for part, stored in self.observation.items()},
            weight=self.priorities.importance(slot, importance_exponent),
            slot=slot,
        )

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
        names = ("action", "reward", "terminated", "truncated", "ignored", "head")
        return {n: getattr(self, n) for n in names} | {f"observation.{p}": t for p, t in self.observation.items()}

    def _put(self, stored: Tensor, value: Tensor) -> None:
        stored.index_copy_(0, self.head, value.to(stored.dtype)[None])
