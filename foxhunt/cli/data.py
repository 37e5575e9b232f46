"""`foxhunt data`: import, simulate, inspect and validate market data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import tyro

from foxhunt.data.readers.options import ImportOptions
from foxhunt.data.simulator import SimulatorConfig
from foxhunt.errors import DataError

if TYPE_CHECKING:
    from foxhunt.data.store import Dataset


@dataclass(frozen=True)
class Import:
    """Turn market data files into a dataset folder that `foxhunt train` reads.

    Every row is kept or goes to the quarantine ledger with its reason: rows read = rows out + rows quarantined. Either
    the whole folder is written or nothing.

    Formats: bitstamp (L3 order events), dbn (Databento), binance (raw streams), tardis, lean, lobster, mbp (CSV or
    Parquet snapshots, with --map), bars.

    For example:
      foxhunt data import orders.csv.gz trades.csv --out data/btc
      foxhunt data import snapshots.parquet --map ashare --out data/ashare
      foxhunt data import esh4.mbo.dbn.zst --tick-size 0.25 --multiplier 50 --out data/es
      foxhunt data import candles.csv --stamp open --every 5m --timezone Europe/London --out data/gbp
    """

    sources: tyro.conf.Positional[tuple[Path, ...]]
    """Files, or folders of files."""
    out: Path
    """Dataset folder to write."""
    overwrite: bool = False
    """Replace an earlier dataset at --out."""
    options: Annotated[ImportOptions, tyro.conf.arg(name="")] = field(default_factory=ImportOptions)


@dataclass(frozen=True)
class Simulate:
    """Make a dataset from a simulated order-driven market whose order flow foretells its price.

    A hidden state tilts market orders towards buying or selling for about a minute; the price follows. With --signal 0
    nothing can be foretold. The same settings give the same data.

    For example:
      foxhunt data simulate --out data/sim --seconds 14400 --signal 0.6
      foxhunt train --data data/sim
    """

    out: Path
    """Dataset folder to write."""
    overwrite: bool = False
    """Replace an earlier dataset at --out."""
    market: Annotated[SimulatorConfig, tyro.conf.arg(name="")] = field(default_factory=SimulatorConfig)


@dataclass(frozen=True)
class Inspect:
    """Show what a dataset holds: instruments, rows, time range, gaps, spread, depth and volume.

    Try: foxhunt data inspect data/btc
    """

    dataset: tyro.conf.Positional[Path]
    """Dataset folder."""


@dataclass(frozen=True)
class Validate:
    """Check every stored row again; exit 0 when all hold, 1 when rows fail, 2 when the dataset cannot be read.

    Try: foxhunt data validate data/btc
    """

    dataset: tyro.conf.Positional[Path]
    """Dataset folder."""


_COMMANDS: Final[dict[str, Callable[..., Import | Simulate | Inspect | Validate]]] = {
    "import": Import,
    "simulate": Simulate,
    "inspect": Inspect,
    "validate": Validate,
}


def main(arguments: list[str]) -> int:
    """Run `foxhunt data ARGUMENTS`; 0 on success, 1 when validation found bad rows."""
    command = tyro.extras.subcommand_cli_from_dict(
        _COMMANDS,
        prog="foxhunt data",
        description="Import, simulate, inspect and validate market data.",
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    if isinstance(command, Import):
        return _import(command)
    if isinstance(command, Simulate):
        return _simulate(command)
    if isinstance(command, Inspect):
        return _inspect(command)
    return _validate(command)


def _import(command: Import) -> int:
    from rich.console import Console

    from foxhunt.data.readers import read_sources
    from foxhunt.data.store import check_target, write_dataset
    from foxhunt.data.summary import import_summary

    if not command.sources:
        raise DataError(
            "name the files to import, such as: foxhunt data import orders.csv.gz trades.csv --out data/btc"
        )
    check_target(command.out, overwrite=command.overwrite)
    console = Console()
    with console.status("reading") as status:
        imported = read_sources(command.sources, command.options, lambda what: status.update(f"reading {what}"))
        status.update(f"writing {command.out}")
        dataset = write_dataset(command.out, imported, overwrite=command.overwrite)
    console.print(import_summary(dataset))
    return 0


def _simulate(command: Simulate) -> int:
    from rich.console import Console

    from foxhunt.data.simulator import simulate
    from foxhunt.data.store import check_target, write_dataset
    from foxhunt.data.summary import import_summary

    check_target(command.out, overwrite=command.overwrite)
    console = Console()
    with console.status("simulating"):
        dataset = write_dataset(command.out, simulate(command.market).imported(), overwrite=command.overwrite)
    console.print(import_summary(dataset))
    return 0


def _inspect(command: Inspect) -> int:
    from rich.console import Console

    from foxhunt.data.summary import dataset_summary

    Console().print(dataset_summary(_open(command.dataset)))
    return 0


def _validate(command: Validate) -> int:
    from rich.console import Console

    from foxhunt.data.recheck import recheck
    from foxhunt.data.summary import failures_table

    dataset = _open(command.dataset)
    failures = recheck(dataset)
    console = Console()
    if not failures:
        rows = sum(c.out for kind, counts in dataset.counts.items() if kind != "events" for c in counts.values())
        console.print(f"{dataset.path}: all {rows:,} rows hold")
        return 0
    console.print(failures_table(dataset, failures))
    return 1


def _open(path: Path) -> "Dataset":
    from foxhunt.data.store import Dataset

    return Dataset.open(path)
