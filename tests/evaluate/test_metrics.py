"""Every metric against numbers worked by hand."""

from math import sqrt
from statistics import NormalDist

import numpy as np
import polars as pl
import pytest

from foxhunt.data.schema import Instrument
from foxhunt.errors import ConfigError
from foxhunt.evaluate.metrics import (
    average,
    best_by_luck,
    deflated_sharpe,
    max_drawdown,
    measure,
    probabilistic_sharpe,
    round_trips,
    sharpe,
    sharpe_confidence,
    sortino,
)
from foxhunt.evaluate.series import Clock, clock, one_currency, profit

from .market import SECOND, account, backtest, random_backtest

DAILY = Clock(interval_ns=SECOND, day_seconds=86_400, days=365)


def test_metrics_of_a_hand_worked_trade() -> None:
    """Buy 2 at step 0 (one passively at 99.5, one at 100.5), sell 1 at step 2 at 101.5, fees 1 bp, mids 100 to 102."""
    result = measure(backtest([account()], [[100, 101, 102, 102, 101]], [[2, 2, 1, 1]]), DAILY)
    fees = (99.5 + 100.5 + 101.5) / 1e4
    assert result.fees == pytest.approx(fees)
    assert result.slippage == pytest.approx(-0.5 + 0.5 + 0.5)
    assert result.market_move == pytest.approx(2 * 1 + 2 * 1 + 1 * 0 + 1 * -1)
    assert result.pnl == pytest.approx(3.0 - 0.5 - fees)
    assert result.gross == pytest.approx(2.5)
    assert result.return_on_capital == pytest.approx((2.5 - fees) / 1000)
    assert result.traded == pytest.approx(301.5)
    assert result.turnover == pytest.approx(0.3015)
    assert result.fills == 3
    assert result.maker_share == pytest.approx(99.5 / 301.5)
    assert result.time_in_market == 1.0
    assert (result.round_trips, result.hit_rate) == (1, 1.0)
    steps = np.array([2 - 200 / 1e4, 2, -0.5 - 101.5 / 1e4, -1])
    assert result.drawdown == pytest.approx(-(steps[2] + steps[3]))
    assert result.drawdown_share == pytest.approx(-(steps[2] + steps[3]) / (1000 + steps[0] + steps[1]))
    assert result.sharpe == pytest.approx(steps.mean() / steps.std(ddof=1) * sqrt(365 * 86_400))
    assert result.sortino == pytest.approx(steps.mean() / sqrt((steps[2] ** 2 + 1) / 4) * sqrt(365 * 86_400))


def test_profit_is_market_move_less_slippage_less_fees() -> None:
    run = random_backtest(symbols=("ABC", "XYZ"), seed=4)
    result = measure(run, DAILY)
    steps = run.decisions
    mids = [[100, *steps.filter(segment=s)["mid"].to_list()[1:]] for s in (0, 1)]
    assert len(mids[0]) == 600
    assert result.pnl == pytest.approx(result.market_move - result.slippage - result.fees)
    ends = steps.group_by("segment", maintain_order=True).last()
    assert result.pnl == pytest.approx(ends["equity"].sum() - 2000)


def test_ratios_without_meaning_are_none() -> None:
    idle = measure(backtest([account()], [[100, 101, 102, 102, 101]], [[0, 0, 0, 0]]), DAILY)
    assert idle.pnl == idle.fees == idle.traded == idle.time_in_market == 0
    assert idle.sharpe is idle.sortino is idle.probabilistic_sharpe is idle.hit_rate is idle.maker_share is None


def test_sharpe_and_sortino_by_hand() -> None:
    profits = np.array([1.0, -1.0, 2.0, 2.0])
    assert sharpe(profits) == pytest.approx(1.0 / sqrt((0 + 4 + 1 + 1) / 3))
    assert sortino(profits) == pytest.approx(1.0 / sqrt(1 / 4))
    assert sharpe(np.array([0.3, 0.3, 0.3])) is None
    assert sortino(np.array([0.3, 0.0])) is None


def test_drawdown_counts_from_the_start() -> None:
    assert max_drawdown(np.array([90.0, 120.0, 96.0, 110.0]), start=100.0) == pytest.approx((24.0, 0.2))
    assert max_drawdown(np.array([99.0, 98.0]), start=100.0) == pytest.approx((2.0, 0.02))


def test_probabilistic_sharpe_reproduces_the_published_example() -> None:
    """Bailey and Lopez de Prado 2014: annual Sharpe 2.5 over 1250 days, skew -3, kurtosis 10, 100 trials: 0.9004."""
    benchmark = best_by_luck(100, 0.5 / 250)
    assert benchmark == pytest.approx(0.1132, abs=5e-5)
    assert sharpe_confidence(2.5 / sqrt(250), 1250, -3.0, 10.0, benchmark) == pytest.approx(0.9004, abs=5e-5)


def test_deflated_sharpe_asks_more_of_the_best_of_many() -> None:
    profits = np.tile([1.0, -0.5, 0.2, -0.1], 50)
    assert deflated_sharpe(profits, 1) == probabilistic_sharpe(profits)
    assert deflated_sharpe(profits, 10) == probabilistic_sharpe(profits, best_by_luck(10, 1 / 199))
    assert deflated_sharpe(np.array([1.0]), 10) is None
    # The best of two standard normals is 1/sqrt(pi) on average; the paper's approximation gives about that.
    assert best_by_luck(2, 1.0) == pytest.approx(1 / sqrt(np.pi), abs=0.05)


def test_probabilistic_sharpe_uses_population_skew_and_raw_kurtosis() -> None:
    profits = np.array([1.0, 1.0, 1.0, -2.0, 1.0])  # mean 0.4, population variance 1.44, skew -1.5, kurtosis 3.25
    ratio = 0.4 / sqrt(1.8)
    expected = NormalDist().cdf(ratio * sqrt(4 / (1 + 1.5 * ratio + 2.25 / 4 * ratio**2)))
    assert probabilistic_sharpe(profits) == pytest.approx(expected)


def test_round_trips_split_at_flips_and_at_account_ends() -> None:
    run = backtest(
        [account("ABC", steps=5), account("XYZ", start=10, steps=2)],
        [[100, 101, 101, 103, 103, 102], [50, 50, 49]],
        [[1, 0, -1, 1, 1], [1, 1]],
    )
    trips = round_trips(run)
    step = run.decisions["reward"].to_list()
    assert trips.tolist() == pytest.approx([step[0] + step[1], step[2], step[3] + step[4], step[5] + step[6]])


def test_profit_series_joins_accounts_of_one_time_and_separates_periods() -> None:
    run = backtest(
        [account("ABC", steps=2), account("XYZ", start=1, steps=2), account("ABC", start=20, steps=2)],
        [[100, 101, 102], [50, 51, 52], [10, 11, 13]],
        [[1, 1], [1, 1], [1, 1]],
        half_spread=0.0,
    )
    series = profit(run, SECOND)
    fees = [100 / 1e4, 50 / 1e4, 10 / 1e4]
    assert series.pnl.tolist() == pytest.approx([1 - fees[0], 1 + 1 - fees[1], 1, 1 - fees[2], 2])
    assert series.period.tolist() == [0, 0, 0, 1, 1]
    assert (series.until_ns / SECOND).tolist() == [1, 2, 3, 21, 22]


def test_time_after_an_early_end_counts_with_no_profit() -> None:
    run = backtest([account(steps=5)], [[100, 101, 102]], [[1, 1]])  # the account is gone after two of five steps
    assert profit(run, SECOND).pnl.tolist()[2:] == [0.0, 0.0, 0.0]


def test_wider_bins_keep_the_total() -> None:
    run = random_backtest(steps=601, seed=2)
    assert profit(run, 7 * SECOND).pnl.sum() == pytest.approx(run.decisions["reward"].sum())
    assert len(profit(run, 7 * SECOND).pnl) == 86


def test_clock_counts_the_sessions_of_the_data() -> None:
    run = random_backtest()
    shares = Instrument("SZ", "0.01", sessions=(("09:30", "11:30"), ("13:00", "14:57")))
    told = clock([shares], run.decisions)
    assert told.bins_per_year == 252 * (2 * 3600 + 117 * 60)
    assert "252 days x 14,220 s" in str(told)
    coin = clock(
        [Instrument("BTC", "1")],
        run.decisions.filter(pl.col("step") % 3 == 0).with_columns(until=pl.col("time") + pl.duration(seconds=3)),
    )
    assert coin.bins_per_year == 365 * 86_400 / 3


def test_currencies_are_not_added() -> None:
    assert one_currency([Instrument("A", "1"), Instrument("B", "1")]) == "USD"
    with pytest.raises(ConfigError, match="CNY and USD cannot be added"):
        one_currency([Instrument("A", "1"), Instrument("B", "1", currency="CNY")])


def test_average_over_seeds_is_none_where_a_seed_has_none() -> None:
    first = measure(random_backtest(seed=1), DAILY)
    second = measure(random_backtest(seed=2), DAILY)
    idle = measure(backtest([account()], [[100, 101, 102, 102, 101]], [[0, 0, 0, 0]]), DAILY)
    assert average([first, second]).pnl == pytest.approx((first.pnl + second.pnl) / 2)
    assert average([first, idle]).sharpe is None
