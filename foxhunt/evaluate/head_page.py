"""The report's sections on the agent's heads: what they forecast, what came of it, what each is worth."""

import polars as pl

from foxhunt.evaluate import head_charts, page
from foxhunt.evaluate.format import money, number, percent, span
from foxhunt.evaluate.heads import ENDS, Calibration, PlanOutcome, RiskUse
from foxhunt.evaluate.record import Backtest
from foxhunt.evaluate.summary import AGENT, Row, Summary


def sections(summary: Summary, agent: Backtest, symbol: str, slots: pl.DataFrame) -> list[str]:
    """Every section that the network's heads give reason for.

    Args:
        summary: judged heads and variations.
        agent: the agent's tables.
        symbol: instrument that is drawn over time.
        slots: `traces.training_slots` of the run.
    """
    heads, parts = summary.heads, []
    if summary.variations:
        parts.append(_variations(summary))
    if heads and heads.confidence:
        parts.append(_confidence(heads.confidence))
    if heads and heads.selectivity:
        parts.append(_selectivity(heads.selectivity))
    if heads and heads.risk:
        parts.append(_risk(heads.risk, agent, symbol))
    if heads and heads.plan:
        parts.append(_plan(heads.plan))
    if heads and heads.unjudged:
        words = " and ".join(heads.unjudged)
        parts.append(f'<p class="note">Nothing to judge {words} by: no decision wanted a position early enough.</p>')
    return parts + _traces(agent, symbol, slots)


def _variations(summary: Summary) -> str:
    head = [
        "policy", f"profit, {summary.currency}", "95 % interval", f"agent's lead, {summary.currency}", "95 % interval",
        "fees", "turnover", "time in market",
    ]  # fmt: skip
    rows = [_variation_row(row) for row in (summary.rows[0], *summary.variations)]
    return page.section(
        "With and without each head",
        "The same network on the same data with one way of acting switched: a head that acts is switched off, one that "
        "the network merely has is switched on. The lead is the agent's profit less the variation's, with its paired "
        "interval; nothing was chosen by this table.",
        page.table(head, rows),
    )


def _variation_row(row: Row) -> list[str]:
    metrics, lead = row.metrics, row.difference_interval
    itself = row.policy == AGENT
    return [
        row.policy,
        money(metrics.pnl),
        span(row.interval.low, row.interval.high),
        "" if itself else money(row.difference),
        "" if itself else span(lead.low, lead.high),
        money(metrics.fees),
        number(metrics.turnover),
        percent(metrics.time_in_market),
    ]


def _confidence(calibration: Calibration) -> str:
    return page.section(
        "Confidence: forecast and realised error",
        f"{_calibrated(calibration)} The head forecasts the relative TD error, |error| / (|error| + usual error), one "
        "half at the usual error of training. The realised error is that of the chosen actions' values against the "
        "discounted rewards of the next steps and the network's own best value after them.",
        page.chart(
            head_charts.calibration_figure(calibration, "forecast relative error", "realised relative error"),
            "confidence",
        ),
    )


def _selectivity(calibration: Calibration) -> str:
    return page.section(
        "Selectivity: does a trade pay for its costs?",
        f"{_calibrated(calibration)} The outcome is 1 where the full cap in the direction that the values wanted, "
        "entered at the mid and marked after the plan's horizon, earned more than spread and taker fees. Decisions "
        "that wanted no position are left out.",
        page.chart(
            head_charts.calibration_figure(calibration, "forecast chance of paying", "share that paid"), "selectivity"
        ),
    )


def _calibrated(calibration: Calibration) -> str:
    return (
        f"Expected calibration error {calibration.error:.3f} over {calibration.samples:,} decisions (15 equal bins): "
        f"mean forecast {calibration.mean_forecast:.3f}, mean outcome {calibration.mean_outcome:.3f}."
    )


def _risk(risk: RiskUse, agent: Backtest, symbol: str) -> str:
    return page.section(
        f"Risk used over time: {symbol}",
        f"On average the risk budget was {percent(risk.budget)} of the cap, {percent(risk.allowed)} was allowed (all "
        f"of it unless the budget acts) and {percent(risk.used)} was held.",
        page.chart(head_charts.risk_figure(agent, symbol), "risk"),
    )


def _plan(plan: PlanOutcome) -> str:
    head = ["what came first", *ENDS]
    rows = [[f"share of {plan.plans:,} plans", *(percent(plan.ended[end]) for end in ENDS)]]
    ran = sum(plan.exits.values()) > 0
    if ran:
        rows.append(["positions closed by brackets", *(number(plan.exits[end]) for end in ENDS)])
    note = "" if ran else " No bracket closed a position in this back-test."
    return page.section(
        "Trade plans",
        "Plans of all decisions that wanted a position, followed at mid prices of later decisions. The forecast "
        "quantiles promise how often target and stop are reached while a trade is judged, and how often its best "
        f"moment comes within the plan's own horizon.{note}",
        page.chart(head_charts.plan_figure(plan), "plan"),
        page.table(head, rows),
    )


def _traces(agent: Backtest, symbol: str, slots: pl.DataFrame) -> list[str]:
    parts = []
    if slots.height:
        parts.append(
            page.section(
                "Internal state during training",
                "Twelve measured slots, moving averages over updates; volatility ratio and stability are means over "
                "the training environments of the moment. Drawn up to the checkpoint judged here.",
                page.chart(head_charts.training_figure(slots), "internal-state"),
            )
        )
    if agent.decisions["stability"].null_count() < agent.decisions.height:
        parts.append(
            page.section(
                f"Regime during the back-test: {symbol}",
                "The two slots that each environment measures itself; the other ten stand still after training.",
                page.chart(head_charts.regime_figure(agent, symbol), "regime"),
            )
        )
    return parts
