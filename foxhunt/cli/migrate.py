"""`foxhunt migrate`: give a trained run another trunk and keep everything that reads it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from foxhunt.evaluate.backtest import Split, backtest_run
from foxhunt.evaluate.format import money, number, percent, span
from foxhunt.rl.agent import load_agent
from foxhunt.rl.migrate import Migrated, MigrateOptions, Migration, Trunk, locate, migrate

DESCRIPTION = """Give a trained run another trunk and keep every consumer of its output, bit for bit.

  foxhunt migrate runs/relu --trunk grn              best, last and its target network -> runs/relu-grn
  foxhunt migrate runs/relu/checkpoints/best --trunk grn --out runs/swapped
  foxhunt train --resume runs/relu-grn               go on training under the new trunk

The new trunk is fitted until the frozen heads say what they said before, on states replayed from the run's own training
data; the two are then compared on validation data, and back-tested on the test split. A run whose actions would differ
in more than 5 % of the states is not written, unless told otherwise."""


@dataclass(frozen=True)
class Arguments:
    """What the command line takes."""

    checkpoint: tyro.conf.Positional[Path]
    """Run folder written by foxhunt train, or its checkpoints/best or checkpoints/last."""
    trunk: Trunk = "grn"
    """Trunk of the new run."""
    out: Path | None = None
    """Folder of the new run instead of RUN-TRUNK; it must not exist."""
    options: Annotated[MigrateOptions, tyro.conf.arg(name="")] = field(default_factory=MigrateOptions)
    device: str = "cpu"
    """Torch device."""
    split: Split = "test"
    """Which time to back-test on, before and after."""


def main(arguments: list[str]) -> int:
    """Migrate, compare and print; 0 when the new run is written."""
    parsed = tyro.cli(Arguments, prog="foxhunt migrate", description=DESCRIPTION, args=arguments)
    console = Console()
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task("loading", total=1.0)
        result = migrate(
            parsed.checkpoint,
            parsed.trunk,
            out=parsed.out,
            options=parsed.options,
            device=parsed.device,
            progress=lambda stage, share: bar.update(task, description=stage, completed=share),
        )
    console.print(_agreements(result))
    console.print(_backtests(parsed, result, console))
    console.print(f"written: {result.out}", highlight=False, soft_wrap=True)
    return 0


def _agreements(result: Migration) -> Table:
    """One row a network, and one for each of its branches."""
    table = Table(
        title=f"{result.networks[0].agreement.states:,} held-out states", box=SIMPLE_HEAD, title_justify="left"
    )
    for column in ("network", "branch"):
        table.add_column(column)
    for column in ("same action", "rank correlation of Q", "RMS of h", f"validation return, {result.unit}"):
        table.add_column(column, justify="right")
    for network in result.networks:
        _add(table, network)
    return table


def _add(table: Table, network: Migrated) -> None:
    agreement = network.agreement
    sizes, returns = (
        f"{text(before)} -> {text(after)}"
        for text, (before, after) in ((_three, agreement.h_rms), (money, network.returns))
    )
    table.add_row(network.name, "all at once", percent(agreement.joint), "", sizes, returns, style="bold")
    for branch, share in agreement.branches.items():
        table.add_row("", branch, percent(share), number(agreement.rank_correlation[branch], 4))


def _three(value: float) -> str:
    return f"{value:.3f}"


def _backtests(parsed: Arguments, result: Migration, console: Console) -> Table | str:
    """Profit after fees before and after, from the same code as `foxhunt backtest`; reports go to the new run."""
    run, (which, *_) = locate(parsed.checkpoint)
    if load_agent(run, which).config.data is None:
        return "trained on a Gymnasium environment; there is no market to back-test on"
    table = Table(title=f"back-test of {which} on {parsed.split}", box=SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    for column in ("profit after fees", "95 % interval", "fills"):
        table.add_column(column, justify="right")
    for when, folder in (("before", run), ("after", result.out)):
        with console.status(f"back-testing {when}"):
            outcome = backtest_run(
                folder,
                split=parsed.split,
                checkpoint=which,
                out=result.out / f"backtest-{when}",
                device=parsed.device,
            )
        row, currency = outcome.summary.rows[0], outcome.summary.currency
        table.add_row(
            when,
            f"{money(row.metrics.pnl)} {currency}",
            span(row.interval.low, row.interval.high),
            number(row.metrics.fills, 0),
        )
    return table
