"""The canonical columns every reader produces and everything downstream relies on.

Names and meanings follow Databento's MBP-10, trades and OHLCV schemas. Prices are int64 in units of 1e-9
of the currency, stamps are int64 nanoseconds UTC, sizes are int64 counts of `Instrument.lot_size`.
A missing book level is null in price and size, never a sentinel.
"""

from dataclasses import asdict, dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from foxhunt.config import duration_ns
from foxhunt.errors import DataError

PRICE_SCALE: Final = 1_000_000_000
"""Integer price units in one unit of currency."""

LEVELS: Final = 10
"""Levels a side in the canonical book."""

Kind = Literal["book", "trades", "bars"]
KINDS: Final[tuple[Kind, ...]] = ("book", "trades", "bars")


def level_columns(field: str, levels: int = LEVELS) -> list[str]:
    """Column names of one book field, best level first: `level_columns("bid_px")` -> bid_px_00 ... bid_px_09."""
    return [f"{field}_{level:02d}" for level in range(levels)]


BOOK_FIELDS: Final = ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct")
BOOK_COLUMNS: Final = ["ts_event", "instrument", *(c for f in BOOK_FIELDS for c in level_columns(f))]
"""`*_ct` (order counts) are null where the source does not tell them."""
TRADE_COLUMNS: Final = ["ts_event", "instrument", "price", "size", "side"]
"""`side` is the aggressor: "A" sold (hit the bid), "B" bought (lifted the ask), "N" unknown."""
BAR_COLUMNS: Final = ["ts_event", "instrument", "open", "high", "low", "close", "volume"]
"""Bars are stamped at their close; `volume` is null where the source does not tell it."""
COLUMNS: Final[dict[Kind, list[str]]] = {"book": BOOK_COLUMNS, "trades": TRADE_COLUMNS, "bars": BAR_COLUMNS}

QUARANTINE_COLUMNS: Final = ["kind", "file", "row", "ts_event", "instrument", "reason", "record"]
"""`row` counts from 1 in the source (header excluded); `record` is the rejected row as JSON text."""

REASONS: Final[dict[str, str]] = {
    "crossed": "best bid above best ask",
    "bad book": "levels of one side are not in order of price",
    "locked": "best bid equals best ask in continuous trading",
    "out of order": "stamp before that of a row above it",
    "duplicate": "same stamp and content as the row above it",
    "bad price": "price is NaN, zero, negative or infinite",
    "off tick": "price is not a multiple of the tick",
    "bad size": "size is NaN, zero or negative",
    "off lot": "size is not a multiple of the lot",
    "sentinel": "price or size is the format's placeholder for nothing",
    "auction": "call auction or other phase without continuous trading",
    "outside session": "stamp outside the instrument's trading sessions",
    "stale snapshot": "a replayed snapshot older than the stream it opens",
    "no snapshot": "change of a book that is not known: before its snapshot, or after a gap in the feed",
    "stale update": "change that the book holds already",
    "off market": "trade outside the order book (insurance fund, negotiated, not eligible)",
    "bad order": "order event that contradicts the order's state (unknown id, negative rest)",
    "bad bar": "high below low, or open or close outside them",
    "unreadable": "a field cannot be parsed",
}
"""Quarantine reasons and what each says about the row; readers use these texts only."""


@dataclass(frozen=True)
class Instrument:
    """What must be known about an instrument to count its ticks, lots and money.

    Decimal quantities are text, so that 0.1 stays 0.1.
    """

    symbol: str
    tick_size: str
    """Smallest price step, in currency."""
    lot_size: str = "1"
    """Quantity of one lot, the unit of every size in the data."""
    order_lots: int = 1
    """Own orders are multiples of this many lots (100 for Chinese A-shares, where odd lots exist in the book)."""
    currency: str = "USD"
    multiplier: float = 1.0
    """Money that one unit of price is worth for one unit of quantity (50 for the ES future)."""
    maker_bps: float = 0.0
    """Fee on passive fills in basis points of notional; negative is a rebate."""
    taker_bps: float = 0.0
    """Fee on aggressive fills in basis points of notional."""
    sell_bps: float = 0.0
    """Extra tax on sells in basis points of notional (stamp duty)."""
    maker_per_lot: float = 0.0
    """Fee on passive fills, in currency for each lot."""
    taker_per_lot: float = 0.0
    """Fee on aggressive fills, in currency for each lot."""
    funding_bps: float = 0.0
    """Funding of a perpetual in basis points of the position's value, which longs pay and shorts receive."""
    funding_every: str = "8h"
    """Interval of funding, counted from midnight UTC."""
    timezone: str = "UTC"
    sessions: tuple[tuple[str, str], ...] = ()
    """Continuous trading in local clock time, ("09:30", "11:30"), half-open; empty means round the clock."""

    def __post_init__(self) -> None:
        for name in ("tick_size", "lot_size"):
            value = _decimal(name, getattr(self, name))
            if value <= 0:
                raise DataError(f"instrument {self.symbol}: {name} must be positive, not {value}")
        if Decimal(self.tick_size) * PRICE_SCALE % 1:
            raise DataError(f"instrument {self.symbol}: tick_size {self.tick_size} is finer than 1e-9")
        if self.order_lots < 1:
            raise DataError(f"instrument {self.symbol}: order_lots must be at least 1, not {self.order_lots}")
        if duration_ns(self.funding_every) <= 0:
            raise DataError(f"instrument {self.symbol}: funding_every must be longer than 0")

    @property
    def tick(self) -> int:
        """Tick in canonical price units (1e-9 of the currency)."""
        return int(Decimal(self.tick_size) * PRICE_SCALE)

    @property
    def tick_value(self) -> float:
        """Money that one lot gains when the price rises one tick."""
        return float(Decimal(self.tick_size) * Decimal(self.lot_size)) * self.multiplier

    def to_json(self) -> dict[str, Any]:
        """Plain JSON-ready form; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Instrument":
        """Rebuild from `to_json`; raises `DataError` on an unknown or missing field."""
        known = {f.name for f in fields(cls)}
        if unknown := set(record) - known:
            raise DataError(f"instrument metadata has unknown field {sorted(unknown)[0]!r}; known: {sorted(known)}")
        if missing := {"symbol", "tick_size"} - set(record):
            raise DataError(f"instrument metadata lacks {sorted(missing)[0]!r}")
        record = dict(record)
        record["sessions"] = tuple((str(a), str(b)) for a, b in record.get("sessions", ()))
        return cls(**record)


def _decimal(name: str, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise DataError(f"{name} must be a decimal number, not {text!r}") from None
