"""The report's figures. Long series keep the extremes of every stretch, so that a peak is never thinned away."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import polars as pl
from jaxtyping import Float64, Int64
from plotly.subplots import make_subplots

from foxhunt.evaluate.format import money, typeset
from foxhunt.evaluate.record import Account, Backtest
from foxhunt.evaluate.series import Profit
from foxhunt.evaluate.summary import Row, Summary

BUCKETS: Final = 700
"""Stretches a long series is cut into; each keeps its first, lowest, highest and last point."""
FILLS_SHOWN: Final = 3_000
"""Fill markers an instrument; more are joined into one marker for each stretch, side and kind."""

GAPS_SKIPPED: Final = 30
"""Gaps taken out of a time axis; very many of them make a chart slow."""

AGENT_COLOUR: Final = "#12355b"
COLOURS: Final = ("#8a8f98", "#c98a1b", "#7a5195", "#2a9d8f", "#b5495b")
BUY, SELL, GAIN, LOSS = "#1f77b4", "#d1495b", "#2a9d8f", "#d1495b"
_TEMPLATE: Final = go.layout.Template(pio.templates["plotly_white"])
_TEMPLATE.layout.update(xaxis_title_font_size=13, yaxis_title_font_size=13, annotationdefaults_font_size=14)
_LAYOUT: Final[dict[str, Any]] = {
    "template": _TEMPLATE,
    "font": {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": "#24292f"},
    "margin": {"l": 80, "r": 16, "t": 8, "b": 40},
    "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    "hovermode": "x unified",
    "separators": ".,",
}


def decimate(values: Float64[np.ndarray, " points"], buckets: int = BUCKETS) -> Int64[np.ndarray, " kept"]:
    """Indices of the first, lowest, highest and last value of every stretch; all of them when there are few."""
    count = len(values)
    if count <= 4 * buckets:
        return np.arange(count)
    kept = []
    for part in np.array_split(np.arange(count), buckets):
        inside = values[part]
        kept.append([part[0], part[inside.argmin()], part[inside.argmax()], part[-1]])
    return np.unique(np.concatenate(kept))


def interval_figure(summary: Summary) -> go.Figure:
    """Profit after fees of every policy with its interval."""
    rows = summary.rows[::-1]
    middle = [row.metrics.pnl for row in rows]
    figure = go.Figure(
        go.Scatter(
            x=middle,
            y=[row.policy for row in rows],
            mode="markers",
            marker={"size": 11, "color": [_policy_colour(len(rows) - 1 - k) for k in range(len(rows))]},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [row.interval.high - row.metrics.pnl for row in rows],
                "arrayminus": [row.metrics.pnl - row.interval.low for row in rows],
                "color": "#8a8f98",
                "thickness": 1.6,
                "width": 6,
            },
            hovertemplate="%{y}: %{x:,.2f}<extra></extra>",
        )
    )
    style(figure, 70 + 40 * len(rows), showlegend=False, hovermode="closest", margin={"l": 130})
    figure.update_xaxes(title=f"profit after fees, {summary.currency}", tickformat=",", zerolinecolor="#24292f")
    return figure


def equity_figure(profits: Sequence[tuple[str, Profit]], currency: str, timezone: str) -> go.Figure:
    """Profit since the start of every policy, and the agent's fall from its peak."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.05)
    for k, (policy, series) in reversed(list(enumerate(profits))):
        path = np.cumsum(series.pnl)
        kept = decimate(path)
        figure.add_scatter(
            x=_local(series.until_ns[kept], timezone),
            y=np.round(path[kept], 6),
            name=policy,
            line={"color": _policy_colour(k), "width": 2.4 if k == 0 else 1.3},
            hovertemplate="%{y:,.2f}",
            row=1,
            col=1,
        )
    agent = profits[0][1]
    path = np.concatenate([[0.0], np.cumsum(agent.pnl)])
    fall = (path - np.maximum.accumulate(path))[1:]
    kept = decimate(fall)
    figure.add_scatter(
        x=_local(agent.until_ns[kept], timezone),
        y=np.round(fall[kept], 6),
        name="agent's drawdown",
        fill="tozeroy",
        line={"color": LOSS, "width": 1},
        fillcolor="rgba(209,73,91,0.25)",
        showlegend=False,
        hovertemplate="%{y:,.2f}",
        row=2,
        col=1,
    )
    style(figure, 460, legend={"traceorder": "reversed"})
    figure.update_yaxes(title=f"profit, {currency}", row=1, col=1)
    figure.update_yaxes(title="drawdown", row=2, col=1)
    figure.update_yaxes(tickformat=",")
    skip_gaps(figure, _gaps(agent), timezone)
    return figure


def fills_figure(backtest: Backtest, symbol: str) -> tuple[go.Figure, int]:
    """Price with every fill, and the position below it; also how many fills one marker stands for at most."""
    steps, fills = backtest.decisions.filter(symbol=symbol), backtest.fills.filter(symbol=symbol)
    accounts = [account for account in backtest.accounts if account.symbol == symbol]
    timezone = accounts[0].timezone
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.72, 0.28], vertical_spacing=0.05)
    add_line(figure, steps, "time", "mid", timezone, row=1, colour="#8a8f98")
    add_line(figure, steps, "until", "position", timezone, row=2, shape="hv", fill="tozeroy")
    markers, joined = _join_fills(fills)
    for side, colour, shape in (("buy", BUY, "triangle-up"), ("sell", SELL, "triangle-down")):
        for liquidity, marker in (("taker", shape), ("maker", f"{shape}-open"), ("liquidation", "x")):
            shown = markers.filter(side=side, liquidity=liquidity)
            if shown.height:
                _add_markers(figure, shown, timezone, f"{liquidity} {side}", colour, marker)
    style(figure, 440, hovermode="closest")
    figure.update_yaxes(title=f"price, {accounts[0].currency}", tickformat=",", row=1, col=1)
    figure.update_yaxes(title="position", tickformat=",", row=2, col=1)
    skip_gaps(figure, account_gaps(accounts), timezone)
    return figure, joined


def decomposition_figure(row: Row, currency: str) -> go.Figure:
    """From the profit of positions at mid prices to the profit after fees."""
    metrics = row.metrics
    steps = [metrics.market_move, -metrics.slippage, metrics.gross, -metrics.fees, metrics.pnl]
    figure = go.Figure(
        go.Waterfall(
            x=["move of the mid", "slippage", "gross profit", "fees", "profit after fees"],
            y=steps,
            measure=["relative", "relative", "total", "relative", "total"],
            text=[typeset(money(value)) for value in steps],
            textposition="outside",
            cliponaxis=False,
            increasing={"marker": {"color": GAIN}},
            decreasing={"marker": {"color": LOSS}},
            totals={"marker": {"color": AGENT_COLOUR}},
            connector={"line": {"color": "#d0d7de", "width": 1}},
            hoverinfo="skip",
        )
    )
    style(figure, 320, showlegend=False, margin={"t": 28})
    figure.update_yaxes(title=currency, tickformat=",")
    return figure


def actions_figure(backtest: Backtest) -> go.Figure:
    """Share of decisions that took each action, a panel a branch."""
    branches = backtest.branches
    figure = make_subplots(rows=1, cols=len(branches), subplot_titles=list(branches), shared_yaxes=True)
    for column, (branch, names) in enumerate(branches.items(), start=1):
        counts = np.bincount(backtest.decisions[branch].to_numpy(), minlength=len(names))
        share = counts / max(1, counts.sum()) * 100
        figure.add_bar(
            x=list(names),
            y=share,
            text=[f"{value:.1f} %" for value in share],
            textposition="outside",
            cliponaxis=False,
            marker={"color": AGENT_COLOUR},
            hoverinfo="skip",
            row=1,
            col=column,
        )
    style(figure, 280, showlegend=False, margin={"t": 36})
    figure.update_yaxes(range=[0, 112], tickvals=[0, 25, 50, 75, 100])
    figure.update_yaxes(title="% of decisions", row=1, col=1)
    return figure


def style(figure: go.Figure, height: int, **changes: Any) -> None:
    """The common look, and what a figure changes of it."""
    figure.update_layout(**_LAYOUT, height=height)
    figure.update_layout(**changes)


def add_line(
    figure: go.Figure, steps: pl.DataFrame, time: str, value: str, timezone: str, *,
    row: int, colour: str = AGENT_COLOUR, shape: str = "linear", fill: str | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """Draw a column over time as one line that breaks between accounts; with a name it joins the legend."""
    parts = []
    for segment in steps.partition_by("segment", maintain_order=True):
        buckets = ceil(BUCKETS * segment.height / steps.height)
        kept = decimate(segment[value].to_numpy(), buckets)
        points = segment.select(time, value)
        parts += [points[kept], points.tail(1).with_columns(pl.lit(None, segment.schema[value]).alias(value))]
    line = pl.concat(parts)
    figure.add_scatter(
        x=_local(line[time].to_physical().to_numpy(), timezone),
        y=line[value].to_numpy(),
        name=name or value,
        mode="lines",
        line={"color": colour, "width": 1, "shape": shape},
        fill=fill,
        fillcolor="rgba(18,53,91,0.18)",
        showlegend=name is not None,
        hovertemplate="%{x|%H:%M:%S.%L}<br>%{y:,}" + f"<extra>{name or value}</extra>",
        row=row,
        col=1,
    )


def _add_markers(figure: go.Figure, shown: pl.DataFrame, timezone: str, name: str, colour: str, symbol: str) -> None:
    figure.add_scatter(
        x=_local(shown["until"].to_physical().to_numpy(), timezone),
        y=shown["price"].to_numpy(),
        customdata=np.column_stack([shown["quantity"], shown["fee"], shown["slippage"], shown["count"]]),
        name=name,
        mode="markers",
        marker={"symbol": symbol, "size": 8, "color": colour, "line": {"width": 1.3, "color": colour}},
        hovertemplate="%{x|%H:%M:%S.%L}<br>%{customdata[0]:,} at %{y:,}<br>fee %{customdata[1]:,.4f}"
        "<br>slippage %{customdata[2]:,.4f}<br>%{customdata[3]} fill(s)" + f"<extra>{name}</extra>",
        row=1,
        col=1,
    )


def _join_fills(fills: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Fills as markers: one each; of too many, one for each stretch of time, side and kind, at the mean price."""
    columns = ["until", "side", "liquidity", "price", "quantity", "fee", "slippage"]
    if fills.height <= FILLS_SHOWN:
        return fills.select(*columns, count=pl.lit(1)), 1
    stretch = ceil(fills.height / (FILLS_SHOWN / 4))
    joined = (
        fills.with_row_index("place")
        .group_by(pl.col("place") // stretch, "side", "liquidity", maintain_order=True)
        .agg(
            pl.col("until").first(),
            (pl.col("price") * pl.col("quantity")).sum() / pl.col("quantity").sum(),
            pl.col("quantity", "fee", "slippage").sum(),
            count=pl.len(),
        )
    )
    return joined.select(*columns, "count"), int(joined.select(pl.col("count").max()).item())


def _policy_colour(place: int) -> str:
    return AGENT_COLOUR if place == 0 else COLOURS[(place - 1) % len(COLOURS)]


def _local(stamps: Int64[np.ndarray, " points"], timezone: str) -> Any:
    """Clock time at the market, without zone: plotly knows none."""
    series = pl.Series(stamps, dtype=pl.Int64).cast(pl.Datetime("ns", "UTC"))
    return series.dt.convert_time_zone(timezone).dt.replace_time_zone(None).cast(pl.Datetime("ms")).to_numpy()


def _gaps(series: Profit) -> list[tuple[int, int]]:
    """Time between the periods of a profit series."""
    ends = np.flatnonzero(np.diff(series.period))
    width = int(series.until_ns[1] - series.until_ns[0]) if len(series.until_ns) > 1 else 0
    return [(int(series.until_ns[k]), int(series.until_ns[k + 1]) - width) for k in ends]


def account_gaps(accounts: Sequence[Account]) -> list[tuple[int, int]]:
    ordered = sorted(accounts, key=lambda account: account.start_ns)
    return [(a.stop_ns, b.start_ns) for a, b in pairwise(ordered) if b.start_ns > a.stop_ns]


def skip_gaps(figure: go.Figure, gaps: Sequence[tuple[int, int]], timezone: str) -> None:
    """Take nights, lunch breaks and other time without trading out of the time axis, the longest of them."""
    breaks = []
    for start, stop in sorted(gaps, key=lambda gap: gap[0] - gap[1])[:GAPS_SKIPPED]:
        bounds = _local(np.array([start, stop]), timezone)
        breaks.append({"bounds": [str(bounds[0]), str(bounds[1])]})
    figure.update_xaxes(rangebreaks=breaks)
    figure.update_xaxes(title=f"time ({timezone})", row=2, col=1)
