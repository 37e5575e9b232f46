"""Bitstamp L3: semantics on hand-made files, then agreement with what the venue itself published."""

import bz2
import csv
import gzip
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foxhunt.data.imported import Imported
from foxhunt.data.readers import ImportOptions, detect, read_sources
from foxhunt.errors import DataError

HEADER = "id,timestamp,exchange_timestamp,price,volume,action,direction\n"
EVENTS = (
    HEADER
    + """\
1,1100,1000,100.0,1.5,created,bid
2,1100,1000,101.0,2.0,created,ask
3,1180,1100,103.0,0.5,created,bid
3,1180,1100,101.0,0.0,deleted,bid
2,1181,1100,101.0,1.5,changed,ask
4,1250,1200,101.0,1.0,created,bid
4,1250,1200,101.0,1.0,deleted,bid
9,1300,1250,99.0,1.0,deleted,bid
1,1350,1300,100.0,1.5,deleted,bid
"""
)
TRADES = """\
trade_id,timestamp,exchange_timestamp,price,amount,buy_order_id,sell_order_id,side
7,1190,1100,101.0,0.5,3,2,buy
"""


def write(folder: Path, **files: str) -> list[Path]:
    paths = []
    for name, text in files.items():
        paths.append(folder / f"{name}.csv")
        paths[-1].write_text(text)
    return paths


def touches(result: Imported) -> list[tuple[int | None, ...]]:
    columns = ("ts_event", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00")
    return result.frames["book"].select(columns).rows()


def test_fills_cancellations_and_refused_orders_make_the_book_they_should(tmp_path: Path) -> None:
    result = read_sources(write(tmp_path, orders=EVENTS, trades=TRADES), ImportOptions(tick_size="0.01"))
    coin, dollar, ms = 100_000_000, 1_000_000_000, 1_000_000
    assert touches(result) == [
        (1000 * ms, 100 * dollar, 1.5 * coin, 101 * dollar, 2 * coin),
        (1100 * ms, 100 * dollar, 1.5 * coin, 101 * dollar, 1.5 * coin),
        (1300 * ms, None, None, 101 * dollar, 1.5 * coin),
    ]
    assert result.frames["trades"].rows() == [(1100 * ms, "BTC/USD", 101 * dollar, coin // 2, "B")]


def test_deletion_of_an_unknown_order_is_quarantined_and_counted(tmp_path: Path) -> None:
    result = read_sources(write(tmp_path, orders=EVENTS), ImportOptions(tick_size="0.01"))
    count = result.counts["events"]["BTC/USD"]
    assert (count.read, count.out, count.quarantined) == (9, 8, {"bad order": 1})
    assert result.quarantine.select("kind", "row", "reason").row(0) == ("events", 8, "bad order")


def test_exchange_stamps_are_used_while_they_are_in_order(tmp_path: Path) -> None:
    result = read_sources(write(tmp_path, orders=EVENTS), ImportOptions())
    assert any("stamps are the exchange's; the recorder received them 80 ms later" in note for note in result.notes)
    creation_times = EVENTS.replace("9,1300,1250", "9,1300,900")
    arrival = read_sources(write(tmp_path, orders=creation_times), ImportOptions(tick_size="0.01"))
    assert "stamps are times of arrival: the exchange's are not in order" in arrival.notes
    # By arrival the fill of order 2 comes a millisecond after its taker.
    assert [row[0] for row in touches(arrival)] == [1100 * 10**6, 1181 * 10**6, 1350 * 10**6]


def test_buffered_messages_count_from_the_snapshot_they_waited_for(tmp_path: Path) -> None:
    text = HEADER + "1,5000,5000,100.0,1.0,created,bid\n2,3000,3000,101.0,1.0,created,ask\n"
    result = read_sources(write(tmp_path, orders=text), ImportOptions(tick_size="1", clock="arrival"))
    assert [row[0] for row in touches(result)] == [5000 * 10**6]
    assert result.counts["events"]["BTC/USD"].out == 2
    assert any("1 events were written after later ones" in note for note in result.notes)
    (tmp_path / "day.log").write_text(LOG)
    with pytest.raises(DataError, match="has no exchange stamps; use --clock arrival"):
        read_sources([tmp_path / "day.log"], ImportOptions(clock="exchange"))


def test_the_2015_files_count_volume_in_units_of_1e8(tmp_path: Path) -> None:
    text = HEADER.replace("exchange_timestamp", "exchange.timestamp") + "1,1100,1000,236.47,178855669,created,bid\n"
    result = read_sources(write(tmp_path, orders=text), ImportOptions(tick_size="0.01"))
    assert touches(result) == [(1_000_000_000, 236_470_000_000, 178_855_669, None, None)]


LOG = """\
1000 order_created {"price": "100.00", "amount": "1.50000000", "datetime": "1", "id": 1, "order_type": 0}
1000 order_created {"price": "101.00", "amount": "2.00000000", "datetime": "1", "id": 2, "order_type": 1}
1100 order_book {"bids": [["100.00", "1.50000000"]], "asks": [["101.00", "2.00000000"]]}
1200 order_created {"price": "101.00", "amount": "0.50000000", "datetime": "1", "id": 3, "order_type": 0}
1300 order_deleted {"price": "101.00", "amount": "0.00000000", "datetime": "1", "id": 3, "order_type": 0}
1302 order_changed {"price": "101.00", "amount": "1.50000000", "datetime": "1", "id": 2, "order_type": 1}
1310 trade {"price": 101.0, "amount": 0.50000000000000001, "id": 8}
9999 trade {"price": 101.0, "amount": 0.25, "id": 9}
"""


def test_a_raw_log_gives_events_and_trades_signed_by_the_later_order(tmp_path: Path) -> None:
    path = tmp_path / "day.log.bz2"
    path.write_bytes(bz2.compress(LOG.encode()))
    result = read_sources([path], ImportOptions(tick_size="0.01"))
    assert touches(result)[-1][1:] == (100 * 10**9, 150_000_000, 101 * 10**9, 150_000_000)
    assert result.frames["trades"].select("ts_event", "size", "side").rows() == [
        (1310 * 10**6, 50_000_000, "B"),
        (9999 * 10**6, 25_000_000, "N"),
    ]
    assert "day.log.bz2: 1 order_book snapshots of the log are not used" in result.notes


def test_half_a_line_at_the_end_of_a_log_is_quarantined(tmp_path: Path) -> None:
    path = tmp_path / "day.log"
    path.write_text(LOG + '10000 order_crea\n10001 order_created {"price": "9')
    result = read_sources([path], ImportOptions(tick_size="0.01"))
    assert result.quarantine.select("row", "reason").rows() == [(9, "unreadable"), (10, "unreadable")]
    assert result.counts["events"]["BTC/USD"].read == 7


def test_recordings_follow_each_other_and_must_not_overlap(tmp_path: Path) -> None:
    later = HEADER + "1,2000,2000,100.0,1.5,created,bid\n5,2001,2001,101.0,2.0,created,ask\n"
    paths = write(tmp_path, later=later, orders=EVENTS)
    result = read_sources(paths, ImportOptions(tick_size="0.01"))
    assert touches(result)[-1] == (2001 * 10**6, 100 * 10**9, 150_000_000, 101 * 10**9, 350_000_000)
    assert result.counts["events"]["BTC/USD"].read == 11
    write(tmp_path, later=later.replace("1,2000,2000", "1,1200,1200"))
    with pytest.raises(DataError, match=r"orders\.csv and .*later\.csv hold the same time"):
        read_sources(paths)


def test_bad_events_are_quarantined_with_reasons(tmp_path: Path) -> None:
    text = EVENTS + "10,1400,1400,0.0,1.0,created,bid\n11,1401,1401,50.005,1.0,created,bid\n"
    text += "12,1402,1402,50.0,0.0,created,bid\n13,1403,1403,nan,1.0,created,bid\nx,1404,1404,50.0,1.0,created,bid\n"
    text += "14,1405,1405,50.0,1.0,amended,bid\n"
    result = read_sources(write(tmp_path, orders=text), ImportOptions(tick_size="0.01"))
    assert result.quarantine.select("row", "reason").sort("row").rows() == [
        (8, "bad order"),
        (10, "bad price"),
        (11, "off tick"),
        (12, "bad size"),
        (13, "bad price"),
        (14, "unreadable"),
        (15, "unreadable"),
    ]


rows = st.tuples(
    st.sampled_from(["1", "2", "3", "4", "5", "", "x"]),
    st.integers(1_000, 1_020),
    st.sampled_from(["99", "100", "101", "102", "0", "-1", "nan", "100.005", "1e30", ""]),
    st.sampled_from(["1", "0.5", "0", "-1", "nan", "1e30", ""]),
    st.sampled_from(["created", "changed", "deleted", "amended", ""]),
    st.sampled_from(["bid", "ask", "both", ""]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(rows, min_size=1, max_size=30))
def test_events_in_are_events_applied_and_events_quarantined(tmp_path: Path, drawn: list[tuple[object, ...]]) -> None:
    """Whatever a feed sends, each event is applied or in the ledger, and no row of the book is crossed or locked."""
    first = "9,1000,1000,100,1,created,bid\n"
    body = "".join(",".join(map(str, (r[0], r[1], r[1], *r[2:]))) + "\n" for r in drawn)
    (tmp_path / "orders.csv").write_text(HEADER + first + body)
    result = read_sources([tmp_path / "orders.csv"], ImportOptions(tick_size="0.01"))
    count = result.counts["events"]["BTC/USD"]
    assert count.read == 1 + len(drawn) == count.out + len(result.quarantine)
    assert result.quarantine["row"].n_unique() == len(result.quarantine)
    book = result.frames["book"]
    assert not book.select((pl.col("bid_px_00") >= pl.col("ask_px_00")).any()).item()
    assert book["ts_event"].is_sorted()


def test_trades_alone_ask_for_the_events(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"trades\.csv: no order events among the files"):
        read_sources(write(tmp_path, trades=TRADES))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    (path,) = write(tmp_path, orders=EVENTS.replace(",direction", ",side"))
    with pytest.raises(DataError, match="no bitstamp file"):
        read_sources([path], ImportOptions(format="bitstamp"))


@pytest.fixture(scope="module")
def sample(market_data: Path) -> Imported:
    folder = market_data / "btcusd_l3_20260502"
    return read_sources([folder / "orders.csv.gz", folder / "trades.csv"])


def test_every_event_of_the_sample_is_accounted_for(sample: Imported, market_data: Path) -> None:
    with gzip.open(market_data / "btcusd_l3_20260502" / "orders.csv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream))
    count = sample.counts["events"]["BTC/USD"]
    assert count.read == len(rows) == 314_057
    assert (
        count.quarantined["bad price"] == sum(r["action"] == "created" and float(r["price"]) <= 0 for r in rows) == 27
    )
    assert count.quarantined["bad size"] == sum(r["action"] == "created" and float(r["volume"]) <= 0 for r in rows)
    created = {r["id"] for r in rows if r["action"] == "created" and float(r["price"]) > 0 and float(r["volume"]) > 0}
    assert count.quarantined["bad order"] == sum(r["action"] != "created" and r["id"] not in created for r in rows)
    assert sample.instruments["BTC/USD"].tick_size == "1"


def test_the_samples_book_is_the_set_of_living_orders(sample: Imported, market_data: Path) -> None:
    """Before the first lost deletion (event 35,101) the book is exactly the orders created and not yet deleted."""
    events = pl.read_csv(market_data / "btcusd_l3_20260502" / "orders.csv.gz").head(35_000).filter(pl.col("price") > 0)
    book = sample.frames["book"].filter(pl.col("ts_event") < events["exchange_timestamp"].max() * 1_000_000)
    for row in book[np.linspace(0, len(book) - 1, 25).astype(int).tolist()].iter_rows(named=True):
        past = events.filter(pl.col("exchange_timestamp") * 1_000_000 <= row["ts_event"])
        last = past.group_by("id").agg(pl.col("action", "volume").last(), pl.col("price", "direction").first())
        alive = last.filter((pl.col("action") != "deleted") & (pl.col("volume") > 0))
        for name in ("bid", "ask"):
            own = alive.filter(pl.col("direction") == name)
            levels = own.group_by("price").agg((pl.col("volume") * 1e8).round().cast(pl.Int64).sum(), pl.len())
            levels = levels.sort("price", descending=name == "bid").head(10)
            assert [row[f"{name}_px_{n:02d}"] for n in range(10)] == [int(p) * 10**9 for p in levels["price"]]
            assert [row[f"{name}_sz_{n:02d}"] for n in range(10)] == levels["volume"].to_list()
            assert [row[f"{name}_ct_{n:02d}"] for n in range(10)] == levels["len"].to_list()


def test_the_samples_book_never_crosses_and_explains_its_trades(sample: Imported) -> None:
    """Each trade's price is at or through the touch of the book before it: 283 of 284."""
    book = sample.frames["book"]
    assert not book.select((pl.col("bid_px_00") >= pl.col("ask_px_00")).any()).item()
    joined = sample.frames["trades"].join_asof(
        book.select("ts_event", "bid_px_00", "ask_px_00"), on="ts_event", allow_exact_matches=False
    )
    bought, sold = pl.col("side") == "B", pl.col("side") == "A"
    through = (bought & (pl.col("price") >= pl.col("ask_px_00"))) | (sold & (pl.col("price") <= pl.col("bid_px_00")))
    assert joined.select(through.sum()).item() >= 283
    assert joined["side"].value_counts().sort("side").rows() == [("A", 122), ("B", 162)]


def test_the_2015_book_agrees_with_the_venues_own_snapshots(market_data: Path) -> None:
    """After a first hour (the recording starts without a snapshot) 99.0 % of 28,937 snapshots have our best prices."""
    folder = market_data / "bitstamp_l3_20150501"
    result = read_sources([folder / "orders.csv.bz2", folder / "2015-05-01.log.bz2"])
    best = re.compile(r'(\d+) order_book \{"bids": \[\["([\d.]+)", "([\d.]+)"\].*?"asks": \[\["([\d.]+)", "([\d.]+)"\]')
    with bz2.open(folder / "2015-05-01.log.bz2", "rt") as stream:
        rows = [found.groups() for line in stream if (found := best.match(line))]
    snapshots = pl.DataFrame(
        {
            "ts_event": [int(r[0]) * 1_000_000 for r in rows],
            "bid": [round(float(r[1]) * 100) * 10_000_000 for r in rows],
            "ask": [round(float(r[3]) * 100) * 10_000_000 for r in rows],
        }
    )
    assert len(snapshots) == 29_992
    snapshots = snapshots.filter(pl.col("ts_event") > snapshots["ts_event"][0] + 3_600 * 10**9)
    joined = snapshots.join_asof(result.frames["book"].select("ts_event", "bid_px_00", "ask_px_00"), on="ts_event")
    same = (pl.col("bid") == pl.col("bid_px_00")) & (pl.col("ask") == pl.col("ask_px_00"))
    assert joined.select(same.mean()).item() > 0.985

    count = result.counts["events"]["BTC/USD"]
    assert (count.read, count.out) == (242_524, 241_965)
    assert result.counts["trades"]["BTC/USD"].out == 4_251
    assert (result.frames["trades"]["side"] == "N").mean() < 0.04


def test_both_files_of_a_recording_are_recognised(market_data: Path) -> None:
    names = [
        "btcusd_l3_20260502/orders.csv.gz",
        "btcusd_l3_20260502/trades.csv",
        "bitstamp_l3_20150501/2015-05-01.log.bz2",
    ]
    assert {detect(market_data / name) for name in names} == {"bitstamp"}
    assert detect(market_data / "tardis" / next(p.name for p in (market_data / "tardis").iterdir())) != "bitstamp"
