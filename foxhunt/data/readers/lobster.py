"""LOBSTER: NASDAQ message and order book CSV pairs, `SYMBOL_DATE_START_END_message_10.csv` and `..._orderbook_10.csv`.

Row k of the order book is the book after message k. Times are seconds after midnight in New York, prices 1e-4 USD, a
missing level holds 9999999999 or -9999999999. Executions (types 4 and 5) name the resting order's direction, so the
aggressor is the other side; hidden orders (5) say nothing reliable about it. Source: lobsterdata.com, Data Structure.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from foxhunt.data.imported import Imported, merge
from foxhunt.data.readers.files import Part, csv_frame, load
from foxhunt.data.readers.options import ImportOptions
from foxhunt.data.schema import LEVELS, PRICE_SCALE
from foxhunt.data.units import to_stamps
from foxhunt.data.validate import Check, Source, sift_book, sift_trades
from foxhunt.errors import DataError

_NAME: Final = re.compile(
    r"(?P<symbol>.+)_(?P<date>\d{4}-\d{2}-\d{2})_\d+_\d+_(?P<role>message|orderbook)_(?P<levels>\d+)"
)
_MESSAGE: Final = ("time", "type", "order", "size", "price", "direction")
_SENTINEL: Final = 9_999_999_999
_PRICE_UNIT: Final = PRICE_SCALE // 10_000
_CROSS, _HALT = 6, 7
_EXECUTIONS: Final = (4, 5, _CROSS)
_DEFAULTS: Final = {
    "currency": "USD",
    "timezone": "America/New_York",
    "sessions": (("09:30", "16:00"),),
}


class _Pair(NamedTuple):
    symbol: str
    date: str
    messages: Path
    books: Path


def recognises(path: Path) -> bool:
    """Whether a file is named like one of LOBSTER's."""
    return _NAME.match(path.name) is not None


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read message files and their order book files, paired by name.

    Raises `DataError` when a partner is missing, the two differ in length, or a file is damaged.
    """
    return merge(_read_pair(pair, options) for pair in _pairs(paths))


def _pairs(paths: Sequence[Path]) -> list[_Pair]:
    by_role: dict[tuple[str, str, str], dict[str, Path]] = {}
    for path in paths:
        if not (match := _NAME.match(path.name)):
            raise DataError(
                f"{path} is not named like a LOBSTER file (AAPL_2012-06-21_34200000_57600000_message_10.csv)"
            )
        by_role.setdefault((match["symbol"], match["date"], match["levels"]), {})[match["role"]] = path
    pairs = []
    for (symbol, date, _), files in sorted(by_role.items()):
        known = next(iter(files.values()))
        for role, other in (("message", "orderbook"), ("orderbook", "message")):
            if role not in files:
                # The partner usually lies beside the file that was named.
                files[role] = known.with_name(known.name.replace(f"_{other}_", f"_{role}_"))
                if not files[role].exists():
                    raise DataError(f"{known} needs its {role} file; {files[role].name} is not beside it")
        pairs.append(_Pair(symbol, date, files["message"], files["orderbook"]))
    return pairs


def _read_pair(pair: _Pair, options: ImportOptions) -> Imported:
    notes: list[str] = []
    (message_part,), (book_part,) = load(pair.messages), load(pair.books)
    messages, books = _messages(message_part), _books(book_part, notes)
    if len(messages) != len(books):
        raise DataError(
            f"{pair.books} has {len(books)} rows, its message file {len(messages)}; one of them is truncated"
        )
    symbol = options.symbol or pair.symbol
    instrument = options.instrument(symbol, "0.01", "1", _DEFAULTS)
    stamped = _stamp(messages, pair.date, instrument.timezone).with_columns(pl.lit(symbol).alias("instrument"))
    phase = pl.when(pl.col("type") == _HALT).then(pl.col("price")).forward_fill().fill_null(1)
    stamped = stamped.with_columns((phase <= 0).alias("_halted"))
    halted: Check = ("auction", pl.col("_halted") | (pl.col("type") == _HALT))

    instruments = {symbol: instrument}
    message = stamped.rename({"size": "message_size", "price": "message_price"})
    book = pl.concat([message, books.drop("row")], how="horizontal")
    placeholder: Check = ("sentinel", pl.col("_sentinel"))
    book_sifted = sift_book(book, instruments, Source(str(pair.books)), [halted, placeholder])
    trades = _trades(stamped)
    cross: Check = ("auction", pl.col("_halted") | (pl.col("_type") == _CROSS))
    trade_sifted = sift_trades(trades, instruments, Source(str(pair.messages), messages), [cross])
    return Imported(
        instruments,
        {"book": book_sifted.passed, "trades": trade_sifted.passed},
        pl.concat([book_sifted.quarantine, trade_sifted.quarantine]),
        {"book": book_sifted.counts, "trades": trade_sifted.counts},
        [str(pair.messages), str(pair.books)],
        notes,
    )


def _messages(part: Part) -> pl.DataFrame:
    frame = csv_frame(part, has_header=False)
    if frame.width - 1 < len(_MESSAGE):
        raise DataError(f"{part.name} has {frame.width - 1} columns; a LOBSTER message file has {len(_MESSAGE)}")
    names = dict(zip([c for c in frame.columns if c != "row"], _MESSAGE, strict=False))
    return frame.select("row", *names).rename(names)


def _books(part: Part, notes: list[str]) -> pl.DataFrame:
    """Levels as int64 1e-9 prices and sizes; placeholders become null, and a size at one marks the row."""
    frame = csv_frame(part, has_header=False)
    width = frame.width - 1
    if width % 4 or not width:
        raise DataError(f"{part.name} has {width} columns; a LOBSTER order book file has four a level")
    if width // 4 > LEVELS:
        notes.append(f"{part.name}: levels beyond {LEVELS} are not read ({width // 4} in the file)")
    columns = [c for c in frame.columns if c != "row"]
    levels: list[pl.Expr] = []
    half_missing: list[pl.Expr] = []
    for level in range(min(width // 4, LEVELS)):
        for offset, side in ((0, "ask"), (2, "bid")):
            price = pl.col(columns[4 * level + offset]).cast(pl.Int64, strict=False)
            size = pl.col(columns[4 * level + offset + 1]).cast(pl.Int64, strict=False)
            present = price.abs() != _SENTINEL
            half_missing.append(~present & (size != 0))
            levels.append(pl.when(present).then(price * _PRICE_UNIT).alias(f"{side}_px_{level:02d}"))
            levels.append(pl.when(present).then(size).alias(f"{side}_sz_{level:02d}"))
    return frame.select("row", *levels, pl.any_horizontal(half_missing).alias("_sentinel"))


def _stamp(messages: pl.DataFrame, date: str, timezone: str) -> pl.DataFrame:
    """Numbers instead of text, and `ts_event` from the date and the seconds after local midnight, exact to the ns."""
    midnight = to_stamps(pl.Series([date]), timezone)[0]
    seconds = pl.col("time").str.extract(r"^(\d+)").cast(pl.Int64, strict=False)
    fraction = (
        pl.col("time").str.extract(r"\.(\d{1,9})").fill_null("0").str.pad_end(9, "0").cast(pl.Int64, strict=False)
    )
    return messages.select(
        "row",
        (midnight + seconds * 1_000_000_000 + fraction).alias("ts_event"),
        *(pl.col(name).cast(pl.Int64, strict=False) for name in _MESSAGE[1:]),
    )


def _trades(messages: pl.DataFrame) -> pl.DataFrame:
    side = pl.when(pl.col("type") != 4).then(pl.lit("N")).when(pl.col("direction") == 1).then(pl.lit("A"))
    return messages.filter(pl.col("type").is_in(_EXECUTIONS)).select(
        "row",
        "ts_event",
        "instrument",
        (pl.col("price") * _PRICE_UNIT).alias("price"),
        "size",
        side.otherwise(pl.lit("B")).alias("side"),
        "_halted",
        pl.col("type").alias("_type"),
    )
