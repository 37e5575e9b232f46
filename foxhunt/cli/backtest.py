"""`foxhunt backtest`: judge a trained agent on time it has not seen."""

from dataclasses import dataclass, field
from pathlib import Path

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from foxhunt.evaluate.acting import SWITCHES, ActingChanges
from foxhunt.evaluate.backtest import SEEDS, Result, Split, backtest_run
from foxhunt.evaluate.format import money, number, percent, span
from foxhunt.evaluate.summary import AGENT, Row, Summary
from foxhunt.rl.checkpoint import Which

DESCRIPTION = """Send an agent and baselines through one split of its data, with fees, and say what came of it.

  foxhunt backtest runs/train                    the best checkpoint on the held-out test split
  foxhunt backtest runs/train --split validate --checkpoint last
  foxhunt backtest runs/train --acting.no-risk-budget --acting.values quantile --acting.cvar 0.25

Writes RUN/backtest-SPLIT/ with report.html, summary.json and ledger/ (every decision, order and fill as Parquet)."""


@dataclass(frozen=True)
class Arguments:
    """What the command line takes."""

    run: tyro.conf.Positional[Path]
    """Run folder written by foxhunt train."""
    split: Split = "test"
    """Which time to judge on; only test is held out."""
    checkpoint: Which = "best"
    """The best checkpoint by validation, or the last one."""
    data: Path | None = None
    """Where the run's dataset lies now, if it was moved."""
    out: Path | None = None
    """Result folder instead of RUN/backtest-SPLIT; an earlier back-test there is replaced."""
    seeds: int = SEEDS
    """Runs of random trading, whose mean is shown."""
    device: str = "cpu"
    """Torch device."""
    trials: int = 1
    """Agents that were tried on this data, this one included; deflates the Sharpe ratio."""
    variations: bool = True
    """Send the agent through again with each of its heads switched."""
    acting: ActingChanges = field(default_factory=ActingChanges)
    """How the agent acts, where that should differ from how it was trained. A switch without a value is on, and
    --acting.no-risk-budget, --acting.no-selectivity and --acting.no-trade-plan are off."""


def main(arguments: list[str]) -> int:
    """Back-test and print; 0 however the agent did."""
    parsed = tyro.cli(Arguments, prog="foxhunt backtest", description=DESCRIPTION, args=_spell_out(arguments))
    console = Console()
    with console.status("back-testing") as status:
        result = backtest_run(
            parsed.run,
            split=parsed.split,
            checkpoint=parsed.checkpoint,
            data=parsed.data,
            out=parsed.out,
            seeds=parsed.seeds,
            acting=parsed.acting,
            variations=parsed.variations,
            trials=parsed.trials,
            device=parsed.device,
            progress=status.update,
        )
    print_result(console, result)
    return 0


def _spell_out(arguments: list[str]) -> list[str]:
    """Give switches their values: a setting that may also be left as trained cannot be a plain flag."""
    flags = [head.replace("_", "-") for head in SWITCHES]
    values = {f"--acting.{flag}": "True" for flag in flags} | {f"--acting.no-{flag}": "False" for flag in flags}
    spelled: list[str] = []
    for place, argument in enumerate(arguments):
        if argument in values and arguments[place + 1 : place + 2] not in (["True"], ["False"], ["None"]):
            spelled += [argument.replace(".no-", "."), values[argument]]
        else:
            spelled.append(argument)
    return spelled


def print_result(console: Console, result: Result) -> None:
    """Two tables, the verdict, and where the rest lies."""
    summary = result.summary
    console.print(_profits(summary), _activity(summary), sep="\n")
    console.print(f"[bold]{summary.verdict}[/bold]", highlight=False)
    if summary.comparison:
        console.print(summary.comparison, highlight=False)
    for collapse in summary.collapses:
        console.print(f"collapsed policy: {collapse}", style="yellow", highlight=False)
    console.print(f"Sharpe ratios are annual: {summary.clock}", style="dim", highlight=False)
    console.print(f"report: {result.report}\nledger: {result.folder / 'ledger'}", highlight=False, soft_wrap=True)


def _profits(summary: Summary) -> Table:
    title = f"profit after fees, {summary.currency}, {summary.split} split, capital {money(summary.capital)}"
    table = _table(title, "profit", "95 % interval", "agent's lead", "95 % interval")
    for row in summary.rows:
        lead = row.difference_interval
        against = ("", "") if row.policy == AGENT else (money(row.difference), span(lead.low, lead.high))
        _add(table, row, money(row.metrics.pnl), span(row.interval.low, row.interval.high), *against)
    return table


def _activity(summary: Summary) -> Table:
    table = _table("cost and risk", "fees", "slippage", "turnover", "fills", "Sharpe", "drawdown")
    for row in summary.rows:
        metrics = row.metrics
        costs = money(metrics.fees), money(metrics.slippage), number(metrics.turnover), number(metrics.fills, 1)
        _add(table, row, *costs, number(metrics.sharpe), percent(metrics.drawdown_share))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("policy", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _add(table: Table, row: Row, *cells: str) -> None:
    table.add_row(row.policy, *cells, style="bold" if row.policy == AGENT else "")
