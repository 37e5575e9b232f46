"""Books and trades written by hand or drawn at random, as canonical frames."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from foxhunt.config import TapeConfig
from foxhunt.data.frames import SCHEMAS, conform
from foxhunt.data.schema import Instrument
from foxhunt.market.tape import Tape
from foxhunt.market.tape_build import build_tape

SECOND = 1_000_000_000
TICK = 1_000_000_000  # one unit of currency, so that ticks read like prices
Level = tuple[int, int]
BookRow = tuple[float, Sequence[Level], Sequence[Level]]
TradeRow = tuple[float, int, int, str]

ONE = Instrument(symbol="ONE", tick_size="1")
"""Tick 1, lot 1, no fees: money is ticks times lots."""


def book_frame(rows: Sequence[BookRow], symbol: str = "ONE") -> pl.DataFrame:
    """Rows of (seconds, bids, asks), levels as (ticks, lots), best first."""
    records = []
    for seconds, bids, asks in rows:
        record: dict[str, object] = {"ts_event": round(seconds * SECOND), "instrument": symbol}
        for side, levels in (("bid", bids), ("ask", asks)):
            for level, (tick, lots) in enumerate(levels):
                record[f"{side}_px_{level:02d}"] = tick * TICK
                record[f"{side}_sz_{level:02d}"] = lots
        records.append(record)
    schema = {name: SCHEMAS["book"][name] for record in records for name in record}
    return conform("book", pl.DataFrame(records, schema=schema))


def trade_frame(rows: Sequence[TradeRow], symbol: str = "ONE") -> pl.DataFrame:
    """Rows of (seconds, ticks, lots, aggressor A/B/N)."""
    records = [
        {"ts_event": round(s * SECOND), "instrument": symbol, "price": tick * TICK, "size": lots, "side": side}
        for s, tick, lots, side in rows
    ]
    return pl.DataFrame(records, schema=SCHEMAS["trades"])


def tape_of(
    books: Sequence[BookRow],
    trades: Sequence[TradeRow] = (),
    instrument: Instrument = ONE,
    config: TapeConfig | None = None,
) -> Tape:
    """Tape of one instrument; decisions every second unless the config says otherwise."""
    return build_tape(
        [(book_frame(books, instrument.symbol), trade_frame(trades, instrument.symbol), instrument)],
        config or TapeConfig(),
    )


def wild_market(seed: int, events: int = 240, levels: int = 3) -> tuple[list[BookRow], list[TradeRow]]:
    """A market without manners: jumps, gaps inside the ladder, one-sided, crossed and locked books, equal stamps."""
    random = np.random.default_rng(seed)
    books: list[BookRow] = []
    trades: list[TradeRow] = []
    now, middle = 0.0, 100
    for _ in range(events):
        now += float(random.choice([0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 7.0], p=[0.1, 0.2, 0.2, 0.2, 0.2, 0.08, 0.02]))
        middle += int(random.choice([-3, -1, 0, 1, 3], p=[0.04, 0.16, 0.6, 0.16, 0.04]))
        spread = int(random.choice([1, 2, 4]))
        bid = middle - spread // 2 + int(random.random() < 0.03) * 3
        ask = bid + spread - int(random.random() < 0.03) * 4
        sides = []
        for best, direction in ((bid, -1), (ask, 1)):
            steps = np.concatenate([[0], np.cumsum(random.integers(1, 3, levels - 1))])
            shown = int(random.choice([0, 1, levels], p=[0.03, 0.07, 0.9]))
            sides.append([(best + direction * int(s), int(random.integers(1, 12))) for s in steps[:shown]])
        books.append((now, sides[0], sides[1]))
        for _ in range(int(random.integers(0, 3))):
            when = now + float(random.choice([0.0, 0.05, 0.1]))
            side = str(random.choice(["A", "B", "N"], p=[0.45, 0.45, 0.1]))
            trades.append((when, middle + int(random.integers(-3, 4)), int(random.integers(1, 10)), side))
    return books, sorted(trades, key=lambda trade: trade[0])
