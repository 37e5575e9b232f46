"""Tardis CSV by hand, then the real files against polars' own parser."""

from pathlib import Path

import polars as pl
import pytest

from foxhunt.data.readers import ImportOptions, detect, read_sources
from foxhunt.errors import DataError

CHANGES = "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount\n"
US = 1_000


def change(stamp: int, snapshot: bool, side: str, price: float, amount: float) -> str:
    stamps = f"{1_700_000_000_000_000 + stamp},{1_700_000_000_000_100 + stamp}"
    return f"x,BTCUSDT,{stamps},{str(snapshot).lower()},{side},{price},{amount}\n"


def test_level_changes_make_a_book_from_the_first_snapshot_on(tmp_path: Path) -> None:
    path = tmp_path / "book.csv"
    path.write_text(
        CHANGES
        + change(0, False, "bid", 10.1, 9)
        + change(1, True, "bid", 10.1, 1)
        + change(1, True, "ask", 10.2, 2)
        + change(2, False, "bid", 10.1, 0)
        + change(2, False, "bid", 10.0, 4)
        + change(3, True, "ask", 10.4, 5)
    )
    assert detect(path) == "tardis"
    result = read_sources([path], ImportOptions(tick_size="0.1", lot_size="1"))
    columns = ("ts_event", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00")
    assert result.frames["book"].select(columns).rows() == [
        ((1_700_000_000_000_000 + 1) * US, 10_100_000_000, 1, 10_200_000_000, 2),
        ((1_700_000_000_000_000 + 2) * US, 10_000_000_000, 4, 10_200_000_000, 2),
        ((1_700_000_000_000_000 + 3) * US, None, None, 10_400_000_000, 5),
    ]
    assert result.quarantine.select("row", "reason").rows() == [(1, "no snapshot")]
    assert result.counts["events"]["BTCUSDT"].read == 6


def test_book_snapshots_keep_ten_levels(tmp_path: Path) -> None:
    names = [f"{side}[{n}].{field}" for n in range(12) for side in ("asks", "bids") for field in ("price", "amount")]
    values = [v for n in range(12) for v in (20 + n, 1 + n, 19 - n, 2 + n)]
    path = tmp_path / "book_snapshot_25.csv"
    header = "exchange,symbol,timestamp,local_timestamp," + ",".join(names)
    path.write_text(f"{header}\nx,A,1700000000000000,1700000000000001,{','.join(map(str, values))}\n")
    book = read_sources([path], ImportOptions(tick_size="1", lot_size="1")).frames["book"]
    assert book.select("ask_px_09", "ask_sz_09", "bid_px_09", "bid_sz_09").rows() == [(29 * 10**9, 10, 10 * 10**9, 11)]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "liquidations.csv"
    path.write_text("exchange,symbol,timestamp,price\nx,A,1,2\n")
    with pytest.raises(DataError, match=r"liquidations\.csv is no Tardis file"):
        read_sources([path], ImportOptions(format="tardis"))


def test_real_files_keep_every_row_and_value(market_data: Path) -> None:
    quotes, trades = (market_data / "tardis" / f"tardis_{kind}.csv" for kind in ("quotes", "trades"))
    result = read_sources([quotes, trades])
    assert result.instruments["BTCUSDT"].tick_size == "0.01"
    assert not len(result.quarantine)
    raw = pl.read_csv(quotes)
    book = result.frames["book"]
    assert (book["ts_event"] == raw["timestamp"] * US).all()
    for column, source, unit in (
        ("ask_px_00", "ask_price", 1e9),
        ("bid_px_00", "bid_price", 1e9),
        ("ask_sz_00", "ask_amount", 1e3),
        ("bid_sz_00", "bid_amount", 1e3),
    ):
        assert (book[column] == (raw[source] * unit).round().cast(pl.Int64)).all()
    raw = pl.read_csv(trades)
    ours = result.frames["trades"]
    assert (ours["price"] == (raw["price"] * 1e9).round().cast(pl.Int64)).all()
    assert (ours["size"] == (raw["amount"] * 1e3).round().cast(pl.Int64)).all()
    assert (ours["side"] == raw["side"].replace_strict({"buy": "B", "sell": "A"})).all()
