"""Market-by-price tables through a column map: A-share files as they are, and hand-made ones."""

import csv
import io
import zipfile
from bisect import bisect_left
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foxhunt.data.imported import Imported
from foxhunt.data.readers import ImportOptions, detect, read_sources
from foxhunt.errors import DataError

TOML = """
timezone = "Asia/Shanghai"
[instrument]
tick_size = "0.01"
currency = "CNY"
sessions = [["09:30", "11:30"]]
[columns]
ts_event = ["Date", "Time"]
instrument = "Code"
bid_px = "Buy{level}"
bid_sz = "BuyQty{level}"
ask_px = "Sell{level}"
ask_sz = "SellQty{level}"
phase = "Phase"
continuous = ["T"]
cumulative_volume = "Volume"
last_price = "Last"
"""
CSV = """\
Date,Time,Code,Buy1,BuyQty1,Sell1,SellQty1,Phase,Volume,Last,Unused
2022.06.01,09:29:00,X,80.90,100,80.90,100,C,500,80.90,
2022.06.01,09:30:00,X,80.90999999999998,100,80.93,300,T,700,80.92,
2022.06.01,09:30:03,X,80.91,200,80.92,400,T,900,80.93,
2022.06.01,09:30:06,X,80.91,200,80.92,400,T,900,80.93,
2022.06.01,09:30:09,X,80.90,200,80.92,400,T,1000,80.91,
2022.06.01,09:30:12,X,80.90,200,0,0,T,1050,80.91,
2022.06.01,12:00:00,X,80.90,200,80.92,400,T,1060,80.91,
"""


@pytest.fixture
def mapped(tmp_path: Path) -> tuple[Path, ImportOptions]:
    (tmp_path / "map.toml").write_text(TOML)
    (tmp_path / "day.csv").write_text(CSV)
    return tmp_path / "day.csv", ImportOptions(map=str(tmp_path / "map.toml"))


def test_a_toml_map_names_the_columns(mapped: tuple[Path, ImportOptions]) -> None:
    result = read_sources([mapped[0]], mapped[1])
    start = 1_654_047_000 * 10**9  # 09:30 in Shanghai
    columns = ("ts_event", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00", "bid_px_01")
    assert result.frames["book"].select(columns).rows() == [
        (start, 80_910_000_000, 100, 80_930_000_000, 300, None),
        (start + 3 * 10**9, 80_910_000_000, 200, 80_920_000_000, 400, None),
        (start + 6 * 10**9, 80_910_000_000, 200, 80_920_000_000, 400, None),
        (start + 9 * 10**9, 80_900_000_000, 200, 80_920_000_000, 400, None),
        (start + 12 * 10**9, 80_900_000_000, 200, None, None, None),
    ]
    assert result.quarantine.select("row", "reason").rows() == [(1, "auction"), (7, "outside session")]
    assert result.instruments["X"].currency == "CNY"


def test_trades_are_the_growth_of_volume_signed_against_the_book_before(mapped: tuple[Path, ImportOptions]) -> None:
    trades = read_sources([mapped[0]], mapped[1]).frames["trades"]
    start = 1_654_047_000 * 10**9
    assert trades.select("ts_event", "price", "size", "side").rows() == [
        (start, 80_920_000_000, 200, "N"),  # no book before it
        (start + 3 * 10**9, 80_930_000_000, 200, "B"),  # at the ask before it
        (start + 9 * 10**9, 80_910_000_000, 100, "A"),  # at the bid before it
        (start + 12 * 10**9, 80_910_000_000, 50, "N"),  # inside the spread
    ]


def test_shrinking_volume_is_quarantined_among_the_trades(mapped: tuple[Path, ImportOptions]) -> None:
    path, options = mapped
    path.write_text(CSV.replace(",900,80.93,\n2022.06.01,09:30:09", ",600,80.93,\n2022.06.01,09:30:09"))
    result = read_sources([path], options)
    count = result.counts["trades"]["X"]
    assert (count.read, count.out, count.quarantined) == (5, 4, {"bad size": 1})


def test_a_symbol_can_be_picked(mapped: tuple[Path, ImportOptions]) -> None:
    path, options = mapped
    path.write_text(CSV + "2022.06.01,09:30:00,Y,8.10,100,8.12,300,T,700,8.1,\n")
    both = read_sources([path], options)
    assert list(both.instruments) == ["X", "Y"]
    one = read_sources([path], ImportOptions(map=options.map, symbol="Y"))
    assert one.frames["book"]["bid_px_00"].to_list() == [8_100_000_000]
    assert any("7 rows of other symbols than Y" in note for note in one.notes)
    with pytest.raises(DataError, match="has no rows of 'Z'; it holds X, Y"):
        read_sources([path], ImportOptions(map=options.map, symbol="Z"))


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[columns", "no valid TOML"),
        ("[colums]\na=1", "unknown key 'colums'"),
        ("[columns]\nts_event='t'", "lacks ask_px, ask_sz, bid_px, bid_sz"),
        ("[columns]\nprice='t'", "unknown key 'price'"),
        (
            "[instrument]\ntick='1'\n[columns]\nts_event='t'\nbid_px='b'\nask_px='a'\nbid_sz='c'\nask_sz='d'",
            "unknown key 'tick'",
        ),
        (
            "timezone='Mars'\n[columns]\nts_event='t'\nbid_px='b'\nask_px='a'\nbid_sz='c'\nask_sz='d'",
            "unknown time zone",
        ),
    ],
)
def test_a_faulty_map_is_explained(mapped: tuple[Path, ImportOptions], toml: str, message: str) -> None:
    path, options = mapped
    Path(str(options.map)).write_text(toml)
    with pytest.raises(DataError, match=message):
        read_sources([path], options)


def test_an_unknown_map_lists_the_built_in_ones(mapped: tuple[Path, ImportOptions]) -> None:
    with pytest.raises(DataError, match="no column map 'asahre'; built-in maps: ashare, canonical"):
        read_sources([mapped[0]], ImportOptions(map="asahre"))


def test_a_table_without_a_mapped_column_is_named(mapped: tuple[Path, ImportOptions]) -> None:
    mapped[0].write_text(CSV.replace("SellQty1", "Ask1Volume"))
    with pytest.raises(DataError, match=r"day\.csv lacks column SellQty1 of map map"):
        read_sources([mapped[0]], mapped[1])


def test_canonical_names_need_no_map_and_tick_and_lot_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "ETH.csv"
    path.write_text("ts_event,bid_px_00,bid_sz_00,ask_px_00,ask_sz_00\n1654047000,10.5,0.25,11,1.5\n")
    result = read_sources([path], ImportOptions(tick_size="0.5", lot_size="0.25"))
    row = result.frames["book"].row(0, named=True)
    assert (row["instrument"], row["bid_sz_00"], row["ask_sz_00"]) == ("ETH", 1, 6)
    assert result.instruments["ETH"].lot_size == "0.25"


def test_a_row_without_symbol_is_unreadable(mapped: tuple[Path, ImportOptions]) -> None:
    path, options = mapped
    path.write_text(CSV + "2022.06.01,09:31:00,,8.10,100,8.12,300,T,700,8.1,\n")
    result = read_sources([path], options)
    assert result.quarantine.filter(pl.col("instrument") == "").select("row", "reason").rows() == [(8, "unreadable")]
    assert list(result.instruments) == ["X"]
    assert (result.counts["book"][""].read, result.counts["book"][""].out) == (1, 0)


cells = st.sampled_from(["", "nan", "inf", "x", "-1", "0", "1e30", "80.9", "80.905", "80.91", "100", "2e19"])
lines = st.tuples(
    st.sampled_from(["2022.06.01", "1e99", "2900-01-01", ""]),
    st.sampled_from(["09:30:00", "09:30:03", "10:00:00.5", "25:00:00", ""]),
    st.sampled_from(["X", "Y", ""]),
    *[cells] * 4,
    st.sampled_from(["T", "C", ""]),
    *[cells] * 2,
    st.just(""),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lines, min_size=1, max_size=8))
def test_whatever_a_table_holds_no_row_is_lost(
    mapped: tuple[Path, ImportOptions], drawn: list[tuple[str, ...]]
) -> None:
    """A good first row keeps the import alive; every other one ends up stored or in the ledger."""
    path, options = mapped
    head, _, good, *_ = CSV.splitlines()
    path.write_text("\n".join([head, good, *(",".join(line) for line in drawn)]) + "\n")
    result = read_sources([path], options)
    book, ledger = result.frames["book"], result.quarantine.filter(pl.col("kind") == "book")
    assert len(book) + len(ledger) == 1 + len(drawn) == sum(c.read for c in result.counts["book"].values())
    assert ledger["row"].n_unique() == len(ledger)
    for kind, count in ((k, c) for k, by_symbol in result.counts.items() for c in by_symbol.values()):
        assert count.read == count.out + sum(count.quarantined.values()), kind
    assert not book.select((pl.col("bid_px_00") >= pl.col("ask_px_00")).any()).item()
    assert (book["bid_px_00"].drop_nulls() % 10_000_000 == 0).all()


FIVE = "SZ5_20220601_mbp10.parquet"


@pytest.fixture(scope="module")
def five(market_data: Path) -> Imported:
    return read_sources([market_data / "ashare_l2" / FIVE])


def test_a_share_rows_are_those_of_continuous_trading(five: Imported, market_data: Path) -> None:
    raw = pl.read_parquet(market_data / "ashare_l2" / FIVE)
    clock = pl.col("ts").dt.time()
    open_hours = clock.is_between(pl.time(9, 30), pl.time(11, 30), closed="left") | clock.is_between(
        pl.time(13, 0), pl.time(14, 57), closed="left"
    )
    for symbol, count in five.counts["book"].items():
        own = raw.filter(pl.col("symbol") == symbol)
        assert count.read == len(own)
        assert count.out == len(own.filter(open_hours & (pl.col("phase") == 3)))
        assert count.quarantined["auction"] == len(own.filter(pl.col("phase") != 3))
    assert sum(c.read for c in five.counts["book"].values()) == 20_980


def test_a_share_prices_are_rounded_from_float_noise(five: Imported, market_data: Path) -> None:
    raw = pl.read_parquet(market_data / "ashare_l2" / FIVE).filter(pl.col("symbol") == "300274.SZ")
    book = five.frames["book"].filter(pl.col("instrument") == "300274.SZ")
    local = (pl.from_epoch(book["ts_event"], "ns").dt.offset_by("8h")).dt.cast_time_unit("ms")
    joined = book.with_columns(local.alias("ts")).join(raw, on="ts", suffix="_raw")
    for side in ("bid", "ask"):
        for level in ("00", "09"):
            expected = [round(p * 100) * 10_000_000 for p in joined[f"{side}_px_{level}_raw"]]
            assert joined[f"{side}_px_{level}"].to_list() == expected
    assert len(joined) == len(book)


def test_the_raw_archive_gives_the_same_books_as_its_parquet(five: Imported, market_data: Path) -> None:
    archive = read_sources([market_data / "ashare_l2" / "SZ5_snapshot_20220601.zip"])
    order = ["instrument", "ts_event"]
    for kind in ("book", "trades"):
        columns = [c for c in five.frames[kind].columns if "_ct_" not in c]
        ours, theirs = (f.frames[kind].select(columns).sort(order, maintain_order=True) for f in (archive, five))
        assert ours.equals(theirs)
    assert archive.frames["book"]["bid_ct_00"].min() == 1


def test_inferred_trades_match_the_exchanges_trade_file(market_data: Path) -> None:
    """One stock's day: the volume is that of its trade file but for the last snapshot's three seconds, and the quote
    rule finds the side with the larger volume in 73 % of the intervals."""
    path = market_data / "ashare_l2" / "SH600519_l3_20230201.zip"
    result = read_sources([path])
    trades = result.frames["trades"]
    with zipfile.ZipFile(path) as archive:
        rows = list(csv.DictReader(io.TextIOWrapper(archive.open("20230201/trade.csv"))))
    continuous = [r for r in rows if "09:30:00" < r["TradTime"] < "11:30" or "13:00" <= r["TradTime"] < "14:57"]
    assert 0 <= sum(int(r["TradVolume"]) for r in continuous) - trades["size"].sum() <= 500

    stamps = result.frames["book"]["ts_event"].unique().sort().to_list()
    net = dict.fromkeys(stamps, 0)
    midnight = 1_675_180_800 * 10**9
    for r in continuous:
        hours, minutes, seconds = r["TradTime"].split(":")
        stamp = midnight + round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000) * 10**6
        if (index := bisect_left(stamps, stamp)) < len(stamps):
            net[stamps[index]] += int(r["TradVolume"]) * {"B": 1, "S": -1}[r["TradeBSFlag"]]
    decided = [(net[t], side) for t, side in trades.select("ts_event", "side").rows() if side != "N" and net[t]]
    assert len(decided) > 3_000
    assert sum((value > 0) == (side == "B") for value, side in decided) / len(decided) > 0.72
    assert any("entrust.csv is not used" in note for note in result.notes)


def test_a_share_instruments_know_their_rules(five: Imported) -> None:
    instrument = five.instruments["000400.SZ"]
    assert (instrument.tick_size, instrument.order_lots, instrument.currency) == ("0.01", 100, "CNY")
    assert (instrument.sell_bps, instrument.taker_bps) == (10.0, 2.5)
    assert instrument.sessions == (("09:30", "11:30"), ("13:00", "14:57"))


def test_a_share_files_are_recognised(market_data: Path) -> None:
    files = [p for p in (market_data / "ashare_l2").iterdir() if p.suffix in (".parquet", ".zip")]
    assert len(files) == 4
    assert {detect(file) for file in files} == {"mbp"}
