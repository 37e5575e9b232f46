"""LOBSTER pairs: hand-made rows, then a real file against its own text."""

import csv
from pathlib import Path

import pytest

from foxhunt.data.imported import Imported
from foxhunt.data.readers import ImportOptions, detect, read_sources
from foxhunt.errors import DataError

STEM = "ACME_2012-06-21_34200000_57600000_{}_2.csv"
OPEN = 1_340_285_400 * 10**9
"""09:30 in New York is 13:30 UTC in June."""
MESSAGES = """\
34200.000000001,1,11,100,1000000,1
34200.5,1,12,50,1001000,-1
34201.25,4,12,20,1001000,-1
34202,4,11,30,1000000,1
34203,5,0,10,1000500,1
34204,7,0,0,-1,-1
34205,1,13,5,999000,1
34206,7,0,0,1,-1
34207,3,13,5,999000,1
"""
EMPTY = "9999999999,0", "-9999999999,0"
BOOK = "\n".join(
    [
        f"{EMPTY[0]},1000000,100,{EMPTY[0]},{EMPTY[1]}",
        f"1001000,50,1000000,100,{EMPTY[0]},{EMPTY[1]}",
        f"1001000,30,1000000,100,{EMPTY[0]},{EMPTY[1]}",
        f"1001000,30,1000000,70,{EMPTY[0]},{EMPTY[1]}",
        f"1001000,30,1000000,70,{EMPTY[0]},{EMPTY[1]}",
        f"1001000,30,1000000,70,{EMPTY[0]},{EMPTY[1]}",
        f"1001000,30,1000000,70,{EMPTY[0]},999000,5",
        f"1001000,30,1000000,70,{EMPTY[0]},999000,5",
        f"1001000,30,1000000,70,{EMPTY[0]},-9999999999,4",
    ]
)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    message, book = tmp_path / STEM.format("message"), tmp_path / STEM.format("orderbook")
    message.write_text(MESSAGES)
    book.write_text(BOOK)
    return message, book


def test_books_and_trades_of_a_pair(pair: tuple[Path, Path]) -> None:
    result = read_sources(pair)
    columns = ("ts_event", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00", "bid_px_01")
    assert result.frames["book"].select(columns).rows()[:4] == [
        (OPEN + 1, 100 * 10**9, 100, None, None, None),
        (OPEN + 500_000_000, 100 * 10**9, 100, 100_100_000_000, 50, None),
        (OPEN + 1_250_000_000, 100 * 10**9, 100, 100_100_000_000, 30, None),
        (OPEN + 2_000_000_000, 100 * 10**9, 70, 100_100_000_000, 30, None),
    ]
    assert result.frames["trades"].select("ts_event", "price", "size", "side").rows() == [
        (OPEN + 1_250_000_000, 100_100_000_000, 20, "B"),  # a resting ask was executed
        (OPEN + 2_000_000_000, 100 * 10**9, 30, "A"),  # a resting bid was executed
        (OPEN + 3_000_000_000, 100_050_000_000, 10, "N"),  # a hidden order was executed
    ]
    assert list(result.instruments) == ["ACME"]


def test_a_halt_and_a_size_without_price_are_quarantined(pair: tuple[Path, Path]) -> None:
    result = read_sources(pair)
    assert result.quarantine.select("kind", "row", "reason").rows() == [
        ("book", 6, "auction"),
        ("book", 7, "auction"),
        ("book", 8, "auction"),
        ("book", 9, "sentinel"),
    ]


def test_the_partner_file_is_found_beside_the_named_one(pair: tuple[Path, Path]) -> None:
    assert read_sources([pair[1]]).frames["trades"].equals(read_sources(pair).frames["trades"])
    pair[0].unlink()
    with pytest.raises(DataError, match="needs its message file"):
        read_sources([pair[1]])


def test_a_pair_of_different_lengths_is_refused(pair: tuple[Path, Path]) -> None:
    pair[1].write_text(BOOK.rsplit("\n", 1)[0])
    with pytest.raises(DataError, match="has 8 rows, its message file 9; one of them is truncated"):
        read_sources(pair)


def test_files_of_other_shapes_are_named(pair: tuple[Path, Path]) -> None:
    pair[1].write_text("\n".join(line.rsplit(",", 1)[0] for line in BOOK.splitlines()))
    with pytest.raises(DataError, match="has 7 columns; a LOBSTER order book file has four a level"):
        read_sources(pair)
    pair[0].write_text("1,2,3\n")
    with pytest.raises(DataError, match="has 3 columns; a LOBSTER message file has 6"):
        read_sources(pair)
    other = pair[0].rename(pair[0].with_name("trades.csv"))
    with pytest.raises(DataError, match="not named like a LOBSTER file"):
        read_sources([other], ImportOptions(format="lobster"))


@pytest.fixture(scope="module")
def apple(market_data: Path) -> Imported:
    return read_sources([market_data / "lobster"])


def rows(market_data: Path, role: str) -> list[list[str]]:
    (path,) = (market_data / "lobster").glob(f"*_{role}_10.csv")
    return list(csv.reader(path.read_text().splitlines()))


def test_the_real_book_is_its_file_row_by_row(apple: Imported, market_data: Path) -> None:
    lines = rows(market_data, "orderbook")
    book, rejected = apple.frames["book"], set(apple.quarantine["row"])
    assert apple.counts["book"]["AAPL"].read == len(lines) == 999
    kept = [line for number, line in enumerate(lines, 1) if number not in rejected]
    for level in range(10):
        for offset, column in enumerate(
            (f"ask_px_{level:02d}", f"ask_sz_{level:02d}", f"bid_px_{level:02d}", f"bid_sz_{level:02d}")
        ):
            unit = 100_000 if "_px_" in column else 1
            assert book[column].to_list() == [int(line[4 * level + offset]) * unit for line in kept]
    # What was rejected are rows equal in message and book to the one above them.
    messages = rows(market_data, "message")
    for number in rejected:
        assert messages[number - 1] == messages[number - 2]
        assert lines[number - 1] == lines[number - 2]


def test_the_real_trades_are_its_executions(apple: Imported, market_data: Path) -> None:
    executions = [m for m in rows(market_data, "message") if m[1] in ("4", "5")]
    trades = apple.frames["trades"]
    assert trades["size"].to_list() == [int(m[3]) for m in executions]
    assert trades["price"].to_list() == [int(m[4]) * 100_000 for m in executions]
    sides = ["N" if m[1] == "5" else "A" if m[5] == "1" else "B" for m in executions]
    assert trades["side"].to_list() == sides
    assert len(executions) == 159


def test_lobster_files_are_recognised_by_name(market_data: Path) -> None:
    assert {detect(p) for p in (market_data / "lobster").glob("*.csv")} == {"lobster"}
