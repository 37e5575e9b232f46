"""`foxhunt bench`: measure speed on this machine, and fills against another back-tester's."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tyro

DESCRIPTION = """Measure foxhunt on this machine and write the figures as CSV.

  foxhunt bench env                                  4096 accounts replaying a simulated market
  foxhunt bench env --environments 4096 65536 --device cuda
  foxhunt bench data                                 every reader whose files are there (FOXHUNT_DATA)
  foxhunt bench fills                                the fill model beside hftbacktest's (FOXHUNT_DATA)
  foxhunt bench signal                               what the agent earns where there is something to learn
  foxhunt bench rms                                  how large h is, and the values beside it, under either trunk"""


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


@dataclass(frozen=True)
class Fills:
    """The same random orders on the same real markets through foxhunt and through hftbacktest, order by order."""

    accounts: int = 60
    """Accounts that trade each market from end to end, some hundred orders each."""
    out: Path | None = None
    """Results file instead of benchmarks/results/fills.csv."""


@dataclass(frozen=True)
class Signal:
    """Share of the oracle's profit that an agent earns on simulated markets with a signal, and what it earns without.

    Each seed has its own two markets, one with a signal and one without; the last fifth of the time is held out.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of market and agent."""
    hours: float = 48.0
    """Length of each market."""
    preset: str = "default"
    """Settings of the agent."""
    workers: int = 2
    """Processes, one thread each."""
    folder: Path = Path("runs/signal")
    """Where markets and runs are kept."""
    out: Path | None = None
    """Results file instead of benchmarks/results/signal.csv."""


@dataclass(frozen=True)
class Rms:
    """RMS of h and of the values beside it, before and after matching, after a short training with each trunk."""

    preset: str = "default"
    """Settings of the agent."""
    steps: int = 20_000
    """Environment steps to train for."""
    hours: float = 6.0
    """Length of the simulated market."""
    seed: int = 0
    """Seed of market and agent."""
    folder: Path = Path("runs/rms")
    """Where market and runs are kept."""
    out: Path | None = None
    """Results file instead of benchmarks/results/rms.csv."""


_COMMANDS: Final[dict[str, Callable[..., Env | Data | Fills | Signal | Rms]]] = {
    "env": Env,
    "data": Data,
    "fills": Fills,
    "signal": Signal,
    "rms": Rms,
}


def main(arguments: list[str]) -> int:
    """Measure and print."""
    command = tyro.extras.subcommand_cli_from_dict(
        _COMMANDS, prog="foxhunt bench", description=DESCRIPTION, args=arguments
    )
    if isinstance(command, Data):
        from foxhunt.bench import data

        data.run(command.out)
        return 0
    if isinstance(command, Fills):
        from foxhunt.bench import fills

        for row in fills.run(command.accounts, command.out):
            setting = f"{row['market']}, {row['rules']} rules, {row['queue']} queue, latency {row['latency']}"
            print(
                f"{setting}: {row['orders']} orders ({row['kind']}), {row['agreement']:.2%} agree on filling, "
                f"{row['unexplained']} unexplained"
            )
        print(f"written to {command.out or fills.RESULTS}")
        return 0
    if isinstance(command, Signal):
        return _signal(command)
    if isinstance(command, Rms):
        return _rms(command)
    from foxhunt.bench import environment

    for row in environment.run(command.environments, command.steps, command.device, command.out):
        print(
            f"{row['environments']} environments, {row['mode']}: {row['median_steps_per_s'] / 1e3:,.0f} k env steps/s "
            f"(20 % to 80 %: {row['p20_steps_per_s'] / 1e3:,.0f} k to {row['p80_steps_per_s'] / 1e3:,.0f} k), "
            f"{row['median_ms']:.2f} ms a step, {row['device']}, {row['threads']} threads, torch {row['torch']}"
        )
    print(f"written to {command.out or environment.RESULTS}")
    return 0


def _signal(command: Signal) -> int:
    from rich.console import Console

    from foxhunt.bench import signal
    from foxhunt.cli.progress import task_bar

    total = len(command.seeds) * len(signal.SIGNALS)
    rows = signal.run(command.seeds, command.hours, command.preset, command.workers, command.folder, command.out)
    with task_bar(Console(), "simulating, training, judging") as show:
        show(0, total, "")
        for done, row in enumerate(rows, start=1):
            share = f", {row['share_of_oracle']:.1%} of the oracle's {row['oracle']:,.0f}" if row["signal"] else ""
            text = (
                f"seed {row['seed']}, signal {row['signal']:g}: {row['agent']:,.0f} after fees "
                f"({row['agent_low']:,.0f} to {row['agent_high']:,.0f}){share}; trained in {row['train_seconds']:.0f} s"
            )
            show(done, total, text)
    print(f"written to {command.out or signal.RESULTS}")
    return 0


def _rms(command: Rms) -> int:
    from foxhunt.bench import rms

    for row in rms.run(command.preset, command.steps, command.hours, command.seed, command.folder, command.out):
        print(
            f"{row['trunk']}: RMS of h {row['h_rms']:.3f}, of the values beside it {row['values_rms']:.3f} as they are "
            f"({row['ratio_before']:.1%} of h), {row['matched_rms']:.3f} as they are read ({row['ratio_after']:.1%}), "
            f"{row['dead_units']:.1%} dead units, effective rank {row['effective_rank']:.1f}"
        )
    print(f"written to {command.out or rms.RESULTS}")
    return 0
