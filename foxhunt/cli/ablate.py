"""`foxhunt ablate`: what each switch of the agent is worth on a dataset."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from foxhunt.cli.progress import task_bar
from foxhunt.config import TrainConfig
from foxhunt.errors import ConfigError
from foxhunt.evaluate.ablate import ablate
from foxhunt.evaluate.ablation import COLUMNS, FIGURES, Row, caption, conclusion, tabulate, write_table
from foxhunt.evaluate.switches import SWITCHES
from foxhunt.presets import PRESETS

DESCRIPTION = f"""Train agents with each switch turned, over seeds, and say what every switch is worth on held-out data.

  foxhunt ablate --data data/sim --switch trunk --seeds 5           gated residual against ReLU trunk
  foxhunt ablate --data data/sim --preset full --workers 2          every head of preset full, left out in turn
  foxhunt ablate --data data/sim --switch temporal --switch quantiles --steps 100000 --out runs/study

The base is the preset with your flags; every arm is the base with one switch turned: off where the base has it, on
where it lacks it. What a switch needs comes with it. Every agent is judged on the test split, after fees, and arms are
compared with the base seed by seed. Run the same command again to go on after an interruption: finished agents are
kept.

Switches: {", ".join(SWITCHES)}.

Writes OUT/ablation.md, OUT/ablation.csv, OUT/cells.csv and a run folder for each agent; exit code 1 when an agent
failed."""


SHOWN = (
    ("arm", "seeds", "profit", "95 % interval", "worth of on", "95 % interval of worth", "verdict"),
    ("arm", "minutes", *FIGURES.values()),
)
"""Columns of the tables in the terminal, which must not be wide; the files hold one table of all."""


@dataclass(frozen=True)
class Arguments:
    """What the command line takes."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    switch: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A switch to study; give it several times for several. None takes all."""
    seeds: int = 5
    """Agents an arm, from --seed on."""
    workers: int = 1
    """Agents trained at once, one process and one thread each."""
    preset: str = "default"
    """Settings of the base; other flags override them."""


def main(arguments: list[str]) -> int:
    """Train, judge and print; 0 when every agent is finished, 1 when some failed."""
    parsed = _parse(arguments)
    console = Console()
    with task_bar(console, "training") as show:
        study = ablate(parsed.config, parsed.switch, seeds=parsed.seeds, workers=parsed.workers, progress=show)
    rows = tabulate(study)
    file = write_table(study, rows)
    console.print(caption(study), highlight=False, soft_wrap=True)
    for columns in SHOWN:
        console.print(_table(rows, columns))
    console.print(conclusion(rows), highlight=False, soft_wrap=True)
    for failure in study.failures:
        console.print(
            f"failed: {failure.arm} seed {failure.seed}: {failure.reason}", style="red", highlight=False, soft_wrap=True
        )
    console.print(f"table: {file}", highlight=False, soft_wrap=True)
    return 1 if study.failures else 0


def _parse(arguments: list[str]) -> Arguments:
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset", default="default")
    preset = first.parse_known_args(arguments)[0].preset
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; choose from {', '.join(PRESETS)}")
    base = replace(PRESETS[preset], out=Path("runs/ablate"))
    default = Arguments(config=base, preset=preset)
    return tyro.cli(Arguments, prog="foxhunt ablate", description=DESCRIPTION, args=arguments, default=default)


def _table(rows: list[Row], columns: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in ("arm", "verdict") else "right")
    for row in rows:
        told = dict(zip(COLUMNS, row.cells(), strict=True))
        table.add_row(*(told[name] for name in columns), style="bold" if row.verdict in ("helps", "hurts") else "")
    return table
