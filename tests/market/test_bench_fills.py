"""Fills beside hftbacktest's, and what hftbacktest does differently."""

import gzip
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foxhunt.bench import fills, hft
from foxhunt.data.readers import ImportOptions, read_sources
from foxhunt.data.simulator import SimulatorConfig, simulate
from foxhunt.errors import DataError, FoxhuntError

from .frames import ONE, SECOND, BookRow, TradeRow, book_frame, trade_frame

COSTLY = replace(ONE, maker_bps=2, taker_bps=5)
STILL: list[BookRow] = [(float(s), [(99, 10)], [(101, 10), (103, 5)]) for s in range(10)]


def replay(books: list[BookRow], trades: list[TradeRow], *orders: tuple[float, float, int, int, int, bool]) -> Any:
    """Orders of (sent, cancelled, side, tick, lots, crosses), in seconds, through hftbacktest without latency."""
    events = hft.event_array(book_frame(books), trade_frame(trades), COSTLY, 10)
    start, end, side, tick, lots, crosses = (np.array(column) for column in zip(*orders, strict=True))
    stamps = ((part * SECOND).round().astype(np.int64) for part in (start, end))
    return hft.replay(events, hft.Orders(*stamps, side, tick, lots, crosses), COSTLY, 0, "risk-averse")


def check(rows: list[dict[str, Any]], crossing: float, resting: float) -> None:
    """Agreement on filling, and nothing unexplained."""
    for row in rows:
        assert (
            row["agreement"] >= {"crossing": crossing, "resting": resting, "all": min(crossing, resting)}[row["kind"]]
        )
        assert row["unexplained"] == 0
        assert row["filled_by_both"] > 0


def check_hftbacktests_rules(market: fills.Market, rules: fills.Rules, accounts: int) -> None:
    """Beside agreement on filling: where both fill a resting order, lots and fees are equal."""
    rows = fills.report(market, rules, fills.compare(market, rules, accounts))
    check(rows, 0.99, 0.95)
    resting = rows[1]
    assert resting["equal_fees"] == resting["fees_compared"] > 0
    assert resting["equal_lots"] + resting["whole_lots"] >= resting["filled_by_both"]
    assert resting["whole_lots"] == 0 or rules.queue != "risk-averse"


@pytest.fixture(scope="module")
def simulated() -> fills.Market:
    """A minute and a half of a simulated market."""
    simulation = simulate(SimulatorConfig(seconds=90, seed=2))
    instrument = replace(simulation.instrument, maker_bps=-1, taker_bps=4)
    return fills.Market("simulated", simulation.book, simulation.trades, instrument)


@pytest.mark.parametrize("rules", fills.RULES[:3], ids=lambda rules: rules.queue)
def test_a_simulated_market_under_hftbacktests_rules(simulated: fills.Market, rules: fills.Rules) -> None:
    """Known book, full through-fills, each of its queue models."""
    check_hftbacktests_rules(simulated, rules, 6)


def test_a_simulated_market_under_pinned_conventions(simulated: fills.Market) -> None:
    """The next book, evidenced fills, with latency."""
    rules = fills.RULES[-1]
    check(fills.report(simulated, rules, fills.compare(simulated, rules, 6)), 0.95, 0.9)


def test_an_hour_of_a_share(market_data: Path) -> None:
    """Real books and trades: the same fills, lots and fees."""
    imported = read_sources([market_data / "ashare_l2/SH600519_20230201_mbp10.parquet"], ImportOptions(map="ashare"))
    book, trades = imported.frames["book"].head(1200), imported.frames["trades"]
    trades = trades.filter(trades["ts_event"] <= book["ts_event"].max())
    market = fills.Market("share", book, trades, *imported.instruments.values())
    check_hftbacktests_rules(market, fills.RULES[0], 8)


def test_half_a_minute_of_a_future(market_data: Path, tmp_path: Path) -> None:
    """The raw feed through hftbacktest's converter, every level of it, against ten levels here."""
    (tmp_path / fills.BINANCE).parent.mkdir()
    with gzip.open(market_data / fills.BINANCE) as whole, gzip.open(tmp_path / fills.BINANCE, "wb") as part:
        part.writelines(islice(whole, 9000))
    levels, raw = fills.markets(tmp_path)
    assert 600 < len(raw.book) < 800
    assert len(raw.trades) > 1000
    assert levels.events is None
    check_hftbacktests_rules(raw, fills.RULES[0], 20)


def test_events_are_the_changes_of_the_book_after_the_trades_of_its_stamp() -> None:
    """The ask moves from 101 to 102: first 101 leaves, then 102 comes; deeper prices than the last shown stay."""
    books: list[BookRow] = [
        (1, [(99, 5), (98, 7)], [(101, 4), (102, 6)]),
        (2, [(100, 3), (99, 5)], [(102, 6), (103, 2)]),
    ]
    events = hft.event_array(book_frame(books), trade_frame([(2, 101, 4, "B"), (2, 100, 1, "N")]), ONE, 2)
    kinds = {2: "trade", 1: "depth"}
    told = [
        (
            int(e["exch_ts"]) // SECOND,
            kinds[int(e["ev"]) & 0xFF],
            "buy" if int(e["ev"]) >> 29 & 1 else "sell",
            e["px"],
            e["qty"],
        )
        for e in events
    ]
    assert told[4:] == [
        (2, "trade", "buy", 101, 4),
        (2, "depth", "sell", 101, 0),
        (2, "depth", "buy", 100, 3),
        (2, "depth", "sell", 103, 2),
    ]


def test_fees_and_lots_of_single_orders() -> None:
    """10 at 101 as taker: 5 bp of 1010. Four of a bid of 6 behind ten at 99 when 14 are sold: 4 lots, cancelled."""
    done = replay(STILL, [(4.5, 99, 14, "A")], (1.1, 2.1, 1, 0, 10, True), (3.1, 6.1, 1, 99, 6, False))
    assert done.lots.tolist() == [10, 4]
    assert done.fee[0] == pytest.approx(1010 * 5e-4)


def test_hftbacktest_shows_each_order_the_whole_size() -> None:
    """Ten are offered at 101 all along, and each of two orders gets them."""
    done = replay(STILL, [], (1.1, 2.1, 1, 0, 10, True), (3.1, 4.1, 1, 0, 10, True))
    assert done.lots.tolist() == [10, 10]
    assert done.fee.tolist() == pytest.approx([1010 * 5e-4] * 2)


def test_hftbacktest_sweeps_a_hundred_ticks() -> None:
    """Asks at 101, 200 and 201: an order of 30 takes the first two."""
    books: list[BookRow] = [(float(s), [(99, 10)], [(101, 10), (200, 10), (201, 10)]) for s in range(5)]
    assert replay(books, [], (1.1, 2.1, 1, 0, 30, True)).lots.tolist() == [20]


def test_hftbacktest_books_only_the_fill_that_completes_an_order() -> None:
    """15 lots walk two levels: the account hears of the five at 103. Of a bid filled in part it hears nothing."""
    done = replay(STILL, [(4.5, 99, 14, "A")], (1.1, 2.1, 1, 0, 15, True), (3.1, 6.1, 1, 99, 6, False))
    assert done.lots.tolist() == [15, 4]
    assert done.booked.tolist() == pytest.approx([5, 0])
    assert done.fee.tolist() == pytest.approx([5 * 103 * 5e-4, 0])


def test_hftbacktest_stops_on_a_fill_equal_to_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 sold at 99 with ten ahead fill a bid of 6 exactly; another sale ends the run. A sliver more avoids it."""
    trades: list[TradeRow] = [(4.5, 99, 16, "A"), (5.5, 99, 16, "A")]
    order = (3.1, 7.1, 1, 99, 6, False)
    assert replay(STILL, trades, order).lots.tolist() == [6]
    monkeypatch.setattr(hft, "EXTRA", 0.0)
    with pytest.raises(RuntimeError, match="stopped with code 14"):
        replay(STILL, trades, order)


def test_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package, or the data."""
    monkeypatch.setenv("FOXHUNT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="set FOXHUNT_DATA"):
        fills.run(1, tmp_path / "fills.csv")
    monkeypatch.setitem(sys.modules, "hftbacktest", None)
    with pytest.raises(FoxhuntError, match="needs hftbacktest"):
        hft.event_array(book_frame(STILL), trade_frame([]), ONE, 1)
