"""`foxhunt bench`: measure speed on this machine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tyro

DESCRIPTION = """Measure the speed of foxhunt on this machine and write the figures as CSV.

  foxhunt bench env                                  4096 accounts replaying a simulated market
  foxhunt bench env --environments 4096 65536 --device cuda
  foxhunt bench data                                 every reader whose files are there (FOXHUNT_DATA)"""


@dataclass(frozen=True)
class Env:
    """Environment steps a second: random policy, full observation, full fill model, simulated ten-level book."""

    environments: tuple[int, ...] = (4096,)
    """Accounts stepped at once; several sizes are timed one after the other."""
    steps: int = 500
    """Vector steps to time."""
    device: str = "cpu"
    """Torch device."""
    out: Path | None = None
    """Results file instead of benchmarks/results/environment.csv."""


@dataclass(frozen=True)
class Data:
    """Rows a second of every import, beside what its parser alone takes."""

    out: Path | None = None
    """Results file instead of benchmarks/results/data.csv."""


_COMMANDS: Final[dict[str, Callable[..., Env | Data]]] = {"env": Env, "data": Data}


def main(arguments: list[str]) -> int:
    """Measure and print."""
    command = tyro.extras.subcommand_cli_from_dict(
        _COMMANDS, prog="foxhunt bench", description=DESCRIPTION, args=arguments
    )
    if isinstance(command, Data):
        from foxhunt.bench import data

        data.run(command.out)
        return 0
    from foxhunt.bench import environment

    for row in environment.run(command.environments, command.steps, command.device, command.out):
        print(
            f"{row['environments']} environments, {row['mode']}: {row['median_steps_per_s'] / 1e3:,.0f} k env steps/s "
            f"(20 % to 80 %: {row['p20_steps_per_s'] / 1e3:,.0f} k to {row['p80_steps_per_s'] / 1e3:,.0f} k), "
            f"{row['median_ms']:.2f} ms a step, {row['device']}, {row['threads']} threads, torch {row['torch']}"
        )
    print(f"written to {command.out or environment.RESULTS}")
    return 0
