"""The verdict: every policy's numbers, how sure they are, and one honest sentence."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from foxhunt.evaluate.bootstrap import DRAWS, LEVEL, Interval, total_interval
from foxhunt.evaluate.collapse import collapses
from foxhunt.evaluate.format import money, span
from foxhunt.evaluate.heads import HeadReport
from foxhunt.evaluate.metrics import Metrics, average, deflated_sharpe, measure
from foxhunt.evaluate.record import Backtest
from foxhunt.evaluate.series import Clock, Profit, profit

AGENT: Final = "agent"
FLAT: Final = "flat"

SPLITS: Final = {
    "test": "held-out data",
    "validate": "validation data (which chose the checkpoint, so this is no held-out result)",
    "train": "the data it was trained on (so this is no held-out result)",
}
"""Split -> what a verdict on it is about."""

IN_PROSE: Final = {"random": "random trading", "OFI rule": "the OFI rule"}
"""Names of policies that read badly in a sentence."""

FEW_TRIPS: Final = 10
"""Under so many round trips the verdict says that it rests on few."""


@dataclass(frozen=True)
class Contender:
    """One policy's runs: one, or one for each seed."""

    name: str
    runs: tuple[Backtest, ...]
    note: str = ""
    """How the policy was made or fitted."""


@dataclass(frozen=True)
class Row:
    """One policy in the result table; means over its runs."""

    policy: str
    note: str
    seeds: int
    metrics: Metrics
    interval: Interval
    """Interval of the profit after fees."""
    difference: float
    """The agent's profit after fees less this policy's."""
    difference_interval: Interval
    """Paired interval of the difference: both profits on the same clock, resampled together."""


@dataclass(frozen=True)
class Summary:
    """What summary.json holds."""

    split: str
    currency: str
    capital: float
    clock: Clock
    rows: tuple[Row, ...]
    """The agent first."""
    collapses: tuple[str, ...]
    verdict: str
    comparison: str
    variations: tuple[Row, ...] = ()
    """The agent with one acting head switched each."""
    trials: int = 1
    """Agents that were tried on the data."""
    deflated_sharpe: float | None = None
    """Chance that the agent's true Sharpe ratio exceeds what the best of so many without skill would show."""
    heads: HeadReport | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON-ready form."""
        record = asdict(self)
        record["clock"] |= {"factor": self.clock.factor, "text": str(self.clock)}
        record["intervals"] = {
            "level": LEVEL,
            "draws": DRAWS,
            "method": "circular block bootstrap of profit a bin, blocks inside periods, widened by Student's t",
        }
        return record


def summarise(
    contenders: Sequence[Contender],
    split: str,
    clock: Clock,
    seed: int = 0,
    *,
    variations: Sequence[Contender] = (),
    trials: int = 1,
    heads: HeadReport | None = None,
) -> Summary:
    """Measure every contender (the agent comes first) and variation, and compare the agent with each of the others."""
    agent = contenders[0].runs[0]
    reference = mean_profit(contenders[0], clock)
    rows = tuple(_row(contender, reference, clock, seed) for contender in contenders)
    return Summary(
        split=split,
        currency=agent.currency,
        capital=agent.capital,
        clock=clock,
        rows=rows,
        collapses=tuple(collapses(agent)),
        verdict=verdict(rows[0], split, agent.currency),
        comparison=comparison(rows[1:]),
        variations=tuple(_row(variation, reference, clock, seed) for variation in variations),
        trials=trials,
        deflated_sharpe=deflated_sharpe(reference.pnl, trials),
        heads=heads,
    )


def _row(contender: Contender, agent: Profit, clock: Clock, seed: int) -> Row:
    """A contender's row, compared with the agent's profit."""
    own = mean_profit(contender, clock)
    return Row(
        policy=contender.name,
        note=contender.note,
        seeds=len(contender.runs),
        metrics=average([measure(run, clock) for run in contender.runs]),
        interval=total_interval(own.pnl, own.period, seed=seed),
        difference=float((agent.pnl - own.pnl).sum()),
        difference_interval=total_interval(agent.pnl - own.pnl, own.period, seed=seed),
    )


def verdict(agent: Row, split: str, currency: str) -> str:
    """One sentence: what the agent earned, how sure that is, and whether staying flat would have been as good."""
    where, earned = SPLITS[split], agent.metrics.pnl
    if agent.metrics.fills == 0:
        return f"The agent never traded on {where}: it neither made nor lost money."
    what = f"made {money(earned)}" if earned >= 0 else f"lost {money(-earned)}"
    against_flat = {
        1: "better than staying flat",
        0: "not distinguishable from staying flat",
        -1: "worse than staying flat",
    }[agent.interval.sign]
    trips = agent.metrics.round_trips
    few = f"; it rests on only {trips:.0f} round trip{'s' * (trips != 1)}" if trips < FEW_TRIPS else ""
    interval = span(agent.interval.low, agent.interval.high)
    return (
        f"The agent {what} {currency} after fees on {where}; 95 % interval {interval} {currency}: {against_flat}{few}."
    )


def comparison(baselines: Sequence[Row]) -> str:
    """One sentence: which baselines the agent beat, lost to, or cannot be told from; flat is in the verdict itself."""
    parts = []
    for sign, text in ((1, "did better than {}"), (0, "cannot be told apart from {}"), (-1, "did worse than {}")):
        rows = [row for row in baselines if row.policy != FLAT and row.difference_interval.sign == sign]
        if names := [IN_PROSE.get(row.policy, row.policy) for row in rows]:
            parts.append(text.format(_listed(names)))
    return f"It {_listed(parts)}." if parts else ""


def mean_profit(contender: Contender, clock: Clock) -> Profit:
    """Profit series of a contender, averaged over its runs."""
    series = [profit(run, clock.interval_ns) for run in contender.runs]
    return Profit(np.mean([one.pnl for one in series], axis=0), series[0].period, series[0].until_ns)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
