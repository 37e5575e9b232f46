"""Collapsed policies are named."""

import numpy as np
import polars as pl

from foxhunt.evaluate.collapse import collapses

from .market import account, backtest, random_backtest

STEPS = 1000


def held(position: np.ndarray) -> list[str]:
    flat_market = [100.0] * (STEPS + 1)
    return collapses(backtest([account(steps=STEPS)], [flat_market], [position.tolist()]))


def test_a_policy_that_decides_has_not_collapsed() -> None:
    assert collapses(random_backtest()) == []


def test_always_flat_long_and_short_are_named() -> None:
    everywhere = np.ones(STEPS, dtype=int)
    assert held(0 * everywhere) == [
        "always flat (100 % of the time)",
        "one action in branch direction: flat (100 % of decisions)",
    ]
    assert held(everywhere)[0] == "always long (100 % of the time)"
    assert held(-everywhere)[0] == "always short (100 % of the time)"


def test_the_threshold_is_more_than_99_percent() -> None:
    mostly = np.ones(STEPS, dtype=int)
    mostly[:10] = 0
    assert held(mostly) == []
    mostly[9] = 1
    assert held(mostly)[0] == "always long (99.1 % of the time)"


def test_one_action_in_a_branch_is_named_by_its_name() -> None:
    run = random_backtest()
    stuck = run.decisions.with_columns(order=pl.lit(2, pl.Int8))
    assert collapses(type(run)(run.policy, run.branches, run.accounts, stuck, run.orders, run.fills)) == [
        "one action in branch order: cross (100 % of decisions)"
    ]
