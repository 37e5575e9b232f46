"""`foxhunt demo`: the whole way from order events to an honest verdict, on a sample that a package ships."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import tyro
from rich.console import Console

from foxhunt.cli.backtest import print_result
from foxhunt.cli.progress import TrainingProgress
from foxhunt.data.readers import read_sources
from foxhunt.data.readers.options import ImportOptions
from foxhunt.data.sample import sample_paths
from foxhunt.data.store import write_dataset
from foxhunt.data.summary import import_summary
from foxhunt.evaluate.backtest import backtest_run
from foxhunt.presets import PRESETS
from foxhunt.rl.trainer import Trainer

DESCRIPTION: Final = """Import a real order book, train an agent on its first part, judge it on its last.

Half an hour of Bitstamp BTC/USD (2 May 2026, 314,057 order events), which the package ob-analytics ships; install it
with pip install 'foxhunt[demo]'. Fees are those of Bitstamp's largest accounts: 0 for passive fills, 3 bps for
aggressive ones. Takes a few minutes on two cores and ends with profit after fees on time the agent has never seen."""

SAMPLE: Final = ImportOptions(symbol="BTC/USD", tick_size="1", order_lots=100_000, maker_bps=0.0, taker_bps=3.0)
"""Own orders are multiples of 0.001 BTC; fees are Bitstamp's highest tier (over 20 M USD in 30 days, as of 2025)."""


@dataclass(frozen=True)
class Arguments:
    """What the command line takes."""

    out: Path = Path("runs/demo")
    """Folder for the dataset, the run and report.html; an earlier demo there is replaced."""
    steps: int | None = None
    """Environment steps of training; None takes the preset's."""
    seed: int = 0
    """Seed of everything random."""


def main(arguments: list[str]) -> int:
    """Import, train, back-test, report; 0 however the agent did."""
    parsed = tyro.cli(Arguments, prog="foxhunt demo", description=DESCRIPTION, args=arguments)
    console = Console()

    console.rule("1 of 3: import")
    dataset = write_dataset(parsed.out / "data", read_sources(sample_paths(), SAMPLE), overwrite=True)
    console.print(import_summary(dataset))

    console.rule("2 of 3: train")
    preset = PRESETS["demo"]
    run = parsed.out / "run"
    config = replace(preset, data=dataset.path, out=run, seed=parsed.seed, steps=parsed.steps or preset.steps)
    with TrainingProgress(console) as progress:
        Trainer(config, overwrite=True).train(display=progress)

    console.rule("3 of 3: back-test on the held-out last part")
    report = parsed.out / "report.html"
    print_result(console, backtest_run(run, report=report))
    console.print(f"open [bold]{report}[/bold] in a browser; the same by hand: foxhunt data import, train, backtest")
    return 0
