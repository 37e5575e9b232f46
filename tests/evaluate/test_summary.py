"""The verdict says what the numbers say, and no more."""

from dataclasses import replace

import numpy as np
import pytest

from foxhunt.evaluate.bootstrap import Interval
from foxhunt.evaluate.metrics import measure
from foxhunt.evaluate.series import Clock
from foxhunt.evaluate.summary import Contender, Row, Summary, comparison, summarise, verdict

from .market import SECOND, account, backtest, random_backtest

CLOCK = Clock(SECOND, 86_400, 365)


def row(
    policy: str, pnl: float, low: float, high: float, *, lead: tuple[float, float] = (0, 0), trips: int = 40
) -> Row:
    metrics = replace(measure(random_backtest(), CLOCK), pnl=pnl, round_trips=trips)
    return Row(policy, "", 1, metrics, Interval(low, high, 5), 0.0, Interval(*lead, 5))


def flat(policy: str = "flat") -> Contender:
    return Contender(policy, (backtest([account(steps=600)], [[100.0] * 601], [[0] * 600], policy=policy),))


def summary() -> Summary:
    random = Contender("random", tuple(random_backtest(seed=seed, policy="random") for seed in (5, 6, 7)))
    return summarise([Contender("agent", (random_backtest(),)), flat(), random], "test", CLOCK)


@pytest.mark.parametrize(
    ("pnl", "low", "high", "earned", "judged"),
    [
        (-12.3, -20.0, -4.0, "lost 12.30 USD", "-20.00 to -4.00 USD: worse than staying flat"),
        (3.0, -4.0, 9.0, "made 3.00 USD", "-4.00 to 9.00 USD: not distinguishable from staying flat"),
        (1234.5, 2.0, 2500.0, "made 1,234.50 USD", "2 to 2,500 USD: better than staying flat"),
    ],
)
def test_verdict_states_profit_interval_and_flat(pnl: float, low: float, high: float, earned: str, judged: str) -> None:
    said = verdict(row("agent", pnl, low, high), "test", "USD")
    assert said == f"The agent {earned} after fees on held-out data; 95 % interval {judged}."


def test_verdict_admits_idleness_few_trades_and_seen_data() -> None:
    idle = row("agent", 0, 0, 0)
    idle = replace(idle, metrics=replace(idle.metrics, fills=0))
    assert verdict(idle, "test", "USD") == "The agent never traded on held-out data: it neither made nor lost money."
    assert "rests on only 1 round trip." in verdict(row("agent", 1, -1, 2, trips=1), "test", "USD")
    assert "rests on only 9 round trips." in verdict(row("agent", 1, -1, 2, trips=9), "test", "USD")
    assert "rests" not in verdict(row("agent", 1, -1, 2, trips=10), "test", "USD")
    for split in ("train", "validate"):
        assert "no held-out result" in verdict(row("agent", 1, -1, 2), split, "USD")


def test_comparison_sorts_baselines_by_the_paired_interval() -> None:
    rows = [
        row("flat", 0, 0, 0, lead=(1, 2)),
        row("buy and hold", 0, 0, 0, lead=(-3, -1)),
        row("random", 0, 0, 0, lead=(1, 4)),
        row("OFI rule", 0, 0, 0, lead=(-1, 1)),
    ]
    assert comparison(rows) == (
        "It did better than random trading, cannot be told apart from the OFI rule and did worse than buy and hold."
    )
    assert comparison(rows[:1]) == ""


def test_summary_compares_pairwise_on_one_clock() -> None:
    result = summary()
    agent, idle, random = result.rows
    assert idle.metrics.pnl == 0
    assert (idle.interval.low, idle.interval.high) == (0, 0)
    assert idle.difference == pytest.approx(agent.metrics.pnl)
    assert (idle.difference_interval.low, idle.difference_interval.high) == (agent.interval.low, agent.interval.high)
    runs = [random_backtest(seed=seed) for seed in (5, 6, 7)]
    assert random.seeds == 3
    assert random.metrics.pnl == pytest.approx(np.mean([run.decisions["reward"].sum() for run in runs]))
    assert random.difference == pytest.approx(agent.metrics.pnl - random.metrics.pnl)
    assert agent.difference == agent.difference_interval.low == agent.difference_interval.high == 0


def test_paired_interval_is_narrower_than_unpaired_for_like_policies() -> None:
    """A policy that copies the agent but for a little differs from it with more certainty than either's profit has."""
    copy = random_backtest(policy="copy")
    changed = copy.decisions["reward"].to_numpy().copy()
    changed += 0.01
    copy = replace(copy, decisions=copy.decisions.with_columns(reward=changed))
    result = summarise([Contender("agent", (random_backtest(),)), Contender("copy", (copy,))], "test", CLOCK)
    lead = result.rows[1].difference_interval
    assert (lead.low, lead.high) == pytest.approx((-6.0, -6.0))


def test_summary_is_json_ready_and_tells_how_intervals_were_made() -> None:
    record = summary().to_json()
    assert record["rows"][0]["policy"] == "agent"
    assert record["clock"]["factor"] == pytest.approx(np.sqrt(365 * 86_400))
    assert record["intervals"]["level"] == 0.95
