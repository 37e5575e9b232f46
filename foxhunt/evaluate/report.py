"""The report: one self-contained HTML page that a reader can judge an agent by."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import polars as pl

from foxhunt.evaluate import charts, head_page, page
from foxhunt.evaluate.format import money, number, percent, span, time_span, typeset
from foxhunt.evaluate.record import Backtest
from foxhunt.evaluate.series import Profit
from foxhunt.evaluate.summary import AGENT, Row, Summary

PRICE_CHARTS: Final = 6
"""Instruments whose fills are drawn, those with the most traded notional first."""

_RELATION: Final = {1: "better", 0: "unclear", -1: "worse"}


@dataclass(frozen=True)
class Context:
    """Where a back-test comes from: what the report's last section tells."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """Names and values, for people: data, ranges, fees, seeds, versions."""
    config: dict[str, Any]
    """The run's whole configuration."""
    reproduce: str
    """Command that makes this report again."""

    def to_json(self) -> dict[str, Any]:
        """What summary.json holds of it."""
        return {"facts": dict(self.facts), "config": self.config, "reproduce": self.reproduce}


def render(
    summary: Summary,
    agent: Backtest,
    profits: Sequence[tuple[str, Profit]],
    context: Context,
    slots: pl.DataFrame,
) -> str:
    """The page, as text.

    Args:
        summary: every number the page states.
        agent: the agent's tables, for fills and actions.
        profits: profit series of every policy, the agent's first.
        context: data and settings.
        slots: the internal state vector over training, as `traces.training_slots` reads it.
    """
    symbols = _by_trading(agent)
    timezones = {account.timezone for account in agent.accounts}
    timezone = timezones.pop() if len(timezones) == 1 else "UTC"
    parts = [
        _head(summary, context, agent),
        _results(summary),
        _activity(summary),
        page.section(
            "Equity and drawdown",
            "Profit after fees since the start; time without trading is left out of the axis. "
            "Drag to zoom, double-click to zoom out, click a name to hide its line.",
            page.chart(charts.equity_figure(profits, summary.currency, timezone), "equity"),
        ),
        *_fills(agent, symbols),
        page.section(
            "Where the agent's profit comes from",
            "The move of the mid is what its positions would have earned at mid prices. Slippage is what fills cost "
            "against the mid at the decision; passive fills that earn the spread count as a gain.",
            page.chart(charts.decomposition_figure(summary.rows[0], summary.currency), "decomposition"),
        ),
        page.section(
            "What the agent decides",
            "Share of decisions that took each action, branch by branch.",
            page.chart(charts.actions_figure(agent), "actions"),
        ),
        *head_page.sections(summary, agent, symbols[0], slots),
        *_settings(summary, context),
    ]
    return page.page(context.title, parts)


def _head(summary: Summary, context: Context, agent: Backtest) -> str:
    symbols = sorted({account.symbol for account in agent.accounts})
    shown = ", ".join(symbols[:8]) + (f" and {len(symbols) - 8} more" if len(symbols) > 8 else "")
    capital = f"{money(summary.capital)} {summary.currency} capital"
    accounts = agent.accounts
    span = time_span(min(a.start_ns for a in accounts), max(a.stop_ns for a in accounts), accounts[0].timezone)
    lines = [
        f"<h1>{escape(context.title)}</h1>",
        f'<p class="meta">{escape(f"{shown} · {summary.split} split: {span} · {capital}")}</p>',
        f'<div class="verdict"><p>{escape(typeset(summary.verdict))}</p>',
        f"<p>{escape(summary.comparison)}</p></div>",
    ]
    if summary.collapses:
        lines.append(f'<div class="collapse"><b>Collapsed policy:</b> {escape("; ".join(summary.collapses))}.</div>')
    return "\n".join(lines)


def _results(summary: Summary) -> str:
    currency = summary.currency
    head = [
        "policy",
        f"profit, {currency}",
        "95 % interval",
        f"agent's lead, {currency}",
        "95 % interval",
        "agent is",
        "how",
    ]
    return page.section(
        "Result",
        "Profit after fees with its 95 % interval; the paired interval says whether the agent's lead over a policy "
        "could be chance (unclear: the interval holds 0). Each interval stands alone.",
        page.table(head, [_result_row(row) for row in summary.rows], text=(5, 6)),
        page.chart(charts.interval_figure(summary), "intervals"),
    )


def _activity(summary: Summary) -> str:
    head = [
        "policy", f"gross, {summary.currency}", "fees", "slippage", "turnover", "Sharpe", "Sortino", "P(Sharpe > 0)",
        "max drawdown", "hit rate", "round trips", "time in market", "fills", "passive",
    ]  # fmt: skip
    return page.section(
        "Cost, risk and activity",
        f"Sharpe and Sortino ratios are annual, times {summary.clock}: on a short test they swing wildly, so read "
        "them with P(Sharpe > 0). The hit rate is the share of round trips that ended with a profit.",
        page.table(head, [_activity_row(row) for row in summary.rows]),
    )


def _result_row(row: Row) -> list[str]:
    own = [row.policy, money(row.metrics.pnl), span(row.interval.low, row.interval.high)]
    if row.policy == AGENT:
        return [*own, "", "", "", row.note]
    lead = row.difference_interval
    return [*own, money(row.difference), span(lead.low, lead.high), _RELATION[lead.sign], row.note]


def _activity_row(row: Row) -> list[str]:
    metrics = row.metrics
    return [
        row.policy,
        money(metrics.gross),
        money(metrics.fees),
        money(metrics.slippage),
        number(metrics.turnover),
        number(metrics.sharpe),
        number(metrics.sortino),
        percent(metrics.probabilistic_sharpe),
        f"{money(metrics.drawdown)} ({percent(metrics.drawdown_share)})",
        percent(metrics.hit_rate),
        number(metrics.round_trips, 1),
        percent(metrics.time_in_market),
        number(metrics.fills, 1),
        percent(metrics.maker_share),
    ]


def _by_trading(agent: Backtest) -> list[str]:
    """Instruments, those with the most traded notional first."""
    traded: dict[str, float] = dict(agent.fills.group_by("symbol").agg(pl.col("notional").sum()).iter_rows())
    return sorted({account.symbol for account in agent.accounts}, key=lambda s: (-traded.get(s, 0.0), s))


def _fills(agent: Backtest, symbols: Sequence[str]) -> list[str]:
    parts = []
    for place, symbol in enumerate(symbols[:PRICE_CHARTS]):
        figure, joined = charts.fills_figure(agent, symbol)
        note = "Full markers took liquidity, open ones were filled passively, each at the end of its step."
        if joined > 1:
            note += f" Markers join up to {joined} fills; the ledger holds every one."
        parts.append(page.section(f"Fills over price: {symbol}", note, page.chart(figure, f"fills-{place}")))
    if len(symbols) > PRICE_CHARTS:
        parts.append(f'<p class="note">{len(symbols) - PRICE_CHARTS} instruments with less trading are not drawn.</p>')
    return parts


def _trials(summary: Summary) -> str:
    if summary.trials == 1:
        return "1: this agent is taken for the only one tried; --trials says otherwise"
    return (
        f"{summary.trials}: the true Sharpe ratio exceeds what the best of {summary.trials} without skill would show "
        f"with a chance of {percent(summary.deflated_sharpe)} (deflated Sharpe ratio)"
    )


def _settings(summary: Summary, context: Context) -> list[str]:
    config = json.dumps(context.config, indent=2)
    block = summary.rows[0].interval.block
    facts = page.facts(
        [
            *context.facts,
            ("annual factor", str(summary.clock)),
            ("trials", _trials(summary)),
            (
                "intervals",
                "95 %, circular block bootstrap of profit a step inside uninterrupted periods; blocks of "
                f"{block} steps for the agent",
            ),
        ]
    )
    return [
        page.section("Data and settings", "", facts),
        f"<details><summary>whole configuration</summary><pre>{escape(config)}</pre></details>",
        page.section("Make this report again", "", f"<pre>{escape(context.reproduce)}</pre>"),
    ]
