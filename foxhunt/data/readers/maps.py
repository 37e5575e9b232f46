"""Column maps: which column of a market-by-price table holds what; built-in ones by name, others as TOML files.

A TOML map looks like this (every key of `Layout` may be used; levels count from `first_level`):

    timezone = "Asia/Shanghai"
    [instrument]                 # defaults for every symbol, fields of foxhunt.data.schema.Instrument
    tick_size = "0.01"
    sessions = [["09:30", "11:30"], ["13:00", "14:57"]]
    [columns]
    ts_event = ["Date", "Time"]  # one column, or several joined by a blank
    instrument = "Code"
    bid_px = "BuyPrice{level}"
    ask_px = "SellPrice{level}"
    bid_sz = "BuyQty{level}"
    ask_sz = "SellQty{level}"
    first_level = 1
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from foxhunt.data.schema import LEVELS, Instrument
from foxhunt.data.units import check_timezone
from foxhunt.errors import DataError

_FIELDS: Final = ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct")


@dataclass(frozen=True)
class Layout:
    """Column names of one kind of table; level columns are patterns with `{level}`, such as BuyPrice{level}."""

    ts_event: tuple[str, ...]
    bid_px: str
    ask_px: str
    bid_sz: str
    ask_sz: str
    bid_ct: str | None = None
    ask_ct: str | None = None
    first_level: int = 1
    """Number of the best level in the column names."""
    instrument: str | None = None
    phase: str | None = None
    continuous: tuple[str, ...] = ()
    """Values of the phase column that mean continuous trading; other rows are quarantined."""
    cumulative_volume: str | None = None
    """Volume traded since the day's start; with `last_price`, trades are made of its growth."""
    last_price: str | None = None
    date_from_name: bool = False
    """The stamp column holds a clock time; the date is in the file's name or folder."""

    def level(self, name: str, level: int) -> str | None:
        """Column of a book field at a level counted from 0, None when the layout lacks the field."""
        pattern: str | None = getattr(self, name)
        return None if pattern is None else pattern.format(level=level + self.first_level)

    def needed(self) -> list[str]:
        """Columns without which the layout does not fit."""
        best = [self.level(name, 0) for name in _FIELDS[:4]]
        others = (self.instrument, self.phase, self.cumulative_volume, self.last_price)
        return [c for c in (*self.ts_event, *best, *others) if c is not None]

    def levels(self, columns: Iterable[str]) -> int:
        """How many of at most ten levels a table has."""
        present = set(columns)
        found = (all(self.level(name, n) in present for name in _FIELDS[:4]) for n in range(LEVELS))
        return next((n for n, complete in enumerate(found) if not complete), LEVELS)

    def book_columns(self, columns: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Pairs of canonical and source column for every level the table has."""
        present = set(columns)
        for n in range(self.levels(present)):
            for name in _FIELDS:
                if (source := self.level(name, n)) in present and source is not None:
                    yield f"{name}_{n:02d}", source


@dataclass(frozen=True)
class ColumnMap:
    """How to read tables of one origin: the layouts they come in and what is known of their instruments."""

    name: str
    layouts: tuple[Layout, ...]
    timezone: str = "UTC"
    instrument: dict[str, Any] = field(default_factory=dict)
    """Defaults of `Instrument` fields."""

    def layout(self, columns: Iterable[str]) -> Layout | None:
        """The first layout whose needed columns are all there."""
        present = set(columns)
        return next((layout for layout in self.layouts if present.issuperset(layout.needed())), None)

    def closest(self, columns: Iterable[str]) -> Layout:
        """The layout that lacks fewest columns, for error messages."""
        present = set(columns)
        return min(self.layouts, key=lambda layout: len(set(layout.needed()) - present))


_CANONICAL: Final = Layout(
    ts_event=("ts_event",),
    bid_px="bid_px_{level:02d}",
    ask_px="ask_px_{level:02d}",
    bid_sz="bid_sz_{level:02d}",
    ask_sz="ask_sz_{level:02d}",
    bid_ct="bid_ct_{level:02d}",
    ask_ct="ask_ct_{level:02d}",
    first_level=0,
)

MAPS: Final[dict[str, ColumnMap]] = {
    "ashare": ColumnMap(
        name="ashare",
        layouts=(
            # Tables already in canonical column names, with the day's volume, last price and trading phase.
            Layout(
                ts_event=("ts",),
                bid_px=_CANONICAL.bid_px,
                ask_px=_CANONICAL.ask_px,
                bid_sz=_CANONICAL.bid_sz,
                ask_sz=_CANONICAL.ask_sz,
                first_level=0,
                instrument="symbol",
                phase="phase",
                continuous=("3", "TRADE"),
                cumulative_volume="cum_vol",
                last_price="last",
            ),
            # Shenzhen snapshots.
            Layout(
                ts_event=("MDDate", "MDTime"),
                bid_px="BuyPrice{level}",
                ask_px="SellPrice{level}",
                bid_sz="BuyOrderQty{level}",
                ask_sz="SellOrderQty{level}",
                bid_ct="BuyNumOrders{level}",
                ask_ct="SellNumOrders{level}",
                instrument="SecurityID",
                phase="TradingPhaseCode",
                continuous=("3",),
                cumulative_volume="TotalVolumeTrade",
                last_price="LastPx",
            ),
            # Shanghai snapshots, one day a folder.
            Layout(
                ts_event=("UpdateTime",),
                bid_px="BidPrice{level}",
                ask_px="AskPrice{level}",
                bid_sz="BidVolume{level}",
                ask_sz="AskVolume{level}",
                bid_ct="NumOrdersB{level}",
                ask_ct="NumOrdersS{level}",
                instrument="SecurityID",
                phase="InstruStatus",
                continuous=("TRADE",),
                cumulative_volume="TradVolume",
                last_price="LastPrice",
                date_from_name=True,
            ),
        ),
        timezone="Asia/Shanghai",
        instrument={
            "tick_size": "0.01",
            "lot_size": "1",
            "order_lots": 100,
            "currency": "CNY",
            # Commission as commonly charged; stamp duty of 0.1 % on sells, in force until 2023-08-27 (0.05 % since).
            "maker_bps": 2.5,
            "taker_bps": 2.5,
            "sell_bps": 10.0,
            "sessions": (("09:30", "11:30"), ("13:00", "14:57")),
        },
    ),
    "canonical": ColumnMap(
        name="canonical",
        layouts=(
            Layout(**{f.name: getattr(_CANONICAL, f.name) for f in fields(Layout)} | {"instrument": "instrument"}),
            _CANONICAL,
        ),
    ),
}
"""Built-in maps. `canonical` reads the column names of `foxhunt.data.schema` with prices in currency."""


def find_map(name: str) -> ColumnMap:
    """A built-in map, or one read from a TOML file; raises `DataError` naming the file and what is wrong in it."""
    if name in MAPS:
        return MAPS[name]
    path = Path(name)
    if not path.is_file():
        raise DataError(f"no column map {name!r}; built-in maps: {', '.join(MAPS)}; or give the path of a TOML file")
    try:
        record = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{path} is no valid TOML ({error})") from error
    return _from_toml(path, record)


def _from_toml(path: Path, record: dict[str, Any]) -> ColumnMap:
    if unknown := set(record) - {"timezone", "instrument", "columns"}:
        raise DataError(f"{path}: unknown key {min(unknown)!r}; a map has timezone, [instrument] and [columns]")
    columns = dict(record.get("columns", {}))
    known = {f.name for f in fields(Layout)}
    if unknown := set(columns) - known:
        raise DataError(f"{path}: unknown key {min(unknown)!r} in [columns]; known: {', '.join(sorted(known))}")
    if missing := {"ts_event", "bid_px", "ask_px", "bid_sz", "ask_sz"} - set(columns):
        raise DataError(f"{path}: [columns] lacks {', '.join(sorted(missing))}")
    for name in (n for n in _FIELDS if n in columns):
        try:
            str(columns[name]).format(level=1)
        except (KeyError, IndexError, ValueError):
            raise DataError(f"{path}: {name} = {columns[name]!r} may hold {{level}} and no other braces") from None
        columns[name] = str(columns[name])
    stamp = columns["ts_event"]
    columns["ts_event"] = (stamp,) if isinstance(stamp, str) else tuple(stamp)
    columns["continuous"] = tuple(str(value) for value in columns.get("continuous", ()))
    defaults = dict(record.get("instrument", {}))
    if unknown := set(defaults) - ({f.name for f in fields(Instrument)} - {"symbol"}):
        raise DataError(f"{path}: unknown key {min(unknown)!r} in [instrument]")
    for name in ("tick_size", "lot_size"):
        if name in defaults:
            defaults[name] = str(defaults[name])
    if "sessions" in defaults:
        defaults["sessions"] = tuple((str(start), str(stop)) for start, stop in defaults["sessions"])
    timezone = check_timezone(str(record.get("timezone", "UTC")))
    return ColumnMap(path.stem, (Layout(**columns),), timezone, defaults)
