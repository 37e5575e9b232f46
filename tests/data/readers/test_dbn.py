"""Databento DBN: hand-made files, then real ones against the decoder's own objects."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

from foxhunt.data.readers import ImportOptions, read_sources
from foxhunt.data.readers.dbn_file import open_dbn
from foxhunt.errors import DataError

dbn = pytest.importorskip("databento_dbn")

UNDEFINED = 2**63 - 1
LAST, SNAPSHOT = 128, 32
DOLLAR = 1_000_000_000


def order(
    stamp: int, action: str, side: str, price: float, size: int, order_id: int, flags: int = LAST, **more: int
) -> Any:
    return dbn.MBOMsg(
        publisher_id=1,
        instrument_id=more.pop("instrument", 17),
        ts_event=stamp,
        order_id=order_id,
        price=UNDEFINED if price != price else round(price * DOLLAR),
        size=size,
        action=dbn.Action(action),
        side=dbn.Side(side),
        ts_recv=more.pop("received", stamp + 5),
        flags=flags,
    )


def trade(stamp: int, side: str, price: float, size: int, received: int | None = None, instrument: int = 17) -> Any:
    return dbn.TradeMsg(
        publisher_id=1,
        instrument_id=instrument,
        ts_event=stamp,
        price=round(price * DOLLAR),
        size=size,
        action=dbn.Action("T"),
        side=dbn.Side(side),
        depth=0,
        ts_recv=stamp + 5 if received is None else received,
    )


MBO = [
    order(1, "A", "B", 99.75, 5, 1, SNAPSHOT, received=100),
    order(2, "A", "A", 100.25, 4, 2, SNAPSHOT | LAST, received=100),
    order(110, "A", "B", 100.00, 3, 3),
    order(120, "T", "B", 100.25, 1, 0, 0),
    order(120, "F", "A", 100.25, 1, 2, 0),
    order(120, "C", "A", 100.25, 1, 2),
    order(130, "M", "A", 100.50, 2, 2),
    order(140, "C", "B", 99.75, 9, 1),
    order(150, "C", "B", 99.75, 5, 77),
    order(160, "A", "A", 100.00, 1, 5),
    order(170, "C", "A", 100.00, 1, 5),
]


def test_orders_become_a_book_and_trades(write_dbn: Any) -> None:
    result = read_sources([write_dbn("mbo", MBO)])
    columns = ("ts_event", "bid_px_00", "bid_sz_00", "bid_ct_00", "ask_px_00", "ask_sz_00")
    assert result.frames["book"].select(columns).rows() == [
        (100, 99_750_000_000, 5, 1, 100_250_000_000, 4),  # the snapshot counts from when it was known
        (110, 100_000_000_000, 3, 1, 100_250_000_000, 4),
        (120, 100_000_000_000, 3, 1, 100_250_000_000, 3),
        (130, 100_000_000_000, 3, 1, 100_500_000_000, 2),
        (170, 100_000_000_000, 3, 1, 100_500_000_000, 2),
    ]
    assert result.frames["trades"].rows() == [(120, "ESH4", 100_250_000_000, 1, "B")]
    assert result.quarantine.select("kind", "row", "reason").rows() == [
        ("events", 8, "bad order"),  # takes nine of five
        ("events", 9, "bad order"),  # never seen
        ("book", 5, "locked"),
    ]
    assert (result.counts["events"]["ESH4"].read, result.counts["events"]["ESH4"].out) == (11, 9)


def test_tick_is_the_divisor_of_all_prices_and_said_so(write_dbn: Any) -> None:
    result = read_sources([write_dbn("mbo", MBO)])
    assert result.instruments["ESH4"].tick_size == "0.25"
    assert any("ESH4: tick size 0.25 is the divisor of all prices" in note for note in result.notes)
    assert (
        read_sources([write_dbn("mbo", MBO)], ImportOptions(tick_size="0.05")).instruments["ESH4"].tick_size == "0.05"
    )


def test_prices_off_the_users_tick_are_quarantined(write_dbn: Any) -> None:
    result = read_sources(
        [write_dbn("trades", [trade(1, "A", 100.25, 1), trade(2, "B", 100.5, 2)])], ImportOptions(tick_size="0.5")
    )
    assert result.quarantine["reason"].to_list() == ["off tick"]
    assert result.frames["trades"]["price"].to_list() == [100_500_000_000]


def test_stamps_fall_back_to_capture_when_the_venues_are_not_in_order(write_dbn: Any) -> None:
    records = [
        trade(10, "A", 100, 1, received=11),
        trade(9, "B", 101, 2, received=12),
        trade(12, "N", 102, 3, received=13),
    ]
    path = write_dbn("trades", records)
    result = read_sources([path])
    assert result.frames["trades"].select("ts_event", "side").rows() == [(11, "A"), (12, "B"), (13, "N")]
    assert any("times of capture (ts_recv)" in note for note in result.notes)
    forced = read_sources([path], ImportOptions(clock="exchange"))
    assert forced.quarantine["reason"].to_list() == ["out of order"]


def test_order_is_judged_for_each_instrument(write_dbn: Any) -> None:
    records = [trade(10, "A", 100, 1), trade(9, "B", 50, 2, instrument=18), trade(12, "N", 102, 3)]
    result = read_sources([write_dbn("trades", records, symbols={17: "ESH4", 18: "NQH4"})])
    assert result.frames["trades"].select("ts_event", "instrument").rows() == [(10, "ESH4"), (9, "NQH4"), (12, "ESH4")]
    assert {s: i.tick_size for s, i in result.instruments.items()} == {"ESH4": "2", "NQH4": "50"}


def test_symbols_can_be_picked(write_dbn: Any) -> None:
    records = [trade(10, "A", 100, 1), trade(11, "B", 50, 2, instrument=18)]
    path = write_dbn("trades", records, symbols={17: "ESH4", 18: "NQH4"})
    assert list(read_sources([path], ImportOptions(symbol="NQH4")).instruments) == ["NQH4"]
    with pytest.raises(DataError, match="no rows of 'CLH4'; it holds ESH4, NQH4"):
        read_sources([path], ImportOptions(symbol="CLH4"))


def test_undefined_prices_are_missing_levels(write_dbn: Any) -> None:
    level = dbn.BidAskPair(bid_px=100 * DOLLAR, ask_px=UNDEFINED, bid_sz=3, ask_sz=0, bid_ct=2, ask_ct=0)
    message = dbn.MBP1Msg(
        publisher_id=1,
        instrument_id=17,
        ts_event=7,
        price=100 * DOLLAR,
        size=3,
        action=dbn.Action("A"),
        side=dbn.Side("B"),
        depth=0,
        ts_recv=9,
        levels=level,
    )
    row = read_sources([write_dbn("mbp-1", [message])]).frames["book"].row(0, named=True)
    assert (row["bid_px_00"], row["bid_sz_00"], row["bid_ct_00"]) == (100 * DOLLAR, 3, 2)
    assert [row[c] for c in ("ask_px_00", "ask_sz_00", "ask_ct_00", "bid_px_01")] == [None] * 4


def test_bars_move_to_their_close(write_dbn: Any) -> None:
    bar = dbn.OHLCVMsg(33, 1, 17, 60 * DOLLAR, 10 * DOLLAR, 12 * DOLLAR, 9 * DOLLAR, 11 * DOLLAR, 40)
    result = read_sources([write_dbn("ohlcv-1m", [bar])])
    assert result.frames["bars"].rows() == [
        (120 * DOLLAR, "ESH4", 10 * DOLLAR, 12 * DOLLAR, 9 * DOLLAR, 11 * DOLLAR, 40)
    ]


@pytest.mark.parametrize("compress", [False, True])
def test_a_truncated_file_is_named_with_its_place(write_dbn: Any, compress: bool) -> None:
    path = write_dbn("trades", [trade(n, "A", 100 + n, 1) for n in range(50)])
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[4:8], "little")
    if compress:
        path = path.with_name("file.dbn.zst")
        whole = zstandard.ZstdCompressor().compress(whole)
        path.write_bytes(whole[:-20])
        expected = rf"file\.dbn\.zst is truncated at byte {len(whole) - 20} "
    else:
        path.write_bytes(whole[:-20])
        expected = rf"file\.dbn is truncated: record 50 at byte {start + 49 * 48} is incomplete"
    with pytest.raises(DataError, match=expected) as error:
        read_sources([path])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("keep", [0, 3, 5, 60])
def test_a_file_cut_within_its_header_is_refused(write_dbn: Any, keep: int) -> None:
    path = write_dbn("trades", [trade(1, "A", 100, 1)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"file\.dbn (is empty|is truncated at byte \d|has no DBN header)"):
        read_sources([path])


def test_a_strange_record_is_named_with_its_place(write_dbn: Any) -> None:
    path = write_dbn("trades", [trade(1, "A", 100, 1), order(2, "A", "B", 99, 1, 1), trade(3, "A", 100, 1)])
    with pytest.raises(DataError, match=r"record 2 at byte \d+ is not of schema trades"):
        read_sources([path])


def test_a_file_without_records_is_refused(write_dbn: Any) -> None:
    with pytest.raises(DataError, match="has no records"):
        read_sources([write_dbn("trades", [])])


def fixtures(market_data: Path) -> Path:
    return market_data / "databento"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dbn_tests/tests/data/test_data.definition.v3.dbn.frag", "no DBN header"),
        ("dbn_tests/tests/data/test_data.definition.v1.dbn.frag.zst", "no DBN header"),
        ("dbn_tests/tests/data/test_data.mbo.dbz", "legacy DBZ; convert it"),
        ("dbn_tests/tests/data/test_data.imbalance.dbn", "holds schema imbalance; foxhunt reads mbp-1"),
        ("dbn_tests/tests/data/test_data.statistics.v2.dbn.zst", "holds schema statistics"),
        ("python_tests/tests/data/LIVE/test_data.live.dbn.zst", "holds schema mixed"),
        (
            "python_tests/tests/data/GLBX.MDP3/test_data.definition.dbn.zst",
            "defines instruments but holds no market data",
        ),
        ("dbn_tests/tests/data/test_data.ohlcv-1d.dbn", "has no records"),
    ],
)
def test_files_that_are_no_market_data_are_refused_in_one_line(market_data: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_sources([fixtures(market_data) / name])
    assert Path(name).name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("schema", ["mbp-1", "mbp-10", "trades", "ohlcv-1h", "ohlcv-1m", "ohlcv-1s"])
def test_every_version_and_compression_reads_the_same(market_data: Path, schema: str) -> None:
    folder = fixtures(market_data) / "dbn_tests" / "tests" / "data"
    names = [f"test_data.{schema}.dbn", *(f"test_data.{schema}.v{n}.dbn.zst" for n in (1, 2, 3))]
    results = [read_sources([folder / name]) for name in names]
    for kind, frame in results[0].frames.items():
        assert all(other.frames[kind].equals(frame) for other in results[1:])
    assert results[0].instruments == results[3].instruments
    assert list(results[0].instruments) == ["ESH1"]


def test_every_version_of_order_events_holds_the_same_records(market_data: Path) -> None:
    folder = fixtures(market_data) / "dbn_tests" / "tests" / "data"
    names = ["test_data.mbo.dbn", "test_data.mbo.v3.dbn", *(f"test_data.mbo.v{n}.dbn.zst" for n in (1, 2, 3))]
    records = [open_dbn(folder / name).records.tolist() for name in names]
    assert all(other == records[0] for other in records[1:])
    assert [row[5] for row in records[0]] == [647784973705, 647784973631], "order ids"


def decoded(path: Path) -> list[Any]:
    decoder = dbn.DBNDecoder()
    decoder.write(zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read())
    return list(decoder.decode()[1:])


@pytest.mark.parametrize(
    "name",
    [
        "python_tests/tests/data/GLBX.MDP3/test_data.mbp-10.dbn.zst",
        "python_tests/tests/data/XNAS.ITCH/test_data.mbp-10.dbn.zst",
        "nautilus/historical_bars_catalog/databento/futures_mbp-1_2024-07-01T23-58_2024-07-02T00-02.dbn.zst",
    ],
)
def test_book_updates_are_those_of_the_decoder(market_data: Path, name: str) -> None:
    path = fixtures(market_data) / name
    messages = decoded(path)
    result = read_sources([path])
    book = result.frames["book"]
    assert sum(c.read for c in result.counts["book"].values()) == len(messages)
    kept = [m for index, m in enumerate(messages) if index + 1 not in set(result.quarantine["row"])]
    assert book["ts_event"].to_list() == [m.ts_recv if m.flags & SNAPSHOT else m.ts_event for m in kept]
    for level in range(len(messages[0].levels)):
        for field in ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct"):
            price = field.replace("_sz", "_px").replace("_ct", "_px")
            expected = [
                None if getattr(m.levels[level], price) == UNDEFINED else getattr(m.levels[level], field) for m in kept
            ]
            assert book[f"{field}_{level:02d}"].to_list() == expected
    trades = [m for m in messages if str(m.action) == "T"]
    assert result.frames["trades"]["size"].to_list() == [m.size for m in trades]
    assert result.frames["trades"]["side"].to_list() == [str(m.side) for m in trades]


def test_stamps_out_of_order_by_event_take_the_capture_time(market_data: Path) -> None:
    path = fixtures(market_data) / "python_tests/tests/data/IFEU.IMPACT/test_data.mbp-10.dbn.zst"
    assert read_sources([path]).frames["book"]["ts_event"].to_list() == [m.ts_recv for m in decoded(path)]


def test_definitions_beside_the_data_supply_tick_and_multiplier(market_data: Path) -> None:
    folder = fixtures(market_data) / "nautilus" / "historical_bars_catalog" / "databento"
    result = read_sources([folder])
    known = {s: (i.tick_size, i.multiplier, i.currency) for s, i in result.instruments.items()}
    assert known == {"ESU4": ("0.25", 50.0, "USD"), "NQU4": ("0.25", 20.0, "USD")}
    assert {kind: len(frame) for kind, frame in result.frames.items()} == {"book": 2288, "trades": 120, "bars": 60}
    assert "trades of ESU4 come from the trades files, not from the book's" in result.notes


def test_the_futures_day_is_the_book_of_its_living_orders(market_data: Path) -> None:
    """68,792 order events of a CME session against a replay that recounts every level, at every 400th row."""
    path = market_data / "es_mbo" / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"
    result = read_sources([path], ImportOptions(multiplier=50))
    counts = result.counts["events"]["ESH4"]
    assert (counts.read, counts.out, counts.quarantined) == (68_792, 68_792, {})
    assert result.counts["book"]["ESH4"].quarantined == {"crossed": 143}
    assert result.frames["trades"]["side"].value_counts().sort("side")["count"].to_list() == [1430, 1542, 1]

    book = result.frames["book"]
    crossed_until = result.quarantine["ts_event"].max()
    assert crossed_until < np.datetime64("2023-12-25T23:00:00", "ns").astype(int), "the pre-open auction alone crosses"
    rows = {row["ts_event"]: row for row in book.unique("ts_event", keep="last").sort("ts_event").iter_rows(named=True)}
    chosen = set(sorted(rows)[::400])
    orders: dict[int, tuple[str, int, int]] = {}
    messages = decoded(path)
    seen = 0
    for index, m in enumerate(messages):
        action = str(m.action)
        if action in ("A", "M"):
            orders[m.order_id] = (str(m.side), m.price, m.size)
        elif action == "C":
            side, price, size = orders[m.order_id]
            if size == m.size:
                del orders[m.order_id]
            else:
                orders[m.order_id] = (side, price, size - m.size)
        following = messages[index + 1].ts_event if index + 1 < len(messages) else None
        if m.ts_event in chosen and following != m.ts_event:
            seen += 1
            for side, name in (("B", "bid"), ("A", "ask")):
                levels: dict[int, list[int]] = defaultdict(list)
                for own, price, size in orders.values():
                    if own == side:
                        levels[price].append(size)
                best = sorted(levels, reverse=side == "B")[:10]
                row = rows[m.ts_event]
                assert [row[f"{name}_px_{n:02d}"] for n in range(10)] == best
                assert [row[f"{name}_sz_{n:02d}"] for n in range(10)] == [sum(levels[p]) for p in best]
                assert [row[f"{name}_ct_{n:02d}"] for n in range(10)] == [len(levels[p]) for p in best]
    assert seen > 50


def test_the_snapshot_of_the_day_before_counts_from_its_capture(market_data: Path) -> None:
    path = market_data / "es_mbo" / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"
    book = read_sources([path]).frames["book"]
    assert pl.from_epoch(book["ts_event"][:1], "ns").dt.date()[0].isoformat() == "2023-12-25"
    assert book["bid_px_00"][0] == 4799 * DOLLAR
    assert book["ask_px_00"][0] == 4_799_500_000_000


SAMPLED = ("bbo-1s", "bbo-1m", "cbbo-1s", "cmbp-1", "tbbo")


@pytest.mark.parametrize("schema", SAMPLED)
def test_real_quotes_of_every_schema_equal_the_decoders(market_data: Path, schema: str) -> None:
    files = sorted((market_data / "databento" / "dbn_tests" / "tests" / "data").glob(f"test_data.{schema}.*dbn.zst"))
    assert len(files) >= 2
    for file in files:
        decoder = dbn.DBNDecoder(upgrade_policy=dbn.VersionUpgradePolicy.AS_IS)
        decoder.write(zstandard.ZstdDecompressor().stream_reader(file.read_bytes(), read_across_frames=True).read())
        records = decoder.decode()[1:]
        result = read_sources([file])
        book = result.frames["book"]
        assert book["bid_px_00"].to_list() == [record.levels[0].bid_px for record in records]
        assert book["ask_sz_00"].to_list() == [record.levels[0].ask_sz for record in records]
        sampled = schema.removeprefix("c").startswith("bbo")
        if sampled:
            assert book["ts_event"].to_list() == [record.ts_recv for record in records]
        trades = [r.price for r in records if not sampled and str(r.action) == "T"]
        kept = result.frames["trades"]["price"].to_list() if "trades" in result.frames else []
        assert kept == trades
