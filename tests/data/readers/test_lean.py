"""LEAN zips by hand, then the real ones against polars' own parser."""

import io
import zipfile
from pathlib import Path

import polars as pl
import pytest

from foxhunt.data.readers import detect, read_sources
from foxhunt.errors import DataError

HOUR = 3600 * 10**9


def archive(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("member.csv", text)
    return path


def raw(path: Path) -> pl.DataFrame:
    with zipfile.ZipFile(path) as file:
        return pl.read_csv(io.BytesIO(file.read(file.namelist()[0])), has_header=False)


def test_one_sided_quotes_complete_each_other_within_an_exchange(tmp_path: Path) -> None:
    text = "1000,100100,5,0,0,P,1,0\n2000,0,0,100300,7,Q,1,0\n3000,0,0,100200,6,P,1,0\n"
    path = archive(tmp_path / "tick" / "bac" / "20131007_quote.zip", text)
    assert detect(path) == "lean"
    book = read_sources([path]).frames["book"]
    midnight = 1381118400 * 10**9  # 2013-10-07 00:00 in New York, four hours behind UTC
    assert book.select("ts_event", "instrument", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00").rows() == [
        (midnight + 10**9, "BAC.P", 10_010_000_000, 5, None, None),
        (midnight + 2 * 10**9, "BAC.Q", None, None, 10_030_000_000, 7),
        (midnight + 3 * 10**9, "BAC.P", 10_010_000_000, 5, 10_020_000_000, 6),
    ]


def test_a_bar_zip_outside_its_folder_is_refused(tmp_path: Path) -> None:
    from foxhunt.data.readers import ImportOptions

    path = archive(tmp_path / "elsewhere" / "aapl.zip", "20200102 09:00,1,1,1,1,1\n")
    with pytest.raises(DataError, match="lies in no folder named minute, hour, daily"):
        read_sources([path], ImportOptions(format="lean"))


def test_real_hourly_bars_keep_their_values_over_daylight_saving(market_data: Path) -> None:
    path = market_data / "lean" / "equity" / "usa" / "hour" / "aapl.zip"
    result = read_sources([path])
    count = result.counts["bars"]["AAPL"]
    source = raw(path)
    assert count.read == len(source)
    assert len(result.quarantine) == count.read - count.out
    bars = result.frames["bars"]
    stamps = (
        source["column_0"]
        .str.to_datetime("%Y%m%d %H:%M")
        .dt.replace_time_zone("America/New_York")
        .dt.convert_time_zone("UTC")
        .dt.epoch("ns")
        + HOUR
    )
    kept = source.with_columns(stamps.alias("t")).filter(pl.col("t").is_in(bars["ts_event"].implode()))
    assert (kept["column_4"] * 100_000 == bars["close"]).all()
    assert (kept["column_5"] == bars["volume"]).all()


def test_real_ticks_are_each_accounted_for(market_data: Path) -> None:
    folder = market_data / "lean" / "equity" / "usa" / "tick" / "bac"
    trades = read_sources([folder / "20131007_trade.zip"])
    source = raw(folder / "20131007_trade.zip")
    assert trades.counts["trades"]["BAC"].out == len(source)
    assert trades.frames["trades"]["size"].sum() == source["column_2"].sum()
    quotes = read_sources([folder / "20131007_quote.zip"])
    counts = quotes.counts["book"].values()
    assert sum(count.read for count in counts) == len(raw(folder / "20131007_quote.zip"))
    assert len(quotes.quarantine) == sum(count.read - count.out for count in counts)
    book = quotes.frames["book"]
    assert (book["bid_px_00"] < book["ask_px_00"]).all()
