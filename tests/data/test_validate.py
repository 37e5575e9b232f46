"""Row checks: one hand-made row a reason, and rows in = rows out + quarantined for anything."""

import json
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foxhunt.data.schema import REASONS, Instrument
from foxhunt.data.validate import Sifted, Source, sift_bars, sift_book, sift_trades

HOUR = 3_600_000_000_000
STOCK = {"A": Instrument("A", "0.01", lot_size="1", sessions=(("09:30", "11:30"), ("13:00", "15:00")))}
CRYPTO = {"A": Instrument("A", "0.5", lot_size="0.001")}
GOOD = {"bid_px_00": 10.0, "bid_sz_00": 5.0, "ask_px_00": 10.01, "ask_sz_00": 7.0}
TEN = 10 * HOUR


def book(*rows: dict[str, Any], instruments: dict[str, Instrument] = STOCK) -> Sifted:
    """Sift book rows, each given as what differs from a good one."""
    full = [{"ts_event": TEN + index, "instrument": "A", **GOOD, **row} for index, row in enumerate(rows)]
    floats = dict.fromkeys((c for row in full for c in row if "_px_" in c or "_sz_" in c), pl.Float64)
    frame = pl.DataFrame(full, schema_overrides=floats, infer_schema_length=None).with_row_index("row", offset=1)
    return sift_book(frame.with_columns(pl.col("row").cast(pl.Int64)), instruments, Source("file.csv"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"bid_px_00": 10.02}, "crossed"),
        ({"bid_px_00": 10.01}, "locked"),
        ({"bid_px_00": math.nan}, "bad price"),
        ({"bid_px_00": -10.0}, "bad price"),
        ({"ask_px_00": math.inf}, "bad price"),
        ({"bid_px_00": 0.0}, "bad price"),
        ({"bid_px_00": None}, "bad price"),
        ({"bid_px_00": 9.995}, "off tick"),
        ({"bid_sz_00": 0.0}, "bad size"),
        ({"bid_sz_00": -3.0}, "bad size"),
        ({"ask_sz_00": math.nan}, "bad size"),
        ({"ask_sz_00": None}, "bad size"),
        ({"ask_sz_00": 1.5}, "off lot"),
        ({"bid_px_01": 10.0, "bid_sz_01": 1.0, "ask_px_01": None, "ask_sz_01": None}, "bad book"),
        ({"bid_px_01": None, "bid_sz_01": None, "ask_px_01": 10.0, "ask_sz_01": 2.0}, "bad book"),
        ({"ts_event": 12 * HOUR}, "outside session"),
        ({"ts_event": 11 * HOUR + HOUR // 2}, "outside session"),
        ({"ts_event": None}, "unreadable"),
    ],
)
def test_a_bad_book_row_is_quarantined_with_its_reason(row: dict[str, Any], reason: str) -> None:
    sifted = book({}, row)
    assert reason in REASONS
    assert sifted.quarantine["reason"].to_list() == [reason]
    assert sifted.quarantine.select("kind", "file", "row").row(0) == ("book", "file.csv", 2)
    assert sifted.counts["A"].quarantined == {reason: 1}
    assert len(sifted.passed) == 1


def test_ledger_keeps_the_record_as_json() -> None:
    record = json.loads(book({"bid_sz_00": -3.0}).quarantine["record"][0])
    assert record["bid_sz_00"] == -3.0
    assert record["ask_px_00"] == 10.01


def test_good_rows_become_integers_on_the_grid() -> None:
    row = book({"bid_px_00": 9.999999999999998, "bid_sz_00": 5.0}).passed.row(0, named=True)
    assert (row["bid_px_00"], row["ask_px_00"], row["bid_sz_00"]) == (10_000_000_000, 10_010_000_000, 5)


def test_quantities_become_lots() -> None:
    row = book({"bid_px_00": 9.5, "ask_px_00": 10.0, "bid_sz_00": 0.003, "ask_sz_00": 12.0}, instruments=CRYPTO).passed
    assert row.select("bid_sz_00", "ask_sz_00").row(0) == (3, 12_000)


def test_an_empty_level_is_null_and_a_one_sided_book_stays() -> None:
    passed = book({"ask_px_00": 0.0, "ask_sz_00": 0.0}).passed
    assert passed.select("bid_px_00", "ask_px_00", "ask_sz_00").row(0) == (10_000_000_000, None, None)


def test_a_row_before_an_earlier_one_is_out_of_order_and_the_rest_stays() -> None:
    stamps = [0, 5, 3, 4, 5, 6]
    sifted = book(*({"ts_event": TEN + s, "bid_sz_00": float(i + 1)} for i, s in enumerate(stamps)))
    assert sifted.quarantine.select("row", "reason").rows() == [(3, "out of order"), (4, "out of order")]
    assert sifted.passed["ts_event"].is_sorted()


def test_a_rejected_row_does_not_put_its_neighbours_out_of_order() -> None:
    sifted = book({"ts_event": TEN}, {"ts_event": TEN + HOUR, "bid_px_00": math.nan}, {"ts_event": TEN + 1})
    assert sifted.quarantine["reason"].to_list() == ["bad price"]


def test_equal_rows_are_duplicates_and_equal_stamps_are_not() -> None:
    rows = [{"ts_event": TEN}, {"ts_event": TEN}, {"ts_event": TEN, "bid_sz_00": 6.0}]
    sifted = book(*rows)
    assert sifted.quarantine.select("row", "reason").rows() == [(2, "duplicate")]
    assert len(sifted.passed) == 2


def test_order_and_duplicates_are_judged_within_an_instrument() -> None:
    instruments = {s: Instrument(s, "0.01") for s in "AB"}
    rows = [{"ts_event": TEN, "instrument": "A"}, {"ts_event": TEN - 5, "instrument": "B"}, {"instrument": "A"}]
    assert len(book(*rows, instruments=instruments).quarantine) == 0


def test_a_session_over_midnight_is_whole() -> None:
    night = {"A": Instrument("A", "0.01", sessions=(("17:00", "16:00"),))}
    rows = [{"ts_event": hours * HOUR} for hours in (0, 15.99, 16, 16.5, 17, 23)]
    sifted = book(*({"ts_event": int(r["ts_event"])} for r in rows), instruments=night)
    assert sifted.quarantine.select("row", "reason").rows() == [(3, "outside session"), (4, "outside session")]


def test_sessions_follow_the_local_clock() -> None:
    local = {"A": Instrument("A", "0.01", timezone="Asia/Shanghai", sessions=(("09:30", "11:30"),))}
    sifted = book({"ts_event": 2 * HOUR}, {"ts_event": 10 * HOUR}, instruments=local)
    assert sifted.quarantine.select("row", "reason").rows() == [(2, "outside session")]


def trades(*rows: dict[str, Any]) -> Sifted:
    full = [{"ts_event": TEN, "instrument": "A", "price": 10.0, "size": 3.0, "side": "B", **row} for row in rows]
    frame = pl.DataFrame(full, schema_overrides={"price": pl.Float64, "size": pl.Float64}).with_row_index(
        "row", offset=1
    )
    return sift_trades(frame, STOCK, Source("file.csv"))


def test_identical_trades_are_separate_trades() -> None:
    sifted = trades({}, {}, {})
    assert len(sifted.passed) == 3
    assert sifted.counts["A"].quarantined == {}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"price": math.nan}, "bad price"),
        ({"price": 0.0}, "bad price"),
        ({"price": 10.005}, "off tick"),
        ({"size": 0.0}, "bad size"),
        ({"size": 0.5}, "off lot"),
        ({"price": None}, "unreadable"),
        ({"ts_event": 9 * HOUR + HOUR // 2 - 1}, "outside session"),
        ({"ts_event": 9 * HOUR + HOUR // 2}, "out of order"),
    ],
)
def test_a_bad_trade_is_quarantined_with_its_reason(row: dict[str, Any], reason: str) -> None:
    assert trades({}, row).quarantine.select("row", "reason").rows() == [(2, reason)]


def bars(*rows: dict[str, Any]) -> Sifted:
    good = {"instrument": "A", "open": 10.0, "high": 11.0, "low": 9.0, "close": 10.5, "volume": 4.0}
    full = [{"ts_event": TEN + index, **good, **row} for index, row in enumerate(rows)]
    floats = dict.fromkeys(("open", "high", "low", "close", "volume"), pl.Float64)
    return sift_bars(pl.DataFrame(full, schema_overrides=floats).with_row_index("row", offset=1), STOCK, Source("f"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"high": 10.2}, "bad bar"),
        ({"low": 10.2}, "bad bar"),
        ({"high": 8.0}, "bad bar"),
        ({"close": math.nan}, "bad price"),
        ({"open": None}, "unreadable"),
        ({"volume": -1.0}, "bad size"),
        ({"close": 10.501}, "off tick"),
        ({"ts_event": TEN, "close": 10.4}, "duplicate"),
        ({"ts_event": TEN - 1}, "out of order"),
    ],
)
def test_a_bad_bar_is_quarantined_with_its_reason(row: dict[str, Any], reason: str) -> None:
    assert bars({}, row).quarantine.select("row", "reason").rows() == [(2, reason)]


def test_a_quiet_bar_stays() -> None:
    assert bars({"volume": 0.0}, {"volume": None}).passed["volume"].to_list() == [0, None]


prices = st.sampled_from([None, math.nan, math.inf, -1.0, 0.0, 9.98, 9.99, 10.0, 10.005, 10.01, 10.02])
sizes = st.sampled_from([None, math.nan, -1.0, 0.0, 0.5, 1.0, 200.0])
rows = st.fixed_dictionaries(
    {
        "ts_event": st.one_of(st.none(), st.integers(TEN - 2, TEN + 4), st.just(12 * HOUR)),
        "instrument": st.sampled_from(["A", "B"]),
        **{f"{side}_px_0{level}": prices for side in ("bid", "ask") for level in (0, 1)},
        **{f"{side}_sz_0{level}": sizes for side in ("bid", "ask") for level in (0, 1)},
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, min_size=1, max_size=12))
def test_rows_in_are_rows_out_and_rows_quarantined(drawn: list[dict[str, Any]]) -> None:
    instruments = {s: Instrument(s, "0.01", sessions=(("09:30", "11:30"),)) for s in "AB"}
    floats = dict.fromkeys((c for c in drawn[0] if "_px_" in c or "_sz_" in c), pl.Float64)
    schema = {"ts_event": pl.Int64, "instrument": pl.String, **floats}
    frame = (
        pl.DataFrame(drawn, schema=schema).with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
    )
    sifted = sift_book(frame, instruments, Source("f"))

    seen = sorted([*sifted.passed["row"], *sifted.quarantine["row"]])
    assert seen == list(range(1, len(drawn) + 1)), "every row is in exactly one place"
    assert set(sifted.quarantine["reason"]) <= set(REASONS)
    for symbol, count in sifted.counts.items():
        own = sum(row["instrument"] == symbol for row in drawn)
        assert (count.read, count.out) == (own, len(sifted.passed.filter(pl.col("instrument") == symbol)))
    passed = sifted.passed
    assert not passed.select((pl.col("bid_px_00") >= pl.col("ask_px_00")).any()).item()
    for symbol in "AB":
        assert passed.filter(pl.col("instrument") == symbol)["ts_event"].is_sorted()
    levels = [c for c in passed.columns if c[3:6] in ("_px", "_sz")]
    assert all((passed[c].drop_nulls() > 0).all() for c in levels)
    assert all((passed[c].drop_nulls() % 10_000_000 == 0).all() for c in levels if "_px_" in c)
