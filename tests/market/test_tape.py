"""What a tape holds, by hand."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.data.frames import SCHEMAS
from foxhunt.data.imported import Imported
from foxhunt.data.store import Dataset, write_dataset
from foxhunt.errors import DataError
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.tape import ASK, BID, EXTREME_SIZE, EXTREME_TICK, FRESH, KEPT, TICK, Tape, load_tape
from foxhunt.market.tape_build import bars_as_book, build_tape

from .frames import ONE, SECOND, book_frame, tape_of, trade_frame
from .frames import TICK as PRICE


def test_missing_levels_show_no_size_and_no_made_up_price() -> None:
    """One bid, two asks, three levels: size 0 at the price of the last level shown."""
    books = [(s, [(99, 5)], [(101, 6), (103, 7)]) for s in (0, 0.5, 1)]
    tape = tape_of(books, config=TapeConfig(levels=3, ofi_levels=1))
    assert tape.decision[0, BID].tolist() == [[99, 99, 99], [5, 0, 0]]
    assert tape.decision[0, ASK].tolist() == [[101, 103, 103], [6, 7, 0]]


def test_faulty_books_are_no_books() -> None:
    """Crossed and locked rows change nothing; a one-sided one is neither decided on nor traded on."""
    good = [(s, [(99, 5)], [(101, 6)]) for s in (0, 0.5, 1.5, 2.5)]
    bad = [(0.9, [(105, 5)], [(101, 6)]), (0.95, [(101, 5)], [(101, 6)]), (1.1, [], [(101, 6)])]
    config = TapeConfig(levels=3, ofi_levels=1)
    tape, clean = tape_of(sorted([*good, *bad]), config=config), tape_of(good, config=config)
    for name in ("time", "decision", "execution", "execution_time"):
        assert torch.equal(getattr(tape, name), getattr(clean, name)), name


def test_the_last_book_of_a_stamp_counts() -> None:
    """Two books at 0.5 s: orders act on the second."""
    books = [(s, [(99, 5)], [(ask, 6)]) for s, ask in ((0, 101), (0.5, 102), (0.5, 103), (1, 101))]
    tape = tape_of(books)
    assert int(tape.execution[0, ASK, TICK, 0]) == 103


def test_windows_know_the_best_opposite_price_and_its_largest_size() -> None:
    """Asks of 98 x 4 then 98 x 6 between the execution book at 0.5 and the next decision at 1."""
    shown = [(0.5, 101, 3), (0.6, 98, 4), (0.7, 98, 6), (0.8, 100, 50)]
    books = [(0, [(90, 5)], [(101, 6)]), *[(s, [(90, 5)], [(t, n)]) for s, t, n in shown], (1.5, [(90, 5)], [(101, 6)])]
    tape = tape_of(books)
    fresh = tape.windows[0, FRESH, 0]
    assert (int(fresh[EXTREME_TICK]), int(fresh[EXTREME_SIZE])) == (98, 6)
    # A sell order looks at bids, a kept order at the execution book too.
    assert int(tape.windows[0, FRESH, 1, EXTREME_TICK]) == 90
    assert int(tape.windows[0, KEPT, 0, EXTREME_TICK]) == 98


def test_several_instruments_lie_one_after_the_other() -> None:
    """Two instruments: segments, names and traded volume stay apart."""
    parts = []
    for symbol, price, lots in (("ONE", 100, 3), ("TWO", 5000, 8)):
        books = [(s, [(price - 1, 2)], [(price + 1, 2)]) for s in (0, 0.5, 1.5, 2.5)]
        trades = [(0.6, price - 1, lots, "A")]
        instrument = replace(ONE, symbol=symbol)
        parts.append((book_frame(books, symbol), trade_frame(trades, symbol), instrument))
    tape = build_tape(parts, TapeConfig())
    assert tape.segments.tolist() == [[0, 3], [3, 6]]
    assert tape.segment_instruments().tolist() == [0, 1]
    environment = TradingEnvironment(tape, MarketConfig(initial_cash=1e6), sweep=True)
    environment.step(torch.tensor([[2, 2, 0, 0]] * 2))
    assert environment.events is not None
    # Two lots stand before each order.
    assert environment.events.maker_lots.tolist() == [1, 6]


def test_moves_between_devices_and_keeps_rows_inside_segments() -> None:
    """`to` copies every tensor; `inside` marks the rows of segments only."""
    tape = tape_of([(s / 2, [(99, 5)], [(101, 6)]) for s in range(40)])
    moved = tape.to("meta")
    assert moved.device.type == "meta"
    assert all(v.device.type == "meta" for v in vars(moved).values() if isinstance(v, torch.Tensor))
    part = tape.select("25%/50%")
    assert int(part.inside().sum()) == int((part.segments[:, 1] - part.segments[:, 0]).sum()) < tape.rows


def bars(volume: list[int | None]) -> pl.DataFrame:
    """Minute bars around 100."""
    closes = [100, 103, 101, 104, 102]
    rows = [
        {
            "ts_event": m * 60 * SECOND,
            "instrument": "ONE",
            **dict.fromkeys(("open", "high", "low", "close"), c * PRICE),
            "volume": v,
        }
        for m, (c, v) in enumerate(zip(closes, volume, strict=True))
    ]
    return pl.DataFrame(rows, schema=SCHEMAS["bars"])


def test_bars_trade_at_the_next_close() -> None:
    """Decided on the close of 100; bought one tick above the next close of 103, no more than its volume."""
    frame = bars_as_book(bars([10, 4, 10, 10, 10]), ONE)
    config = TapeConfig(every="1ev", stale_after="5m")
    tape: Tape = build_tape([(frame, pl.DataFrame(schema=SCHEMAS["trades"]), ONE)], config)
    environment = TradingEnvironment(tape, MarketConfig(initial_cash=1000), sweep=True)
    environment.step(torch.tensor([[2, 2, 2, 0]]))
    assert environment.events is not None
    assert (int(environment.events.taker_tick[0, 0]), int(environment.events.taker_lots[0, 0])) == (104, 4)
    assert float(environment.events.half_ticks[0]) / 2 == 103


def test_bars_without_volume_are_refused() -> None:
    """Nothing says how much can be traded."""
    with pytest.raises(DataError, match="bars without volume cannot be traded"):
        bars_as_book(bars([None] * 5), ONE)


def test_load_tape_reads_what_a_dataset_holds(tmp_path: Path) -> None:
    """Books where there are some, bars otherwise; one line for a symbol it lacks."""
    imported = imported_bars()
    dataset = write_dataset(tmp_path / "bars", imported)
    tape = load_tape(dataset, (), TapeConfig(every="1ev", stale_after="5m"))
    assert tape.rows == 5
    with pytest.raises(DataError, match="no instrument 'TWO'"):
        load_tape(Dataset.open(tmp_path / "bars"), ("TWO",))


def imported_bars() -> Imported:
    """A dataset of five bars."""
    return Imported(instruments={"ONE": ONE}, frames={"bars": bars([10] * 5)})
