"""Distributional reinforcement learning for order-book trading."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_LAZY: dict[str, str] = {
    "Agent": "foxhunt.rl.agent",
    "Dataset": "foxhunt.data.store",
    "FeatureScaler": "foxhunt.market.scaling",
    "Learner": "foxhunt.rl.learner",
    "Network": "foxhunt.nn.network",
    "PRESETS": "foxhunt.presets",
    "Replay": "foxhunt.rl.replay",
    "SimulatorConfig": "foxhunt.data.simulator",
    "Tape": "foxhunt.market.tape",
    "TradingEnvironment": "foxhunt.market.environment",
    "TrainConfig": "foxhunt.config",
    "Trainer": "foxhunt.rl.trainer",
    "backtest_run": "foxhunt.evaluate.backtest",
    "load_agent": "foxhunt.rl.agent",
    "load_tape": "foxhunt.market.tape",
    "read_sources": "foxhunt.data.readers",
    "simulate": "foxhunt.data.simulator",
    "split_tape": "foxhunt.market.split",
    "write_dataset": "foxhunt.data.store",
}
"""Public name -> module, imported when asked for."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'foxhunt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_LAZY, "__version__"])
