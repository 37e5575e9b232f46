"""What must hold for any input of a reader, and small inputs of every format to start from."""

import bz2
import gzip
import importlib.util
import io
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Final

from foxhunt.data.imported import Imported
from foxhunt.data.readers import ImportOptions, read_sources
from foxhunt.errors import FoxhuntError

SECONDS: Final = 10
"""Longest time one input may take; a reader that needs more hangs."""


@dataclass(frozen=True)
class Target:
    """One reader and the file that it is fed with."""

    name: str
    file: str
    """Name of the file that holds the input."""
    seeds: tuple[bytes, ...]
    format: str
    beside: tuple[tuple[str, bytes], ...] = ()
    """Files that complete it."""
    options: tuple[tuple[str, str], ...] = ()
    pack: Callable[[bytes], bytes] = bytes
    """Turns the input into the file: a zip of it, say, so that the fuzzer need not break the compression first."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in the main thread when the block takes longer."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(target: Target, data: bytes, folder: Path) -> bool:
    """Feed one input; whether it was read. Any error but the project's own, a hang or a lost row propagates."""
    path = folder / target.file
    path.write_bytes(target.pack(data))
    for name, content in target.beside:
        (folder / name).write_bytes(content)
    try:
        with time_limit(SECONDS):
            imported = read_sources([path], ImportOptions(format=target.format, **dict(target.options)))  # type: ignore[arg-type]  # text options only
    except FoxhuntError as error:
        if len(str(error).splitlines()) != 1:
            raise AssertionError(f"not one line: {error!r}") from error
        return False
    conserve(imported)
    return True


def conserve(imported: Imported) -> None:
    """Rows in = rows out + rows quarantined, and both are really there."""
    for kind, frame in imported.frames.items():
        out = sum(count.out for count in imported.counts.get(kind, {}).values())
        assert len(frame) == out, f"{kind}: {len(frame)} rows, {out} counted"
        assert frame["ts_event"].null_count() == 0, f"{kind}: a row without a stamp"
        assert frame["instrument"].null_count() == 0, f"{kind}: a row without an instrument"
    quarantined = sum(sum(c.quarantined.values()) for stage in imported.counts.values() for c in stage.values())
    assert len(imported.quarantine) == quarantined, f"{len(imported.quarantine)} in the ledger, {quarantined} counted"


def zipped(name: str) -> Callable[[bytes], bytes]:
    """Packs an input as the only member of a zip archive."""

    def pack(data: bytes) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(name, data)
        return buffer.getvalue()

    return pack


def targets() -> dict[str, Target]:
    """Every reader with inputs to start from, by name."""
    listed = [
        *_text_targets(),
        *_packed_targets(),
        *(_dbn_targets() if importlib.util.find_spec("databento_dbn") else ()),
    ]
    return {target.name: target for target in listed}


def _text_targets() -> list[Target]:
    message = b'{"stream":"btcusdt@depth","data":{"e":"depthUpdate","E":1700000000001,"T":1700000000000,"s":"BTCUSDT",'
    binance = (
        b'1700000000000000 {"lastUpdateId":9,"bids":[["10.1","1"]],"asks":[["10.2","2"]]}\n'
        b"1700000000001000 " + message + b'"U":9,"u":11,"pu":8,"b":[["10.1","3"]],"a":[["10.2","0"],["10.3","1.5"]]}}\n'
        b'1700000000002000 {"stream":"btcusdt@trade","data":{"e":"trade","E":1700000000002,"T":1700000000002,'
        b'"s":"BTCUSDT","p":"10.1","q":"1","X":"MARKET","m":true}}\n'
    )
    orders = (
        b"id,timestamp,exchange_timestamp,price,volume,action,direction\n"
        b"1,1700000000000,1700000000000,10,1.5,created,bid\n2,1700000000001,1700000000001,11,2,created,ask\n"
        b"1,1700000000002,1700000000002,10,1,changed,bid\n2,1700000000003,1700000000003,11,0,deleted,ask\n"
    )
    log = (
        b'1700000000000 order_created {"price": 10.5, "amount": 1.0, "id": 7, "order_type": 0}\n'
        b'1700000000001 trade {"price": 10.5, "amount": 1.0, "id": 1, "buy_order_id": 7, "sell_order_id": 8}\n'
    )
    levels = ",".join(f"{side}_{field}_{n:02d}" for side in ("bid", "ask") for field in ("px", "sz") for n in range(2))
    book = (
        f"ts_event,{levels}\n1700000000000000000,10,9,1,2,11,12,3,4\n1700000001000000000,10,9,1,2,11,12,3,5\n".encode()
    )
    bars = (
        b"date,open,high,low,close,volume\n2023-01-01 10:00:00,10,11,9,10.5,100\n2023-01-01 10:05:00,10.5,12,10,11,90\n"
    )
    message_file = b"34200.1,1,11,100,5853300,1\n34200.2,4,11,50,5853300,1\n34201.5,3,12,20,5853400,-1\n"
    book_file = b"5859400,200,5853300,18\n5859400,200,5853300,18\n5859400,200,5853100,18\n"
    common = b"exchange,symbol,timestamp,local_timestamp,"
    tick = b"x,A,1700000000000000,1700000000000100,"
    trades = common + b"id,side,price,amount\n" + tick + b"1,buy,10.5,2\n" + tick + b"2,sell,10.4,1\n"
    changes = (
        common + b"is_snapshot,side,price,amount\n" + tick + b"true,bid,10.1,1\n" + tick + b"true,ask,10.2,1\n"
        b"x,A,1700000000001000,1700000000001100,false,bid,10.1,0\n"
    )
    quotes = common + b"ask_amount,ask_price,bid_price,bid_amount\n" + tick + b"1,10.2,10.1,3\n"
    name = "AAPL_2012-06-21_34200000_57600000_{}_1.csv"
    return [
        Target("binance", "btc.dat", (binance,), "binance"),
        Target("bitstamp", "orders.csv", (orders,), "bitstamp"),
        Target("bitstamp-log", "day.log", (log,), "bitstamp"),
        Target("mbp", "book.csv", (book,), "mbp"),
        Target("tardis-trades", "trades.csv", (trades,), "tardis"),
        Target("tardis-changes", "changes.csv", (changes,), "tardis"),
        Target("tardis-quotes", "quotes.csv", (quotes,), "tardis"),
        Target("bars", "bars.csv", (bars,), "bars"),
        Target(
            "bars-local",
            "bars.csv",
            (bars,),
            "bars",
            options=(("timezone", "Europe/London"), ("stamp", "open"), ("every", "5m")),
        ),
        Target(
            "lobster-message",
            name.format("message"),
            (message_file,),
            "lobster",
            beside=((name.format("orderbook"), book_file),),
        ),
        Target(
            "lobster-book",
            name.format("orderbook"),
            (book_file,),
            "lobster",
            beside=((name.format("message"), message_file),),
        ),
    ]


def _packed_targets() -> list[Target]:
    import polars as pl

    bars = pl.DataFrame(
        {"date": ["2023-01-01", "2023-01-02"], "open": [1.0, 2], "high": [3.0, 3], "low": [1.0, 1], "close": [2.0, 2]}
    )
    parquet, feather = io.BytesIO(), io.BytesIO()
    bars.write_parquet(parquet)
    bars.write_ipc(feather)
    text = bars.write_csv().encode()
    return [
        Target("bars-parquet", "bars.parquet", (parquet.getvalue(),), "bars"),
        Target("bars-feather", "bars.feather", (feather.getvalue(),), "bars"),
        Target("bars-gzip", "bars.csv.gz", (gzip.compress(text),), "bars"),
        Target("bars-bzip2", "bars.csv.bz2", (bz2.compress(text),), "bars"),
        Target("bars-zip", "bars.zip", (zipped("bars.csv")(text),), "bars"),
    ]


def _dbn_targets() -> list[Target]:
    import databento_dbn as dbn

    base = {"publisher_id": 1, "instrument_id": 17, "ts_event": 10**18}
    trade = {"price": 10**10, "size": 2, "depth": 0, "ts_recv": 10**18 + 5}
    event = {"price": 10**10, "size": 2, "ts_recv": 10**18 + 5, "flags": 128}
    records = {
        "trades": [dbn.TradeMsg(**base, **trade, action=dbn.Action("T"), side=dbn.Side("B"))],
        "mbo": [
            dbn.MBOMsg(**base, **event, order_id=n, action=dbn.Action(action), side=dbn.Side(side))
            for n, action, side in ((1, "A", "B"), (2, "A", "A"), (1, "C", "B"))
        ],
        "ohlcv-1s": [dbn.OHLCVMsg(rtype=dbn.RType.OHLCV_1S, **base, open=10, high=12, low=9, close=11, volume=5)],
    }
    span = SimpleNamespace(start_date=date(1970, 1, 1), end_date=date(2100, 1, 1), symbol="17")
    return [
        Target(
            f"dbn-{schema}",
            "file.dbn",
            (
                dbn.Metadata(
                    dataset="GLBX.MDP3",
                    start=0,
                    stype_in=dbn.SType.RAW_SYMBOL,
                    stype_out=dbn.SType.INSTRUMENT_ID,
                    schema=dbn.Schema(schema),
                    symbols=["ESH4"],
                    mappings=[SimpleNamespace(raw_symbol="ESH4", intervals=[span])],
                ).encode()
                + b"".join(bytes(record) for record in messages),
            ),
            "dbn",
        )
        for schema, messages in records.items()
    ]
