"""The page states the summary's figures, needs nothing from elsewhere, and keeps extremes when it thins."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

from foxhunt.evaluate import charts
from foxhunt.evaluate.format import money, number, percent, span, time_span, typeset
from foxhunt.evaluate.report import Context, render
from foxhunt.evaluate.summary import Contender, Summary, mean_profit, summarise

from .market import account, backtest, random_backtest
from .test_summary import CLOCK, flat

CONTEXT = Context(
    title="Back-test of <run>",
    facts=(("data", "ABC & others"),),
    config={"seed": 0},
    reproduce="foxhunt backtest run --split test",
)
NOTHING = pl.DataFrame(schema={"step": pl.Int64})
"""Of the internal state over training."""


@pytest.fixture(scope="module")
def made() -> tuple[Summary, str]:
    contenders = [Contender("agent", (random_backtest(symbols=("ABC", "XYZ")),), "greedy"), two_flat()]
    summary = summarise(contenders, "test", CLOCK)
    profits = [(c.name, mean_profit(c, CLOCK)) for c in contenders]
    return summary, render(summary, contenders[0].runs[0], profits, CONTEXT, NOTHING)


def two_flat() -> Contender:
    accounts = [account("ABC", steps=600), account("XYZ", steps=600)]
    return Contender("flat", (backtest(accounts, [[100.0] * 601] * 2, [[0] * 600] * 2),), "never trades")


class Page(HTMLParser):
    """Attributes that load something, and the text outside of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.text = ""
        self.hidden = False
        self.scripts = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden = tag in ("script", "style")
        self.scripts += tag == "script"
        self.loads += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "srcset", "data")]

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.text += data + "\n"


def test_page_loads_nothing_and_is_small(made: tuple[Summary, str]) -> None:
    page = Page(made[1])
    assert page.loads == []
    assert not re.search(r"@import|url\(\s*['\"]?http", made[1].split("<script>")[0])
    assert made[1].count("plotly.js v") == 1
    assert len(made[1].encode()) < 8_000_000


def test_page_states_the_figures_of_the_summary(made: tuple[Summary, str]) -> None:
    summary, html = made
    text = Page(html).text
    assert typeset(summary.verdict) in text
    agent = json.loads(json.dumps(summary.to_json()))["rows"][0]
    for value in (
        money(agent["metrics"]["pnl"]),
        span(agent["interval"]["low"], agent["interval"]["high"]),
        money(agent["metrics"]["fees"]),
        money(agent["metrics"]["slippage"]),
        money(agent["metrics"]["drawdown"]),
        number(agent["metrics"]["sharpe"]),
        percent(agent["metrics"]["hit_rate"]),
        number(agent["metrics"]["fills"]),
    ):
        assert typeset(value) in text, value


def test_page_shows_every_instrument_and_escapes_names(made: tuple[Summary, str]) -> None:
    html = made[1]
    assert html.count('id="fills-') == 2
    assert "<title>Back-test of &lt;run&gt;</title>" in html
    assert "ABC &amp; others" in html


def test_collapse_is_named_on_the_page() -> None:
    idle = flat("agent")
    summary = summarise([idle], "test", CLOCK)
    html = render(summary, idle.runs[0], [("agent", mean_profit(idle, CLOCK))], CONTEXT, NOTHING)
    assert "Collapsed policy:</b> always flat (100 % of the time)" in html


def test_lines_keep_their_time_and_break_between_accounts() -> None:
    run = backtest(
        [account(steps=3), account(start=60, steps=2)], [[100, 101, 102, 103], [50, 51, 52]], [[1, 1, 2], [0, 1]]
    )
    figure, joined = charts.fills_figure(run, "ABC")
    lines = {line.name: line for line in figure.data if line.mode == "lines"}
    seconds = [stamp.astype("datetime64[s]").astype(int) for stamp in lines["mid"].x]
    assert seconds == [0, 1, 2, 2, 60, 61, 61]
    assert [None if np.isnan(y) else y for y in lines["mid"].y] == [100, 101, 102, None, 50, 51, None]
    assert [None if np.isnan(y) else y for y in lines["position"].y] == [1, 1, 2, None, 0, 1, None]
    markers = {line.name: line for line in figure.data if line.mode == "markers"}
    assert markers["taker buy"].y.tolist() == [100.5, 102.5, 51.5]
    assert joined == 1
    assert figure.layout.xaxis.rangebreaks[0].bounds == ("1970-01-01T00:00:03.000", "1970-01-01T00:01:00.000")


def test_decimation_keeps_ends_and_extremes() -> None:
    values = np.sin(np.arange(100_000) / 7000)
    values[54_321] = 9.0
    values[12_345] = -9.0
    kept = charts.decimate(values, buckets=50)
    assert {0, 12_345, 54_321, 99_999} <= set(kept.tolist())
    assert len(kept) <= 200
    assert (np.diff(kept) > 0).all()
    assert charts.decimate(values[:200], buckets=50).tolist() == list(range(200))


def test_too_many_fills_are_joined_without_losing_quantity(monkeypatch: pytest.MonkeyPatch) -> None:
    fills = random_backtest(steps=3000).fills
    monkeypatch.setattr(charts, "FILLS_SHOWN", 40)
    markers, most = charts._join_fills(fills)
    assert markers.height <= 40
    assert most > 1
    assert markers["count"].sum() == fills.height
    for column in ("quantity", "fee", "slippage"):
        assert markers[column].sum() == pytest.approx(fills[column].sum())
    assert (markers["price"] * markers["quantity"]).sum() == pytest.approx(fills["notional"].sum())


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0, "0.00"), (-0.0, "0.00"), (-1234.567, "-1,234.57"), (0.00123456, "0.00123"), (-0.0000456, "-0.0000456")],
)
def test_money_keeps_small_amounts_visible(value: float, written: str) -> None:
    assert money(value) == written


def test_intervals_drop_digits_that_say_nothing() -> None:
    assert span(-2087.61, -526.74) == "-2,088 to -527"
    assert span(-87.614, 0.001) == "-87.61 to 0.00100"


def test_numbers_percentages_and_minus_signs() -> None:
    assert number(None) == "-"
    assert number(12345.678) == "12,346"
    assert number(1.5) == "1.50"
    assert number(3.0) == "3"
    assert percent(0.5) == "50.0 %"
    assert percent(0.0004) == "0.040 %"
    assert typeset("-3 to -1 (-2) a-1 2022-06-01 -") == "~3 to ~1 (~2) a-1 2022-06-01 -".replace("~", "\u2212")


def test_time_spans_name_the_date_once() -> None:
    start = 1_654_047_000_000_000_000  # 2022-06-01 01:30 UTC
    assert time_span(start, start + 3600 * 10**9, "Asia/Shanghai") == "2022-06-01 09:30:00 to 10:30:00 Asia/Shanghai"
    assert time_span(start, start + 86400 * 10**9, "UTC") == "2022-06-01 01:30:00 to 2022-06-02 01:30:00 UTC"
