"""What a back-test earned, what it paid, and how rough the way was."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import e, sqrt
from statistics import NormalDist, fmean
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Float64, Int64

from foxhunt.evaluate.record import Backtest
from foxhunt.evaluate.series import Clock, profit


@dataclass(frozen=True)
class Metrics:
    """One back-test in numbers; money in the account's currency, None where a ratio has no meaning."""

    pnl: float
    """Profit after fees: the sum of rewards."""
    gross: float
    """Profit before fees."""
    fees: float
    """Fees paid; negative when rebates prevail."""
    slippage: float
    """Money lost on fills against the mid at their decision; negative when passive fills earned the spread."""
    market_move: float
    """Profit that positions would have made at mid prices: pnl = market_move - slippage - fees."""
    return_on_capital: float
    """pnl over the initial cash of one account for each instrument."""
    sharpe: float | None
    """Annual Sharpe ratio: mean over standard deviation (ddof 1) of the profit of a bin, times the clock's factor."""
    sortino: float | None
    """The same with the root mean square of losses alone in the denominator."""
    probabilistic_sharpe: float | None
    """Chance that the true Sharpe ratio is above 0."""
    drawdown: float
    """Largest fall of equity from an earlier peak, money."""
    drawdown_share: float
    """The same as a share of that peak."""
    traded: float
    """Notional of all fills."""
    turnover: float
    """traded over capital."""
    hit_rate: float | None
    """Share of round trips that ended with a profit after fees."""
    round_trips: float
    """Stretches of holding one side; a flip ends one and starts the next."""
    time_in_market: float
    """Share of decisions after which a position was held."""
    fills: float
    """Number of fills."""
    maker_share: float | None
    """Share of traded notional that was filled passively."""


def measure(backtest: Backtest, clock: Clock) -> Metrics:
    """Compute every metric of one back-test."""
    capital = backtest.capital
    bins = profit(backtest, clock.interval_ns).pnl
    fills = backtest.fills
    pnl, fees = float(backtest.decisions["reward"].sum()), float(fills["fee"].sum())
    slippage, traded = float(fills["slippage"].sum()), float(fills["notional"].sum())
    passive = float(fills.filter(pl.col("liquidity") == "maker")["notional"].sum())
    drawdown, drawdown_share = max_drawdown(capital + np.cumsum(bins), capital)
    trips = round_trips(backtest)
    return Metrics(
        pnl=pnl,
        gross=pnl + fees,
        fees=fees,
        slippage=slippage,
        market_move=pnl + fees + slippage,
        return_on_capital=pnl / capital,
        sharpe=_scaled(sharpe(bins), clock.factor),
        sortino=_scaled(sortino(bins), clock.factor),
        probabilistic_sharpe=probabilistic_sharpe(bins),
        drawdown=drawdown,
        drawdown_share=drawdown_share,
        traded=traded,
        turnover=traded / capital,
        hit_rate=float((trips > 0).mean()) if len(trips) else None,
        round_trips=len(trips),
        time_in_market=float((backtest.decisions["position_lots"].to_numpy() != 0).mean()),
        fills=fills.height,
        maker_share=passive / traded if traded else None,
    )


def average(runs: Sequence[Metrics]) -> Metrics:
    """Mean of each metric over runs that differ by their seed; None where any run has none."""
    values: dict[str, list[Any]] = {field.name: [getattr(run, field.name) for run in runs] for field in fields(Metrics)}
    means: dict[str, Any] = {name: None if None in column else fmean(column) for name, column in values.items()}
    return Metrics(**means)


def sharpe(profit: Float64[np.ndarray, " bins"]) -> float | None:
    """Mean over standard deviation (ddof 1), not annualised; None without at least two bins that differ."""
    if len(profit) < 2 or profit.min() == profit.max():
        return None
    return float(profit.mean() / profit.std(ddof=1))


def sortino(profit: Float64[np.ndarray, " bins"]) -> float | None:
    """Mean over the root mean square of the losses (target 0, all bins counted); None without a loss."""
    downside = sqrt(float(np.mean(np.minimum(profit, 0.0) ** 2))) if len(profit) else 0.0
    return float(profit.mean()) / downside if downside else None


def probabilistic_sharpe(profit: Float64[np.ndarray, " bins"], benchmark: float = 0.0) -> float | None:
    """Chance that the true Sharpe ratio of a bin exceeds `benchmark`.

    Bailey and Lopez de Prado 2014, "The deflated Sharpe ratio", with population skewness and raw kurtosis.
    """
    ratio = sharpe(profit)
    if ratio is None:
        return None
    centred = profit - profit.mean()
    deviation = sqrt(float(np.mean(centred**2)))
    skewness = float(np.mean(centred**3)) / deviation**3
    kurtosis = float(np.mean(centred**4)) / deviation**4
    return sharpe_confidence(ratio, len(profit), skewness, kurtosis, benchmark)


def deflated_sharpe(profit: Float64[np.ndarray, " bins"], trials: int) -> float | None:
    """Chance that the true Sharpe ratio of a bin exceeds the best that `trials` policies without skill would show.

    Bailey and Lopez de Prado 2014. Over trials the Sharpe ratio is taken to vary as that of profits without skill does
    by chance, with variance 1/(bins - 1).
    """
    if len(profit) < 2:
        return None
    return probabilistic_sharpe(profit, best_by_luck(trials, 1 / (len(profit) - 1)))


def best_by_luck(trials: int, variance: float) -> float:
    """Expected largest Sharpe ratio of so many independent trials around 0 with this variance; 0 for a single one."""
    if trials == 1:
        return 0.0
    quantile = NormalDist().inv_cdf
    return sqrt(variance) * (
        (1 - np.euler_gamma) * quantile(1 - 1 / trials) + np.euler_gamma * quantile(1 - 1 / (trials * e))
    )


def sharpe_confidence(ratio: float, count: int, skewness: float, kurtosis: float, benchmark: float) -> float | None:
    """The formula behind `probabilistic_sharpe`; None where its variance is not positive (wild skew, few bins)."""
    variance = 1 - skewness * ratio + (kurtosis - 1) / 4 * ratio**2
    return NormalDist().cdf((ratio - benchmark) * sqrt((count - 1) / variance)) if variance > 0 else None


def max_drawdown(equity: Float64[np.ndarray, " bins"], start: float) -> tuple[float, float]:
    """Largest fall from an earlier peak, the start included: money, and as a share of the peak it fell from."""
    path = np.concatenate([[start], equity])
    peak = np.maximum.accumulate(path)
    return float((peak - path).max()), float(((peak - path) / peak).max())


def round_trips(backtest: Backtest) -> Float64[np.ndarray, " trips"]:
    """Profit after fees of every stretch of holding one side, the last one even if still open.

    The step that closes a position belongs to it; a step that flips belongs to the new side.
    """
    steps = backtest.decisions
    sides = np.sign(steps["position_lots"].to_numpy())
    before = _before(sides, steps["segment"].to_numpy())
    starts = (sides != 0) & (sides != before)
    trip = np.cumsum(starts) - 1
    counted: Bool[np.ndarray, " steps"] = (sides != 0) | (before != 0)
    rewards = steps["reward"].to_numpy()
    return np.bincount(trip[counted], rewards[counted], minlength=int(starts.sum())).astype(np.float64)


def _before(values: Int64[np.ndarray, " steps"], segment: Int64[np.ndarray, " steps"]) -> Int64[np.ndarray, " steps"]:
    """Each step's value one step earlier, 0 at the start of a segment."""
    shifted = np.concatenate([[0], values[:-1]])
    return np.where(np.diff(segment, prepend=-1) != 0, 0, shifted)


def _scaled(ratio: float | None, factor: float) -> float | None:
    return None if ratio is None else ratio * factor
