"""Policies that have stopped deciding: always flat, always on one side, always the same action in a branch."""

from typing import Final

import polars as pl

from foxhunt.evaluate.record import Backtest

SHARE: Final = 0.99
"""A policy that does the same thing in more than this share of its decisions has collapsed."""


def collapses(backtest: Backtest) -> list[str]:
    """Name each collapse in a few words, the worst first; an empty list for a policy that decides."""
    steps = backtest.decisions
    found = []
    for text, held in (
        ("always flat", pl.col("position_lots") == 0),
        ("always long", pl.col("position_lots") > 0),
        ("always short", pl.col("position_lots") < 0),
    ):
        if (share := _share(steps, held)) > SHARE:
            found.append(f"{text} ({_percent(share)} of the time)")
    for branch, actions in backtest.branches.items():
        for action, name in enumerate(actions):
            if (share := _share(steps, pl.col(branch) == action)) > SHARE:
                found.append(f"one action in branch {branch}: {name} ({_percent(share)} of decisions)")
    return found


def _share(steps: pl.DataFrame, condition: pl.Expr) -> float:
    share = steps.select(condition.mean()).item()
    return 0.0 if share is None else float(share)


def _percent(share: float) -> str:
    """Never rounded up to 100 %."""
    return "100 %" if share == 1 else f"{int(share * 1000) / 10:.1f} %"
