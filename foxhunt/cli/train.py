"""`foxhunt train`: train an agent on a dataset or on a Gymnasium environment."""

import argparse
import signal
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from foxhunt.cli.progress import TrainingProgress
from foxhunt.config import TrainConfig
from foxhunt.errors import ConfigError
from foxhunt.presets import PRESETS
from foxhunt.rl.trainer import Summary, Trainer

DESCRIPTION = f"""Train an agent on market data or on a Gymnasium environment.

  foxhunt train --data data/btc                  on a dataset written by foxhunt data import
  foxhunt train --env CartPole-v1                on a Gymnasium environment (preset gymnasium)
  foxhunt train --data data/btc --network.trunk relu --learner.n-step 5
  foxhunt train --resume runs/train              go on where a run stopped, bit for bit

Presets: {", ".join(PRESETS)}. Ctrl-C saves the run before it stops."""


@dataclass(frozen=True)
class Arguments:
    """What the command line takes."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    preset: str = "default"
    """Settings to start from; every other flag overrides them. With --env, `gymnasium` unless told otherwise."""
    resume: Path | None = None
    """Run folder to go on with; takes no other setting."""
    overwrite: bool = False
    """Replace the run that the out folder holds."""


def main(arguments: list[str]) -> int:
    """Train; 0 when the run is complete, 130 when it was interrupted (and saved)."""
    trainer = _trainer(arguments)
    console = Console()
    _greet(console, trainer)
    handlers = {number: signal.signal(number, lambda *_: trainer.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with TrainingProgress(console) as progress:
            summary = trainer.train(display=progress)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    _conclude(console, summary, trainer.task.unit)
    return 0 if summary.finished else 130


def _trainer(arguments: list[str]) -> Trainer:
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--preset", "--env", "--resume"):
        first.add_argument(flag)
    early, others = first.parse_known_args(arguments)
    if early.resume is not None and not {"-h", "--help"} & set(others):
        if early.preset or early.env or others:
            given = (["--preset"] if early.preset else []) + (["--env"] if early.env else []) + others
            raise ConfigError(f"--resume takes the run's own settings; leave out {given[0]}")
        return Trainer.resume(early.resume)
    preset = early.preset or ("gymnasium" if early.env else "default")
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; choose from {', '.join(PRESETS)}")
    parsed = tyro.cli(
        Arguments,
        prog="foxhunt train",
        description=DESCRIPTION,
        args=arguments,
        default=Arguments(config=PRESETS[preset], preset=preset),
    )
    return Trainer(parsed.config, parsed.overwrite)


def _greet(console: Console, trainer: Trainer) -> None:
    config = trainer.config
    source = config.env or config.data
    console.print(
        f"training on [bold]{source}[/bold]: {config.steps:,} steps in {trainer.task.environment.environments} "
        f"environments, trunk {config.network.trunk}, seed {config.seed}, device {config.device} -> {config.out}",
        soft_wrap=True,
    )
    if trainer.step:
        console.print(f"going on from step {trainer.step:,}")
    if reason := trainer.opaque():
        console.print(
            f"note: the environment's state cannot be saved ({reason}); resumed runs begin new episodes",
            style="yellow",
            soft_wrap=True,
        )
    if not find_spec("tensorboard"):
        console.print(
            "note: without TensorBoard (pip install 'foxhunt[tensorboard]'); metrics.jsonl has the same numbers",
            style="dim",
            soft_wrap=True,
        )


def _conclude(console: Console, summary: Summary, unit: str) -> None:
    if not summary.finished:
        console.print(
            f"stopped and saved at step {summary.step:,}; go on with: foxhunt train --resume {summary.run}",
            soft_wrap=True,
        )
        return
    if summary.last_evaluation is not None and summary.best_evaluation is not None:
        console.print(
            f"done: mean validation return {summary.last_evaluation:,.2f} {unit} at the end, "
            f"{summary.best_evaluation:,.2f} at best -> {summary.run}",
            soft_wrap=True,
        )
