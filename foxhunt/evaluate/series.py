"""From the steps of many accounts to one profit series on an even clock, and what that clock is worth a year."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import sqrt
from typing import Final

import numpy as np
import polars as pl
from jaxtyping import Float64, Int64

from foxhunt.data.schema import Instrument
from foxhunt.errors import ConfigError
from foxhunt.evaluate.record import Account, Backtest

DAY_SECONDS: Final = 86_400
SESSION_DAYS: Final = 252
"""Trading days a year of a market that has sessions; one without trades on all 365."""


@dataclass(frozen=True)
class Clock:
    """The even clock that profit is counted on."""

    interval_ns: int
    day_seconds: float
    """Seconds of trading a day."""
    days: int
    """Days of trading a year."""

    @property
    def bins_per_year(self) -> float:
        """Bins in a year of trading."""
        return self.days * self.day_seconds * 1e9 / self.interval_ns

    @property
    def factor(self) -> float:
        """What the Sharpe ratio of one bin is multiplied by to make it annual."""
        return sqrt(self.bins_per_year)

    def __str__(self) -> str:
        return (
            f"sqrt({self.days} days x {self.day_seconds:,.0f} s of trading / {self.interval_ns / 1e9:g} s) "
            f"= {self.factor:,.1f}"
        )


@dataclass(frozen=True)
class Profit:
    """Profit of all accounts together, after fees, on an even clock.

    A period is a stretch of time that some account lives through without interruption; bins never span two.
    """

    pnl: Float64[np.ndarray, " bins"]
    """Money."""
    period: Int64[np.ndarray, " bins"]
    """Number of the period each bin belongs to, from 0."""
    until_ns: Int64[np.ndarray, " bins"]
    """End of each bin."""


def clock(instruments: Sequence[Instrument], steps: pl.DataFrame) -> Clock:
    """The clock of a back-test: the median decision interval, and the trading time that the instruments' sessions tell.

    Decisions may be uneven: some clocks count events, and none decides again before the last order could fill.
    """
    return Clock(
        interval_ns=_median_interval(steps),
        day_seconds=max(_session_seconds(instrument) for instrument in instruments),
        days=SESSION_DAYS if any(instrument.sessions for instrument in instruments) else 365,
    )


def profit(backtest: Backtest, interval_ns: int) -> Profit:
    """Sum the rewards of all accounts in even bins; time after an account's early end counts with profit 0."""
    starts, sizes = _periods(backtest.accounts, interval_ns)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    until = backtest.decisions["until"].to_physical().to_numpy()
    period = np.searchsorted(starts, until, side="left") - 1
    inside = np.minimum((until - starts[period] - 1) // interval_ns, sizes[period] - 1)
    pnl = np.bincount(offsets[period] + inside, backtest.decisions["reward"].to_numpy(), minlength=int(offsets[-1]))
    labels = np.repeat(np.arange(len(starts)), sizes)
    until_ns = starts[labels] + (np.arange(int(offsets[-1])) - offsets[labels] + 1) * interval_ns
    return Profit(pnl.astype(np.float64), labels.astype(np.int64), until_ns.astype(np.int64))


def one_currency(instruments: Sequence[Instrument]) -> str:
    """The currency that all instruments trade in; raises `ConfigError` when there are several."""
    currencies = sorted({instrument.currency for instrument in instruments})
    if len(currencies) > 1:
        raise ConfigError(
            f"profit in {' and '.join(currencies)} cannot be added; back-test the instruments of one currency at a time"
        )
    return currencies[0]


def _periods(
    accounts: Sequence[Account], interval_ns: int
) -> tuple[Int64[np.ndarray, " periods"], Int64[np.ndarray, " periods"]]:
    """Start (ns) and number of bins of each union of accounts that overlap in time."""
    merged: list[list[int]] = []
    for start, stop in sorted((account.start_ns, account.stop_ns) for account in accounts):
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], stop)
        else:
            merged.append([start, stop])
    bounds = np.array(merged, dtype=np.int64)
    sizes = np.maximum(1, -((bounds[:, 0] - bounds[:, 1]) // interval_ns))
    return bounds[:, 0], sizes


def _median_interval(steps: pl.DataFrame) -> int:
    length = (steps["until"] - steps["time"]).dt.total_nanoseconds().median()
    assert isinstance(length, int | float)
    return max(1, round(length))


def _session_seconds(instrument: Instrument) -> float:
    if not instrument.sessions:
        return DAY_SECONDS
    return sum(
        (datetime.fromisoformat(f"1970-01-01T{stop}") - datetime.fromisoformat(f"1970-01-01T{start}")).total_seconds()
        % DAY_SECONDS
        for start, stop in instrument.sessions
    )
