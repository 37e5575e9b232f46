"""How far a total profit could have come out otherwise: circular block bootstrap over an even profit series.

Blocks keep short-run dependence (Politis and Romano 1992). Their length is twice that of the automatic rule of Politis
and White 2004, corrected by Patton, Politis and White 2009: that rule balances bias against variance, where an interval
suffers from bias alone. What few blocks leave out is put back by Student's t.
"""

from dataclasses import dataclass
from math import ceil, log10, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np
from jaxtyping import Float64, Int64

DRAWS: Final = 4_000
LEVEL: Final = 0.95
_CHUNK: Final = 8_000_000  # indices drawn at a time: bounds memory on long series


@dataclass(frozen=True)
class Interval:
    """A percentile interval of a total."""

    low: float
    high: float
    block: int
    """Bins in a block."""

    @property
    def sign(self) -> int:
        """1 when the whole interval is above zero, -1 when it is below, 0 when zero lies in it."""
        return int(self.low > 0) - int(self.high < 0)


def block_length(series: Float64[np.ndarray, " bins"]) -> int:
    """Bins in a block for the circular bootstrap of a total.

    Twice the optimal length for the variance of the mean, (2 G^2 / D)^(1/3) n^(1/3) with D = 4/3 g(0)^2, where g(0) and
    G are estimated with a flat-top lag window; kept between n^(1/3) and min(3 sqrt(n), n/3), all times two but the
    last, so that three blocks fit.
    """
    count = len(series)
    optimal = min(max(_optimal_length(series), count ** (1 / 3)), 3 * sqrt(count))
    return int(max(1, min(ceil(2 * optimal), count // 3)))


def total_interval(
    pnl: Float64[np.ndarray, " bins"],
    period: Int64[np.ndarray, " bins"],
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Interval of the total of `pnl` over as much time as it covers.

    Blocks are drawn from every period, wrap around inside their own period and never join two. The percentiles'
    distances from the total are widened by t/z on n/block - 1 degrees of freedom, and by 1/sqrt(1 - block/n) for the
    mean being estimated from the same series.
    """
    count, block = len(pnl), block_length(pnl)
    blocks = ceil(count / block)
    whole = _block_sums(pnl, period, block)
    rest = _block_sums(pnl, period, count - (blocks - 1) * block)
    generator = np.random.default_rng(seed)
    totals = np.empty(draws)
    chunk = max(1, _CHUNK // blocks)
    for start in range(0, draws, chunk):
        drawn = generator.integers(count, size=(min(chunk, draws - start), blocks))
        totals[start : start + chunk] = whole[drawn[:, 1:]].sum(axis=1) + rest[drawn[:, 0]]
    total, tail = float(pnl.sum()), (1 + level) / 2
    student = _student(tail, max(2.0, count / block - 1))
    widening = student / NormalDist().inv_cdf(tail) / sqrt(max(0.5, 1 - block / count))
    low, high = total + widening * (np.quantile(totals, [1 - tail, tail]) - total)
    return Interval(float(low), float(high), block)


def _optimal_length(series: Float64[np.ndarray, " bins"]) -> float:
    """Length that estimates the variance of the mean with the least mean squared error; 0 where nothing correlates.

    The lag window reaches twice past the lag after which five or more autocorrelations in a row (more on very long
    series) are insignificant.
    """
    count = len(series)
    centred = series - series.mean()
    run = max(5, ceil(sqrt(log10(count))))
    reach = min(ceil(sqrt(count)) + run, count - 1)
    covariance = _autocovariance(centred, reach)
    if covariance[0] == 0:
        return 0.0
    window = min(2 * _last_significant(covariance[1:] / covariance[0], run, count), reach)
    lags = np.arange(1, window + 1)
    weighted = np.clip(2 * (1 - lags / max(window, 1)), 0, 1) * covariance[1 : window + 1]
    spectrum = float(covariance[0] + 2 * weighted.sum())  # g(0), the long-run variance
    bend = 2 * float((lags * weighted).sum())  # G
    return float((1.5 * bend**2 / spectrum**2 * count) ** (1 / 3)) if spectrum > 0 else 0.0


def _student(tail: float, degrees: float) -> float:
    """Quantile of Student's t (Abramowitz and Stegun 26.7.5)."""
    z = NormalDist().inv_cdf(tail)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


def _autocovariance(centred: Float64[np.ndarray, " bins"], reach: int) -> Float64[np.ndarray, " lags"]:
    """Autocovariances at lags 0 to `reach`, divided by n."""
    count = len(centred)
    return np.array([float(centred[: count - lag] @ centred[lag:]) / count for lag in range(reach + 1)])


def _last_significant(correlation: Float64[np.ndarray, " lags"], run: int, count: int) -> int:
    """The lag after which `run` correlations in a row stay inside the band; the last one outside it when none do."""
    outside = np.abs(correlation) >= 2 * sqrt(log10(count) / count)
    for lag in range(len(outside) - run + 1):
        if not outside[lag : lag + run].any():
            return lag
    significant = np.flatnonzero(outside)
    return int(significant[-1]) + 1 if len(significant) else 0


def _block_sums(
    pnl: Float64[np.ndarray, " bins"], period: Int64[np.ndarray, " bins"], block: int
) -> Float64[np.ndarray, " bins"]:
    """Sum of the `block` values from each bin on, circular inside the bin's period."""
    sums = []
    for values in np.split(pnl, np.flatnonzero(np.diff(period)) + 1):
        rounds, rest = divmod(block, len(values))
        running = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values]))])
        sums.append(rounds * values.sum() + running[rest : rest + len(values)] - running[: len(values)])
    return np.concatenate(sums)
