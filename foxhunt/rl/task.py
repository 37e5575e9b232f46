"""What a run trains on: the environments and what was fitted on the training data."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import torch

from foxhunt.config import TrainConfig
from foxhunt.errors import CheckpointError, ConfigError
from foxhunt.interface import VectorEnvironment
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.split import split_tape
from foxhunt.market.tape import Tape, load_tape


@dataclass(frozen=True)
class Task:
    """A source of experience and its judge."""

    environment: VectorEnvironment
    """Where the agent trains."""
    validation: VectorEnvironment
    """Where it is judged: one episode in each of its environments. On a market: the whole validation split, cut into
    episodes of the length trained on."""
    unit: str
    """What returns are counted in, for people."""
    fitted: dict[str, Any]
    """What was fitted on the training data and travels with the network: scales of observations and rewards."""


def make_task(config: TrainConfig, fitted: dict[str, Any] | None = None) -> Task:
    """The task of a config; a resumed run gives what it had `fitted`, so that nothing is fitted twice.

    Raises `ConfigError` when the config names neither data nor an environment, `DataError` when the data cannot be
    read and `CheckpointError` when it is not the data that the run was started on.
    """
    if config.env is not None:
        return _gymnasium_task(config.env, config, fitted)
    if config.data is not None:
        return _market_task(config, fitted)
    raise ConfigError("nothing to train on; give --data DIR (a folder written by foxhunt data import) or --env ID")


def _gymnasium_task(identifier: str, config: TrainConfig, fitted: dict[str, Any] | None) -> Task:
    from foxhunt.rl.gymnasium_env import GymnasiumEnvironment, ObservationScale

    scale = ObservationScale(**fitted["scale"]) if fitted else ObservationScale.fit(identifier, config.seed)
    return Task(
        environment=GymnasiumEnvironment(identifier, config.environments, scale, config.device),
        validation=GymnasiumEnvironment(identifier, config.evaluation_episodes, scale, config.device),
        unit="reward",
        fitted={"scale": scale.state_dict()},
    )


def _market_task(config: TrainConfig, fitted: dict[str, Any] | None) -> Task:
    from foxhunt.data.store import Dataset

    assert config.data is not None
    tape = load_tape(Dataset.open(config.data), config.symbols, config.tape)
    digest = tape_digest(tape)
    if fitted is not None and fitted["tape"] != digest:
        raise CheckpointError(f"{config.data} has changed since the run started; restore it, or train again")
    parts = split_tape(tape, config.split)
    scaler = (
        FeatureScaler.from_state_dict(fitted["scaler"]) if fitted else FeatureScaler.fit(parts["train"], config.market)
    )
    environment = TradingEnvironment(
        parts["train"], config.market, config.environments, scaler=scaler, device=config.device
    )
    episodes = cut_into_episodes(parts["validate"], config.market.episode_steps)
    validation = TradingEnvironment(episodes, config.market, scaler=scaler, sweep=True, device=config.device)
    currencies = {instrument.currency for instrument in tape.instruments}
    return Task(
        environment=environment,
        validation=validation,
        unit=currencies.pop() if len(currencies) == 1 else "money",
        fitted={"scaler": scaler.state_dict(), "tape": digest},
    )


def cut_into_episodes(tape: Tape, steps: int) -> Tape:
    """The same rows with segments of at most `steps` decisions, each decision in exactly one of them.

    Played side by side, these short episodes judge an agent many times faster than a back-test, and on the length
    it trained for. A segment's last row is only marked, so that neighbours share it.
    """
    pieces = [
        (start, min(start + steps + 1, stop))
        for first, stop in tape.segments.tolist()
        for start in range(first, stop - 1, steps)
    ]
    return replace(tape, segments=torch.tensor(pieces, device=tape.device))


def tape_digest(tape: Tape) -> str:
    """Fingerprint of what a tape holds."""
    digest = hashlib.sha256()
    for tensor in (tape.time, tape.touch, tape.execution, tape.windows, tape.trade_volume, tape.market):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
