"""Who started a trade: hand-made cases, and a recording that names the aggressor."""

from pathlib import Path

import polars as pl

from foxhunt.data.aggressor import match_rule, quote_rule
from foxhunt.data.frames import conform
from foxhunt.data.readers import read_sources


def test_quote_rule_compares_with_the_book_strictly_before() -> None:
    book = conform(
        "book", pl.DataFrame({"ts_event": [10, 20], "instrument": "A", "bid_px_00": [99, 100], "ask_px_00": [101, 102]})
    )
    trades = pl.DataFrame(
        {
            "ts_event": [10, 15, 15, 15, 20, 21],
            "instrument": ["A", "A", "A", "A", "A", "B"],
            "price": [101, 101, 99, 100, 100, 101],
            "size": 1,
        }
    )
    assert quote_rule(trades, book)["side"].to_list() == ["N", "B", "A", "N", "N", "N"]


def test_quote_rule_takes_trades_through_the_touch_and_one_sided_books() -> None:
    book = conform("book", pl.DataFrame({"ts_event": [10], "instrument": "A", "bid_px_00": [99], "ask_px_00": [None]}))
    trades = pl.DataFrame({"ts_event": [11, 12], "instrument": "A", "price": [98, 105], "size": 1})
    assert quote_rule(trades, book)["side"].to_list() == ["A", "N"]


def test_match_rule_signs_by_the_later_of_the_two_orders() -> None:
    fills = pl.DataFrame(
        {
            "ts_event": [100, 101, 200, 201, 300],
            "order": [5, 9, 12, 11, 20],
            "side": ["ask", "bid", "ask", "bid", "bid"],
            "size": [30, 30, 40, 41, 50],
        }
    )
    trades = pl.DataFrame({"ts_event": [105, 205, 305, 5_000], "price": 1, "size": [30, 40, 50, 30]})
    assert match_rule(trades, fills, tolerance=1_000, slack=1)["side"].to_list() == ["B", "A", "N", "N"]
    assert match_rule(trades, fills, tolerance=1_000)["side"].to_list() == ["B", "N", "N", "N"]


def test_match_rule_errs_on_no_trade_of_a_recording_that_names_the_aggressor(market_data: Path, tmp_path: Path) -> None:
    """282 of 284 sides are found from the order events alone, all as the venue says."""
    folder = market_data / "btcusd_l3_20260502"
    known = read_sources([folder / "orders.csv.gz", folder / "trades.csv"]).frames["trades"]
    hidden = tmp_path / "trades.csv"
    text = (folder / "trades.csv").read_text()
    hidden.write_text(text.replace(",buy\n", ",\n").replace(",sell\n", ",\n"))
    result = read_sources([folder / "orders.csv.gz", hidden])
    pairs = list(zip(result.frames["trades"]["side"], known["side"], strict=True))
    assert sum(found == true for found, true in pairs) >= 282
    assert all(found in (true, "N") for found, true in pairs)
    assert any("aggressor inferred" in note for note in result.notes)
