"""The ledger on disk: every decision, order and fill of every policy, as Parquet files that any tool reads.

decisions.parquet   what was known, wanted and held, one row a decision
orders.parquet      what happened to every order
fills.parquet       every fill with price, fee and slippage

Columns are those of `record.DECISIONS`, `ORDERS` and `FILLS`, with `policy` and `seed` in front.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from foxhunt.evaluate.summary import Contender

TABLES: Final = ("decisions", "orders", "fills")


def write_ledger(folder: Path, contenders: Sequence[Contender]) -> None:
    """Write the tables of all contenders into a folder, which is made."""
    folder.mkdir(parents=True)
    for table in TABLES:
        frames = [
            getattr(run, table).select(
                pl.lit(contender.name).alias("policy"), pl.lit(seed, pl.Int32).alias("seed"), pl.all()
            )
            for contender in contenders
            for seed, run in enumerate(contender.runs)
        ]
        pl.concat(frames).write_parquet(folder / f"{table}.parquet", compression="zstd")
