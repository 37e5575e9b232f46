"""Raw Binance streams: the rules of snapshot and diffs by hand, then real recordings against an obvious replay."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from foxhunt.data.readers import ImportOptions, detect, read_sources
from foxhunt.errors import DataError

Levels = Sequence[tuple[str, str]]
MS = 1_000_000


def diff(
    arrival: int, first: int, final: int, bids: Levels = (), asks: Levels = (), previous: int | None = None
) -> str:
    data = {"e": "depthUpdate", "E": 1_700_000_000_000 + arrival, "s": "BTCUSDT", "U": first, "u": final}
    data |= {} if previous is None else {"pu": previous, "T": 1_700_000_000_000 + arrival - 1}
    data |= {"b": [list(level) for level in bids], "a": [list(level) for level in asks]}  # type: ignore[dict-item]  # levels
    return line(arrival, {"stream": "btcusdt@depth", "data": data})


def snapshot(arrival: int, last: int, bids: Levels, asks: Levels) -> str:
    return line(arrival, {"lastUpdateId": last, "bids": bids, "asks": asks})


def trade(arrival: int, price: str, size: str, maker: bool, **more: Any) -> str:
    data = {"e": "trade", "E": 1_700_000_000_000 + arrival, "T": 1_700_000_000_000 + arrival, "s": "BTCUSDT"}
    return line(arrival, {"stream": "btcusdt@trade", "data": data | {"p": price, "q": size, "m": maker} | more})


def line(arrival: int, message: dict[str, Any]) -> str:
    return f"{1_700_000_000_000_000_000 + arrival * MS} {json.dumps(message, separators=(',', ':'))}"


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str, name: str = "btc.gz") -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
        return path

    return write


def reasons(path: Path, **options: Any) -> list[tuple[int, str]]:
    ledger = read_sources([path], ImportOptions(**options)).quarantine
    return list(ledger.select("row", "reason").iter_rows())


BOOK = (("100.0", "1"), ("99.9", "2")), (("100.1", "3"), ("100.2", "4"))


def test_spot_diffs_written_before_their_snapshot_are_applied_with_it(record: Callable[..., Path]) -> None:
    path = record(
        diff(0, 90, 95, [("100.0", "9")]),
        diff(1, 96, 105, [("100.0", "5")]),
        diff(2, 106, 110, [], [("100.1", "0")]),
        snapshot(3, 100, *BOOK),
        diff(5, 111, 111, [("99.9", "0")]),
    )
    assert detect(path) == "binance"
    result = read_sources([path])
    book = result.frames["book"]
    assert book["ts_event"].to_list() == [(1_700_000_000_002 + n) * MS for n in (0, 3)]
    assert book.select("bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00").rows() == [
        (100_000_000_000, 5, 100_200_000_000, 4),
        (100_000_000_000, 5, 100_200_000_000, 4),
    ]
    assert book["bid_px_01"].to_list() == [99_900_000_000, None]
    assert book["bid_ct_00"].null_count() == 2
    assert list(result.quarantine.select("row", "reason").iter_rows()) == [(1, "stale update")]
    assert result.instruments["BTCUSDT"].tick_size == "0.1"
    assert result.counts["events"]["BTCUSDT"].read == 5


def test_futures_diffs_continue_by_the_previous_final_id(record: Callable[..., Path]) -> None:
    path = record(
        diff(0, 95, 99, [("100.0", "9")], previous=90),
        snapshot(1, 100, *BOOK),
        diff(2, 100, 103, [("100.0", "7")], previous=99),
        diff(3, 108, 109, [("100.0", "8")], previous=103),
    )
    book = read_sources([path]).frames["book"]
    assert book["bid_sz_00"].to_list() == [1, 7, 8]
    assert reasons(path) == [(1, "stale update")]


def test_a_gap_in_the_ids_forgets_the_book_until_the_next_snapshot(record: Callable[..., Path]) -> None:
    path = record(
        snapshot(0, 100, *BOOK),
        diff(1, 101, 102, [("100.0", "7")]),
        diff(2, 104, 105, [("100.0", "8")]),
        diff(3, 106, 107, [("100.0", "9")]),
        snapshot(4, 106, *BOOK),
        diff(5, 108, 108, [("100.0", "6")]),
    )
    result = read_sources([path])
    assert result.frames["book"]["bid_sz_00"].to_list() == [1, 7, None, 9, 6]
    assert reasons(path) == [(3, "stale update")]
    assert any("1 gaps in the update ids" in note for note in result.notes)


def test_changes_after_a_gap_without_a_snapshot_are_kept_as_such(record: Callable[..., Path]) -> None:
    path = record(snapshot(0, 100, *BOOK), diff(1, 102, 103, [("100.0", "7")]), diff(2, 104, 104, [("100.0", "8")]))
    assert reasons(path) == [(2, "no snapshot"), (3, "no snapshot")]


def test_a_snapshot_older_than_the_diffs_kept_waits_for_the_next(record: Callable[..., Path]) -> None:
    path = record(
        diff(0, 101, 105, [("100.0", "7")]), snapshot(1, 90, *BOOK), snapshot(2, 103, *BOOK), trade(3, "100", "1", True)
    )
    assert reasons(path) == [(2, "stale update")]
    assert read_sources([path]).frames["book"]["bid_sz_00"].to_list() == [7]


def test_a_recording_without_a_snapshot_asks_for_the_file_before(record: Callable[..., Path]) -> None:
    later = record(diff(9, 101, 101, [("100.0", "7")]), name="b.gz")
    with pytest.raises(DataError, match=r"b\.gz has book changes but no snapshot .* give the file before it"):
        read_sources([later])
    earlier = record(snapshot(0, 100, *BOOK), name="a.gz")
    assert read_sources([later, earlier]).frames["book"]["bid_sz_00"].to_list() == [1, 7]


def test_a_damaged_line_is_kept_and_breaks_the_book(record: Callable[..., Path]) -> None:
    cut = diff(1, 101, 101, [("100.0", "7")])[:-8]
    path = record(snapshot(0, 100, *BOOK), cut, diff(2, 102, 102, [("100.0", "8")]), "1700000000004000000 {nonsense}")
    assert reasons(path) == [(2, "unreadable"), (3, "no snapshot"), (4, "unreadable")]


def test_the_aggressor_sells_into_a_resting_buyer(record: Callable[..., Path]) -> None:
    path = record(
        trade(0, "100.0", "0.5", True),
        trade(1, "100.1", "0.25", False),
        trade(2, "100.1", "1", False, X="INSURANCE_FUND"),
        trade(3, "100.1", "0.25", False, X="MARKET"),
    )
    result = read_sources([path])
    assert result.frames["trades"].select("price", "size", "side").rows() == [
        (100_000_000_000, 2, "A"),
        (100_100_000_000, 1, "B"),
        (100_100_000_000, 1, "B"),
    ]
    assert list(result.quarantine.select("row", "reason").iter_rows()) == [(3, "off market")]


@pytest.mark.parametrize("unit", [1_000_000, 1_000, 1])
def test_local_stamps_of_any_unit_give_the_same_time(record: Callable[..., Path], unit: int) -> None:
    lines = [snapshot(0, 100, *BOOK), diff(1, 101, 101, [("100.0", "7")])]
    short = [f"{int(text.split(' ', 1)[0]) // unit} {text.split(' ', 1)[1]}" for text in lines]
    book = read_sources([record(*short)], ImportOptions(clock="arrival")).frames["book"]
    assert book["ts_event"].to_list() == [1_700_000_000_000 * MS, 1_700_000_000_001 * MS]


def test_several_instruments_are_refused(record: Callable[..., Path]) -> None:
    path = record(trade(0, "1", "1", True), trade(1, "1", "1", True).replace("BTCUSDT", "ETHUSDT"))
    with pytest.raises(DataError, match="holds BTCUSDT, ETHUSDT; import recordings of one instrument"):
        read_sources([path])


@pytest.mark.parametrize(
    ("files", "skipped"),
    [
        (("usdm_btcusdt_20230404.dat.gz",), 0),
        (("usdm_btcusdt_20240808.gz",), 4),
        (("spot_btcusdt_20240808.gz",), 2),
    ],
)
def test_real_books_equal_an_obvious_replay(
    market_data: Path, tmp_path: Path, files: tuple[str, ...], skipped: int
) -> None:
    head = [text for text in _lines(market_data / "binance_raw" / files[0], 2000) if "bookTicker" not in text]
    part = tmp_path / "part.gz"
    part.write_bytes(gzip.compress("".join(head).encode()))
    result = read_sources([part], ImportOptions(clock="arrival", tick_size="0.01", lot_size="0.000001"))
    assert result.counts["events"]["BTCUSDT"].quarantined.get("stale update", 0) == skipped
    assert result.counts["book"]["BTCUSDT"].quarantined == {}
    expected = _replay(head)
    columns = [
        f"{side}_{field}_{level:02d}" for side in ("bid", "ask") for level in range(10) for field in ("px", "sz")
    ]
    got = result.frames["book"].select("ts_event", *columns).rows()
    assert len(got) > 100
    assert got == expected


def _lines(file: Path, count: int) -> list[str]:
    with gzip.open(file, "rt") as stream:
        return [text for text, _ in zip(stream, range(count), strict=False)]


def _replay(lines: list[str]) -> list[tuple[int, ...]]:
    """Top ten levels after each message that changes them, by a JSON parser and two dictionaries."""
    sides: tuple[dict[str, str], dict[str, str]] = ({}, {})
    kept: list[dict[str, Any]] = []
    known = False
    rows: list[tuple[int, ...]] = []
    for text in lines:
        stamp, message = text.split(" ", 1)
        body = json.loads(message)
        body = body.get("data", body)
        batch = []
        if "lastUpdateId" in body:
            batch = [body, *(m for m in kept if m["u"] >= body["lastUpdateId"] + ("pu" not in m))]
            known = True
        elif body.get("e") == "depthUpdate":
            batch = [body] if known else []
            kept.append(body)
        for m in batch:
            for side, name in enumerate(("bids", "asks") if "bids" in m else ("b", "a")):
                for price, size in m[name]:
                    sides[side][price] = size
                    if float(size) == 0:
                        del sides[side][price]
        if batch:
            row = _top(sides)
            if not rows or rows[-1][1:] != row:
                rows.append((int(stamp) * (1 if len(stamp) == 19 else 1000), *row))
    return rows


def _top(sides: tuple[dict[str, str], dict[str, str]]) -> tuple[int, ...]:
    top: list[int] = []
    for side, sign in zip(sides, (-1, 1), strict=True):
        for price in sorted(side, key=lambda text: sign * float(text))[:10]:
            top += [round(float(price) * 1e9), round(float(side[price]) * 1e6)]
    return tuple(top)


def test_a_real_spot_file_continues_the_one_before_without_a_gap(market_data: Path) -> None:
    files = [market_data / "binance_raw" / f"spot_btcusdt_202408{day}.gz" for day in ("08", "09")]
    with pytest.raises(DataError, match=r"20240809\.gz has book changes but no snapshot"):
        read_sources([files[1]])
    result = read_sources(files)
    assert not any("gaps" in note for note in result.notes)
    assert result.counts["events"]["BTCUSDT"].quarantined == {"stale update": 2}
    assert result.counts["trades"]["BTCUSDT"].out == 19904
    quotes = _best_quotes(files[1])
    book = result.frames["book"]
    assert (book["bid_px_00"] < book["ask_px_00"]).all()
    # The venue's own best quotes, a stream of its own, name the touch of nearly every book.
    seen = set(quotes)
    later = book.filter(pl.col("ts_event") > 1_723_161_600 * 10**9)
    touch = later.select("bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00").rows()
    assert sum(row in seen for row in touch) / len(touch) > 0.99


def _best_quotes(file: Path) -> list[tuple[int, ...]]:
    quotes = []
    for text in _lines(file, 10**9):
        if "bookTicker" in text:
            data = json.loads(text.split(" ", 1)[1])["data"]
            quotes.append(
                tuple(round(float(data[key]) * scale) for key, scale in zip("bBaA", (1e9, 1e6) * 2, strict=True))
            )
    return quotes
