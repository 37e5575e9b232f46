"""OHLCV bars: any usual header, stamps at open or close, newest first, and real files counted apart."""

import csv
import gzip
from pathlib import Path

import polars as pl
import pytest

from foxhunt.data.readers import ImportOptions, detect, read_sources
from foxhunt.errors import DataError

NOON = 1_654_084_800 * 10**9
CSV = """\
Date,Open,High,Low,Close,Adj Close,Volume
2022-06-01 12:00:00,10.01,10.5,10,10.2,9.1,100
2022-06-01 12:05:00,10.2,10.3,10.1,10.15,9.1,0
2022-06-01 12:10:00,10.15,10.16,10.15,10.16,9.1,7
"""


def write(folder: Path, text: str, name: str = "ACME.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_column_names_are_found_in_any_case(tmp_path: Path) -> None:
    result = read_sources([write(tmp_path, CSV)], ImportOptions(tick_size="0.01"))
    assert result.frames["bars"].row(0) == (
        NOON,
        "ACME",
        10_010_000_000,
        10_500_000_000,
        10 * 10**9,
        10_200_000_000,
        100,
    )
    assert len(result.frames["bars"]) == 3


def test_bars_stamped_at_their_open_move_to_their_close(tmp_path: Path) -> None:
    result = read_sources([write(tmp_path, CSV)], ImportOptions(tick_size="0.01", stamp="open", every="5m"))
    assert result.frames["bars"]["ts_event"][0] == NOON + 300 * 10**9
    assert any("stamps moved from the bars' open to their close, 5m later" in note for note in result.notes)
    with pytest.raises(DataError, match="--stamp open needs --every"):
        ImportOptions(stamp="open")


def test_a_file_that_runs_newest_first_is_turned_round_and_said(tmp_path: Path) -> None:
    head, *rows = CSV.splitlines()
    result = read_sources([write(tmp_path, "\n".join([head, *reversed(rows)]))], ImportOptions(tick_size="0.01"))
    forward = read_sources([write(tmp_path, CSV)], ImportOptions(tick_size="0.01"))
    assert result.frames["bars"].equals(forward.frames["bars"])
    assert "ACME.csv: rows run newest first; turned round" in result.notes


def test_single_rows_out_of_order_and_repeated_stamps_are_quarantined(tmp_path: Path) -> None:
    text = CSV + "2022-06-01 12:07:00,10,10,10,10,9,1\n2022-06-01 12:10:00,10,10,10,10,9,1\n"
    result = read_sources([write(tmp_path, text)], ImportOptions(tick_size="0.01"))
    assert result.quarantine.select("row", "reason").rows() == [(4, "out of order"), (5, "duplicate")]


def test_volume_may_be_absent_and_lots_may_be_decimals(tmp_path: Path) -> None:
    without = read_sources([write(tmp_path, "time,o,h,l,c\n2022-06-01,10,11,9,10\n")], ImportOptions(tick_size="1"))
    assert without.frames["bars"]["volume"].to_list() == [None]
    text = "time,o,h,l,c,v\n2022-06-01,10,11,9,10,1.25\n2022-06-02,10,11,9,10,0.05\n"
    decimals = read_sources([write(tmp_path, text)], ImportOptions(tick_size="1"))
    assert decimals.instruments["ACME"].lot_size == "0.05"
    assert decimals.frames["bars"]["volume"].to_list() == [25, 1]


def test_one_symbol_of_several_can_be_kept(tmp_path: Path) -> None:
    rows = "".join(f"2022-06-0{d},{s},10,11,9,10\n" for d in range(1, 4) for s in "AB")
    path = write(tmp_path, "date,ticker,open,high,low,close\n" + rows, "both.csv")
    assert list(read_sources([path], ImportOptions(tick_size="1")).instruments) == ["A", "B"]
    one = read_sources([path], ImportOptions(tick_size="1", symbol="B"))
    assert one.counts["bars"]["B"].read == len(one.frames["bars"]) == 3
    assert "both.csv: 3 rows of other symbols than B are not read" in one.notes


def test_small_whole_volumes_are_single_lots(tmp_path: Path) -> None:
    rows = "time,o,h,l,c,v\n" + "".join(f"2022-06-0{d},10,11,9,10,{d}\n" for d in range(1, 6))
    result = read_sources([write(tmp_path, rows)], ImportOptions(tick_size="1"))
    assert result.instruments["ACME"].lot_size == "1"
    assert result.frames["bars"]["volume"].to_list() == [1, 2, 3, 4, 5]


def test_prices_without_a_grid_are_rounded_and_said(tmp_path: Path) -> None:
    rows = "\n".join(f"2022-06-{d:02d},{10 + d / 7},{11 + d / 7},{9 + d / 7},{10 + d / 9}" for d in range(1, 29))
    result = read_sources([write(tmp_path, "date,open,high,low,close\n" + rows)])
    assert result.instruments["ACME"].tick_size == "0.00001"
    assert any("the prices follow no tick; rounded to 0.00001" in note for note in result.notes)
    assert result.frames["bars"]["open"][0] == 10_142_860_000
    assert len(result.quarantine) == 0


def test_a_missing_column_is_named_with_what_was_looked_for(tmp_path: Path) -> None:
    path = write(tmp_path, CSV.replace("High", "Top"))
    with pytest.raises(DataError, match=r"lacks column high \(looked for high: high or h\); it has Date, Open, Top"):
        read_sources([path], ImportOptions(format="bars"))


@pytest.mark.parametrize("kind", ["feather", "parquet"])
def test_binary_tables_read_like_text(tmp_path: Path, kind: str) -> None:
    frame = pl.read_csv(write(tmp_path, CSV), try_parse_dates=True)
    path = tmp_path / f"ACME.{kind}"
    frame.write_ipc(path) if kind == "feather" else frame.write_parquet(path)
    text = read_sources([tmp_path / "ACME.csv"], ImportOptions(tick_size="0.01"))
    assert read_sources([path], ImportOptions(tick_size="0.01")).frames["bars"].equals(text.frames["bars"])


@pytest.mark.parametrize("kind", ["feather", "parquet", "csv"])
@pytest.mark.parametrize("content", [b"", b"PAR1 or ARROW1 but no more"])
def test_empty_and_damaged_tables_are_named(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / f"bars.{kind}"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"bars\.{kind}") as error:
        read_sources([path], ImportOptions(format="bars"))
    assert "\n" not in str(error.value)


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bars.feather"
    pl.read_csv(write(tmp_path, CSV)).clear().write_ipc(path)
    with pytest.raises(DataError, match=r"bars\.feather has no rows"):
        read_sources([path])


def test_every_real_file_is_counted_whole(market_data: Path) -> None:
    folder = market_data / "bars"
    files = [*(folder / "gbpusd_5m_2017").glob("GBPUSD_2017_1*.csv.gz"), *(folder / "fxcm").glob("*.csv")]
    assert len(files) == 13
    for path in files:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as stream:
            rows = list(csv.DictReader(stream))
        result = read_sources([path])
        ((symbol, count),) = result.counts["bars"].items()
        assert count.read == count.out == len(rows), path.name
        bars = result.frames["bars"]
        close = next(name for name in rows[0] if name.lower() == "close")
        assert bars["close"].to_list() == [round(float(r[close]) * 1e6) * 1000 for r in rows]
        assert result.instruments[symbol].tick_size == ("0.00001" if symbol == "GBPUSD" else "0.001")


def test_freqtrade_feathers_keep_their_prices_and_gaps(market_data: Path) -> None:
    path = market_data / "bars" / "freqtrade" / "UNITTEST_BTC-1m.feather"
    result = read_sources([path])
    raw = pl.read_ipc(path)
    bars = result.frames["bars"]
    assert len(bars) == len(raw) == 13_681
    assert bars["close"].to_list() == [round(p * 1e8) * 10 for p in raw["close"]]
    assert (bars["ts_event"].diff().drop_nulls() != 60 * 10**9).sum() == (
        raw["date"].diff().dt.total_seconds() != 60
    ).sum()


def test_yahoo_files_newest_first_and_with_empty_rows(market_data: Path) -> None:
    folder = market_data / "bars" / "yfinance_defects"
    newest_first = read_sources([folder / "4063-T-1d-bad-stock-split.csv"])
    assert newest_first.frames["bars"]["ts_event"].is_sorted()
    assert newest_first.frames["bars"]["close"][0] == 20_205 * 10**9, "the defect of the split is data, not dirt"
    empty = read_sources([folder / "1398-HK-1d-bad-div.csv"])
    assert empty.quarantine["reason"].to_list() == ["unreadable"]
    assert '"Datetime":"2024-07-05 00:00:00+08:00"' in empty.quarantine["record"][0]


def test_bar_files_are_recognised(market_data: Path) -> None:
    names = ["fxcm/usdjpy-m1-ask-2013.csv", "freqtrade/ADA_BTC-5m.feather", "gbpusd_5m_2017/GBPUSD_2017_0.csv.gz"]
    assert {detect(market_data / "bars" / name) for name in names} == {"bars"}
    assert detect(market_data / "bars" / "freqtrade" / "XRP_ETH-trades.feather") is None
