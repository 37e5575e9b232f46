"""Figures of what the agent's heads say: calibration, risk used, plans, the internal state vector."""

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from foxhunt.evaluate.charts import AGENT_COLOUR, COLOURS, account_gaps, add_line, decimate, skip_gaps, style
from foxhunt.evaluate.format import percent
from foxhunt.evaluate.heads import BINS, ENDS, Calibration, PlanOutcome, risk_shares
from foxhunt.evaluate.record import Backtest
from foxhunt.nn.isv import Slot

TRACE_COLUMNS: Final = 4

SLOT_NAMES: Final = {
    Slot.H_RMS: "RMS of h",
    Slot.VALUE_RMS: "RMS of direction values",
    Slot.TD_ERROR: "|TD error|",
    Slot.TD_TREND: "TD error, fast / slow",
    Slot.GRADIENT_NORM: "log gradient norm",
    Slot.TARGET_DRIFT: "online - target",
    Slot.ENSEMBLE_SPREAD: "ensemble spread",
    Slot.ENTROPY: "entropy / log(atoms)",
    Slot.REWARD_VOLATILITY: "reward volatility",
    Slot.VOLATILITY_RATIO: "volatility ratio",
    Slot.STABILITY: "regime stability",
    Slot.HEALTH: "learning health",
}
"""Slots of the internal state vector, for people."""


def calibration_figure(calibration: Calibration, forecast: str, outcome: str) -> go.Figure:
    """Mean outcome over mean forecast of every bin beside the diagonal; below it how many samples each bin holds."""
    edges = np.linspace(0, 1, BINS + 1)
    shown = [k for k, count in enumerate(calibration.count) if count]
    counts = [calibration.count[k] for k in shown]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.74, 0.26], vertical_spacing=0.05)
    figure.add_scatter(
        x=[0, 1], y=[0, 1], name="perfectly calibrated", mode="lines",
        line={"color": "#8a8f98", "width": 1, "dash": "dot"}, hoverinfo="skip", row=1, col=1,
    )  # fmt: skip
    figure.add_scatter(
        x=[calibration.forecast[k] for k in shown],
        y=[calibration.outcome[k] for k in shown],
        customdata=counts,
        name="realised",
        mode="lines+markers",
        line={"color": AGENT_COLOUR, "width": 1.6},
        marker={"size": 8},
        hovertemplate="forecast %{x:.3f}, realised %{y:.3f}, %{customdata:,} decisions<extra></extra>",
        row=1,
        col=1,
    )
    figure.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=list(calibration.count),
        width=0.9 / BINS,
        marker={"color": COLOURS[0]},
        showlegend=False,
        hovertemplate="%{y:,} decisions<extra></extra>",
        row=2,
        col=1,
    )
    style(figure, 400, hovermode="closest")
    figure.update_xaxes(range=[-0.02, 1.02], showticklabels=True, row=1, col=1)
    figure.update_xaxes(range=[-0.02, 1.02], title=forecast, row=2, col=1)
    figure.update_yaxes(range=[-0.03, 1.03], title=outcome, row=1, col=1)
    figure.update_yaxes(title="decisions", tickformat=",", row=2, col=1)
    return figure


def risk_figure(backtest: Backtest, symbol: str) -> go.Figure:
    """Risk budget over time, and below it what of the cap was allowed and held."""
    steps = backtest.decisions.filter(symbol=symbol)
    shares = pl.concat([steps.select("segment", "time", "until"), risk_shares(steps)], how="horizontal")
    accounts = [account for account in backtest.accounts if account.symbol == symbol]
    timezone = accounts[0].timezone
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.45, 0.55], vertical_spacing=0.07)
    add_line(figure, shares, "time", "budget", timezone, row=1, colour=COLOURS[2], name="risk budget")
    add_line(figure, shares, "time", "allowed", timezone, row=2, colour=COLOURS[1], shape="hv", name="allowed")
    add_line(figure, shares, "until", "used", timezone, row=2, shape="hv", fill="tozeroy", name="held")
    style(figure, 400)
    figure.update_yaxes(title="risk budget", range=[0, 1.03], tickformat=".0%", row=1, col=1)
    figure.update_yaxes(title="share of cap", range=[0, 1.03], tickformat=".0%", row=2, col=1)
    skip_gaps(figure, account_gaps(accounts), timezone)
    return figure


def plan_figure(plan: PlanOutcome) -> go.Figure:
    """Shares that the forecast quantiles promise beside those that came out."""
    labels = ["target reached", "stop reached", "best moment within the plan's horizon"]
    figure = go.Figure()
    for name, shares, colour in (("promised", plan.promised, COLOURS[0]), ("came out", plan.kept, AGENT_COLOUR)):
        values = [shares[end] for end in ENDS]
        figure.add_bar(
            x=labels, y=values, name=name, marker={"color": colour},
            text=[percent(value) for value in values], textposition="outside", cliponaxis=False, hoverinfo="skip",
        )  # fmt: skip
    style(figure, 320, barmode="group", bargap=0.35)
    figure.update_yaxes(title="share of plans", range=[0, 1.05], tickformat=".0%")
    return figure


def training_figure(slots: pl.DataFrame) -> go.Figure:
    """The twelve slots of the internal state vector over training, each on an axis of its own."""
    rows = -(-len(Slot) // TRACE_COLUMNS)
    titles = [SLOT_NAMES[slot] for slot in Slot]
    figure = make_subplots(
        rows=rows, cols=TRACE_COLUMNS, shared_xaxes=True, subplot_titles=titles,
        vertical_spacing=0.09, horizontal_spacing=0.055,
    )  # fmt: skip
    for slot in Slot:
        values = slots[slot.name.lower()].to_numpy()
        kept = decimate(values)
        place: dict[str, Any] = {"row": slot // TRACE_COLUMNS + 1, "col": slot % TRACE_COLUMNS + 1}
        figure.add_scatter(
            x=slots["step"].to_numpy()[kept], y=values[kept], mode="lines", showlegend=False,
            line={"color": AGENT_COLOUR, "width": 1.4}, name=SLOT_NAMES[slot],
            hovertemplate="step %{x:,}: %{y:.4g}<extra></extra>", **place,
        )  # fmt: skip
    style(figure, 520, hovermode="closest", margin={"l": 50, "t": 30})
    figure.update_annotations(font_size=13)
    figure.update_xaxes(tickformat="~s", nticks=5)
    figure.update_xaxes(title="training step", row=rows)
    figure.update_yaxes(nticks=5, tickformat="~g")
    return figure


def regime_figure(backtest: Backtest, symbol: str) -> go.Figure:
    """The two slots that each environment measures itself, over the back-test."""
    steps = backtest.decisions.filter(symbol=symbol)
    accounts = [account for account in backtest.accounts if account.symbol == symbol]
    timezone = accounts[0].timezone
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.07)
    add_line(figure, steps, "time", "volatility_ratio", timezone, row=1)
    add_line(figure, steps, "time", "stability", timezone, row=2)
    style(figure, 320)
    figure.update_yaxes(title="volatility ratio", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title="stability", range=[0, 1.03], row=2, col=1)
    skip_gaps(figure, account_gaps(accounts), timezone)
    return figure
