"""Any Gymnasium environment with flat Box observations and Discrete or MultiDiscrete actions, for the learner."""

from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.errors import ConfigError
from foxhunt.interface import Limits, Observation, StepResult
from foxhunt.rl.act import uniform
from foxhunt.rl.gymnasium_state import OpaqueAttributeError, capture, restore

SCALE_STEPS: Final = 2_000
"""Random steps from which the scale of observations is measured."""

CLIP: Final = 10.0
"""Scaled observations are clipped to plus or minus this."""


@dataclass(frozen=True)
class ObservationScale:
    """Centre and scale of every observation entry, as a random policy meets them; fixed for the whole run.

    A trunk without normalisation learns slowly when entries differ a lot in size. A running scale would move under
    the observations that the replay holds.
    """

    center: Float[Tensor, " width"]
    scale: Float[Tensor, " width"]

    @classmethod
    def fit(cls, identifier: str, seed: int) -> "ObservationScale":
        """Measure mean and deviation over `SCALE_STEPS` random steps; an entry that never moves has scale 1."""
        environment = GymnasiumEnvironment(identifier, environments=20)
        counts = torch.tensor([actions for _, actions in environment.branches])
        generator = torch.Generator().manual_seed(seed)
        seen = [environment.reset(seed)["market"]]
        for _ in range(SCALE_STEPS // environment.environments):
            action = uniform(counts, environment.environments, generator)
            seen.append(environment.step(action).observation["market"])
        deviation, center = torch.std_mean(torch.cat(seen), 0)
        return cls(center, torch.where(deviation > 1e-6, deviation, 1.0))

    def state_dict(self) -> dict[str, Tensor]:
        """Both tensors by name; they are the arguments that rebuild the scale."""
        return {"center": self.center, "scale": self.scale}


class GymnasiumEnvironment:
    """Several copies of one environment, stepped in turn, with next-step autoreset (`interface.VectorEnvironment`).

    Environments are stepped here rather than by `gymnasium.vector.SyncVectorEnv`, whose autoreset flags are private
    and so cannot be saved with the rest.
    """

    def __init__(
        self,
        identifier: str,
        environments: int,
        scale: ObservationScale | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Make the environments; raises `ConfigError` on an unknown name or spaces that the learner cannot use.

        Observations are served through `scale`, without one as they are.
        """
        self.identifier, self.environments, self.scale, self.device = identifier, environments, scale, device
        try:
            self._members = [gymnasium.make(identifier, disable_env_checker=True) for _ in range(environments)]
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise ConfigError(f"cannot make Gymnasium environment {identifier!r}: {error}") from None
        self._first, self._counts, self._discrete = _action_layout(identifier, self._members[0].action_space)
        names = ["action"] if self._discrete else [f"action{i}" for i in range(len(self._counts))]
        self.branches = tuple(zip(names, self._counts, strict=True))
        self.widths = {"market": _observation_width(identifier, self._members[0].observation_space)}
        self.reward_unit = torch.ones(environments, device=device)
        self._ended = np.zeros(environments, dtype=bool)

    def reset(self, seed: int | None = None) -> Observation:
        """Start every environment afresh; environment i is seeded with seed + i."""
        self._ended[:] = False
        seeds = [None if seed is None else seed + i for i in range(self.environments)]
        return self._observe([member.reset(seed=s)[0] for member, s in zip(self._members, seeds, strict=True)])

    def step(self, action: Int[Tensor, "environments branches"], limits: Limits | None = None) -> StepResult:
        """Advance every environment by one step; one whose episode ended before starts a new one instead.

        There is nothing here that `limits` could limit.
        """
        choices = action.cpu().numpy() + self._first
        seen = []
        reward = np.zeros(self.environments)
        terminated, truncated = np.zeros((2, self.environments), dtype=bool)
        for i, (member, choice) in enumerate(zip(self._members, choices, strict=True)):
            if self._ended[i]:
                seen.append(member.reset()[0])
            else:
                taken = int(choice[0]) if self._discrete else choice
                observation, reward[i], terminated[i], truncated[i], _ = member.step(taken)
                seen.append(observation)
        self._ended = terminated | truncated
        earned, ends, cuts = (torch.from_numpy(values).to(self.device) for values in (reward, terminated, truncated))
        return StepResult(self._observe(seen), earned, ends, cuts)

    def state_dict(self) -> dict[str, Any]:
        """Every environment's state, or `opaque`: what keeps it from being captured, in words."""
        try:
            members = {str(i): {"layers": capture(member)} for i, member in enumerate(self._members)}
        except OpaqueAttributeError as error:
            return {"opaque": f"{self.identifier}: {error}"}
        return {"ended": torch.from_numpy(self._ended.copy()), "members": members}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from `state_dict` that is not opaque."""
        self._ended = state["ended"].cpu().numpy().copy()
        for i, member in enumerate(self._members):
            restore(member, state["members"][str(i)]["layers"])

    def _observe(self, seen: list[Any]) -> Observation:
        stacked = np.stack([np.asarray(observation, dtype=np.float32).reshape(-1) for observation in seen])
        values = torch.from_numpy(stacked)
        if self.scale:
            values = ((values - self.scale.center) / self.scale.scale).clamp_(-CLIP, CLIP)
        return {"market": values.to(self.device)}


def _action_layout(identifier: str, space: spaces.Space[Any]) -> tuple[np.ndarray[Any, Any], list[int], bool]:
    """First action of every branch, number of actions, and whether the space is Discrete."""
    match space:
        case spaces.Discrete():
            return np.array([space.start]), [int(space.n)], True
        case spaces.MultiDiscrete() if space.nvec.ndim == 1:
            return space.start, space.nvec.tolist(), False
    raise ConfigError(f"{identifier} has action space {space}; the learner needs Discrete or one-row MultiDiscrete")


def _observation_width(identifier: str, space: spaces.Space[Any]) -> int:
    if isinstance(space, spaces.Box) and len(space.shape) <= 1:
        return int(np.prod(space.shape))
    raise ConfigError(
        f"{identifier} has observation space {space}; the learner needs a flat Box "
        "(gymnasium.wrappers.FlattenObservation makes one)"
    )
