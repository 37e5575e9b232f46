"""What a run trains on: the environments, the scale of rewards, and what was fitted on the training data."""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.config import TrainConfig
from foxhunt.errors import ConfigError
from foxhunt.interface import VectorEnvironment


@dataclass(frozen=True)
class Task:
    """A source of experience and its judge."""

    environment: VectorEnvironment
    """Where the agent trains."""
    validation: VectorEnvironment
    """Where it is judged: one episode in each of its environments."""
    reward_unit: Float[Tensor, ""]
    """Reward that the network sees as 1."""
    unit: str
    """What returns are counted in, for people."""
    fitted: dict[str, Any] = field(default_factory=dict)
    """What was fitted on the training data and must travel with the network."""


def make_task(config: TrainConfig, fitted: dict[str, Any] | None = None) -> Task:
    """The task of a config; a resumed run gives what it had `fitted`, so that nothing is fitted twice."""
    if config.env is not None:
        from foxhunt.rl.gymnasium_env import GymnasiumEnvironment

        return Task(
            environment=GymnasiumEnvironment(config.env, config.environments, config.device),
            validation=GymnasiumEnvironment(config.env, config.evaluation_episodes, config.device),
            reward_unit=torch.ones((), dtype=torch.float64, device=config.device),
            unit="reward",
        )
    raise ConfigError("nothing to train on; give --data DIR (a folder written by foxhunt data import) or --env ID")
