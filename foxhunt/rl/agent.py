"""A trained agent, read from a run folder."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from foxhunt.config import NetworkConfig, TrainConfig, from_json, to_json
from foxhunt.errors import CheckpointError, ConfigError
from foxhunt.nn.network import Network
from foxhunt.rl.act import GreedyPolicy
from foxhunt.rl.checkpoint import Which, load_model, short_reason


@dataclass(frozen=True)
class Agent:
    """A network and what belongs to it."""

    network: Network
    config: TrainConfig
    widths: dict[str, int]
    """Width of every observation part that the network reads."""
    branches: tuple[tuple[str, int], ...]
    """Name and number of actions of every branch."""
    fitted: dict[str, Any]
    """What was fitted on the training data: a market's `scaler` (`FeatureScaler.from_state_dict`), a Gymnasium
    environment's `scale` (`ObservationScale`)."""
    step: int
    """Environment steps the agent was trained for."""
    origin: dict[str, Any] | None = None
    """Of a migrated agent: the run it came from, that run's trunk, and how far the two agree."""

    @property
    def policy(self) -> GreedyPolicy:
        """Observation -> best decision, as the run's config acts; a fresh one, which has seen nothing yet."""
        return GreedyPolicy(self.network, self.config.acting)

    def state_dict(self) -> dict[str, Any]:
        """The model part of a checkpoint."""
        return {
            "config": to_json(self.config),
            "widths": self.widths,
            "branches": self.branches,
            "fitted": self.fitted,
            "step": self.step,
            "origin": self.origin,
            "network": dict(self.network.state_dict()),
        }


def load_agent(run: Path | str, which: Which = "best", device: torch.device | str = "cpu") -> Agent:
    """The `best` (by validation) or `last` agent of a run; raises `CheckpointError` when it cannot be used."""
    run = Path(run)
    state = load_model(run, which)
    try:
        config = from_json(TrainConfig, state["config"])
        widths = {part: int(width) for part, width in state["widths"].items()}
        branches = tuple((str(name), int(actions)) for name, actions in state["branches"])
        network = make_network(widths, branches, config.network, config.seed).to(device)
        network.load_state_dict(state["network"])
    except (ConfigError, KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(
            f"{run}: the {which} checkpoint does not fit this version ({short_reason(error)}); train again"
        ) from None
    return Agent(network, config, widths, branches, state["fitted"], int(state["step"]), state.get("origin"))


def check_device(device: str) -> None:
    """Raise `ConfigError` when torch cannot use a device here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch asserts when it was built without CUDA
        raise ConfigError(f"device {device!r} cannot be used ({str(error).splitlines()[0]}); try cpu") from None


def make_network(
    widths: dict[str, int], branches: tuple[tuple[str, int], ...], config: NetworkConfig, seed: int
) -> Network:
    """A network with weights drawn from `seed`, leaving the global random state alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "weights"))
        return Network(widths, branches, config)


def derive_seed(seed: int, purpose: str) -> int:
    """Seed of one random stream of a run; streams of different purposes are unrelated."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:4]) // 2
