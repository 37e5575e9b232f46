"""What a user may say about the files to import; the command line's flags are made of this."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from foxhunt.config import duration_ns
from foxhunt.data.schema import Instrument
from foxhunt.data.units import check_timezone, fallback_step, infer_step
from foxhunt.errors import DataError

_SESSION: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d/([01]\d|2[0-3]):[0-5]\d")
_INSTRUMENT_FIELDS: Final = (
    *("tick_size", "lot_size", "timezone", "currency", "multiplier"),
    *("order_lots", "maker_bps", "taker_bps", "sell_bps"),
)


@dataclass(frozen=True)
class ImportOptions:
    """How to read the sources, and what they do not tell about the instrument."""

    format: str = "auto"
    """auto, bitstamp, dbn, binance, tardis, lean, lobster, mbp or bars; auto looks at each file's content."""
    map: str | None = None
    """Column map of mbp files: a built-in name (ashare, canonical) or a TOML file."""
    symbol: str | None = None
    """Symbol of files that hold one instrument without naming it; of many, the one to keep."""
    tick_size: str | None = None
    """Price tick in currency, such as 0.01; left out, it is inferred from the prices and noted."""
    lot_size: str | None = None
    """Quantity of one lot, the unit sizes are stored in."""
    timezone: str | None = None
    """Time zone of stamps without an offset, such as Asia/Shanghai; UTC when nothing else is known."""
    clock: Literal["auto", "exchange", "arrival"] = "auto"
    """Which stamp orders the data where a file has both; auto takes the exchange's when it is in order."""
    stamp: Literal["open", "close"] = "close"
    """Whether bars are stamped at their open (they are shifted to their close by `every`) or at their close."""
    every: str | None = None
    """Length of a bar, such as 5m; needed with `stamp open`."""
    sessions: tuple[str, ...] = ()
    """Hours of continuous trading, local time: 09:30/11:30 13:00/15:00, or 17:00/16:00 over midnight."""
    currency: str | None = None
    """Currency of prices and fees, such as USD."""
    multiplier: float | None = None
    """Money that one unit of price is worth for one unit of quantity (50 for the ES future)."""
    order_lots: int | None = None
    """Own orders are multiples of this many lots."""
    maker_bps: float | None = None
    """Fee on passive fills in basis points."""
    taker_bps: float | None = None
    """Fee on aggressive fills in basis points."""
    sell_bps: float | None = None
    """Tax on sells in basis points."""

    def __post_init__(self) -> None:
        if self.timezone is not None:
            check_timezone(self.timezone)
        if self.every is not None and duration_ns(self.every) <= 0:
            raise DataError("--every must be longer than 0")
        for session in self.sessions:
            if not _SESSION.fullmatch(session):
                raise DataError(f"--sessions takes START/STOP such as 09:30/16:00, not {session!r}")
        if self.stamp == "open" and self.every is None:
            raise DataError("--stamp open needs --every, the length of a bar, such as --every 5m")

    def instrument(
        self, symbol: str, tick_size: str, lot_size: str, defaults: dict[str, Any] | None = None
    ) -> Instrument:
        """The instrument as far as known: the user's word first, then the format's defaults."""
        known: dict[str, Any] = {"tick_size": tick_size, "lot_size": lot_size} | (defaults or {})
        for name in _INSTRUMENT_FIELDS:
            if (value := getattr(self, name)) is not None:
                known[name] = value
        if self.sessions:
            known["sessions"] = tuple((start, stop) for start, stop in (s.split("/") for s in self.sessions))
        return Instrument(symbol, **known)


def choose_tick(options: ImportOptions, symbol: str, prices: Iterable[float], notes: list[str]) -> tuple[str, bool]:
    """The user's tick or the one found in the prices, and whether the prices follow it; a finding is noted.

    Prices that follow no tick (adjusted for splits, say) get a fine one and are to be rounded to it by the reader.
    """
    if options.tick_size is not None:
        return options.tick_size, True
    values = np.asarray(prices, dtype=np.float64)
    step = infer_step(values)
    if step is not None:
        notes.append(f"{symbol}: tick size {step} inferred from the prices; --tick-size overrides it")
        return step, True
    step = fallback_step(values)
    notes.append(f"{symbol}: the prices follow no tick; rounded to {step}, --tick-size overrides it")
    return step, False


def round_prices(frame: pl.DataFrame, columns: Iterable[str], ticks: dict[str, str]) -> pl.DataFrame:
    """Round the float prices of some symbols to their ticks."""
    for symbol, tick in ticks.items():
        size = float(tick)
        own = pl.col("instrument") == symbol
        frame = frame.with_columns(
            pl.when(own).then((pl.col(c) / size).round() * size).otherwise(pl.col(c)).alias(c) for c in columns
        )
    return frame


def only_symbol(paths: list[Path], options: ImportOptions, default: str, notes: list[str]) -> str:
    """The user's symbol, or the format's default with a note."""
    if options.symbol is not None:
        return options.symbol
    notes.append(f"{paths[0].name}: symbol {default} assumed; --symbol names another")
    return default


def keep_symbol(name: str, frame: pl.DataFrame, symbol: str, notes: list[str]) -> pl.DataFrame:
    """The rows of one symbol of several; how many are left out is noted.

    Raises `DataError` listing the symbols of the file when there are none.
    """
    kept = frame.filter(pl.col("instrument") == symbol)
    if not len(kept):
        known = frame["instrument"].unique().sort().to_list()
        raise DataError(f"{name} has no rows of {symbol!r}; it holds {', '.join(known[:12])}")
    if len(kept) < len(frame):
        notes.append(f"{Path(name).name}: {len(frame) - len(kept):,} rows of other symbols than {symbol} are not read")
    return kept
