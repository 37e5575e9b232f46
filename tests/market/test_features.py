"""Features by hand."""

import math

import pytest
import torch

from foxhunt.config import TapeConfig
from foxhunt.market.features import bounded, order_flow_imbalance
from foxhunt.market.tape import Tape

from .frames import BookRow, Level, tape_of

CONFIG = TapeConfig(levels=3, ofi_levels=2, ofi_horizons=(1, 2, 5), volatility_windows=(2, 4))


def column(tape: Tape, name: str) -> list[float]:
    """One market feature over the rows."""
    return tape.market[:, tape.market_names.index(name)].tolist()


def imbalances(*books: tuple[list[Level], list[Level]], levels: int = 1) -> list[list[int]]:
    """Order-flow imbalance of consecutive books; missing levels as the tape stores them."""
    tick = torch.zeros(len(books), 2, levels, dtype=torch.int64)
    size = torch.zeros_like(tick)
    for row, sides in enumerate(books):
        for side, shown in enumerate(sides):
            for level, (price, lots) in enumerate(shown):
                tick[row, side, level], size[row, side, level] = price, lots
    return order_flow_imbalance(tick, size).tolist()


@pytest.mark.parametrize(
    ("bids", "asks", "expected"),
    [
        ([(99, 7)], [(101, 5)], 2),  # bid grows 5 -> 7
        ([(99, 5)], [(101, 9)], -4),  # ask grows 5 -> 9
        ([(100, 3)], [(101, 5)], 3),  # bid improves: its new size
        ([(98, 8)], [(101, 5)], -5),  # bid falls: minus its old size
        ([(99, 5)], [(100, 2)], -2),  # ask improves: minus its new size
        ([(99, 5)], [(102, 2)], 5),  # ask retreats: its old size
        ([], [(101, 5)], -5),  # bid vanishes: price minus infinity, minus its old size
        ([(99, 5)], [], 5),  # ask vanishes: price plus infinity, its old size
    ],
)
def test_order_flow_imbalance_of_one_change(bids: list[Level], asks: list[Level], expected: int) -> None:
    """Cont, Kukanov and Stoikov 2014, equation (1), from 5 x 99 / 101 x 5."""
    assert imbalances(([(99, 5)], [(101, 5)]), (bids, asks)) == [[0], [expected]]


def test_flow_that_returns_to_an_empty_side_counts() -> None:
    """An empty book fills with 4 bids and 9 asks: +4 - 9. Empty to empty is no flow."""
    assert imbalances(([], []), ([(99, 4)], [(101, 9)]), ([], []), ([], [])) == [[0], [-5], [5], [0]]


def test_order_flow_imbalance_level_by_level() -> None:
    """The second level moves on its own."""
    first = ([(99, 5), (98, 10)], [(101, 5), (102, 10)])
    second = ([(99, 5), (97, 4)], [(101, 5), (102, 13)])
    assert imbalances(first, second, levels=2) == [[0, 0], [0, -10 - 3]]


def test_order_flow_accumulates_over_every_event_between_decisions() -> None:
    """Three changes within a second, +2 +2 -1 at the best bid, though only the last book is decided on.

    Divided by the mean size at the touch over the long window: (5 + 5) / 2 at the first row, (8 + 5) / 2 at the second.
    """
    sizes = [(0, 5), (0.2, 7), (0.4, 9), (0.6, 8), (1.5, 8), (2.5, 8)]
    tape = tape_of([(s, [(99, n)], [(101, 5)]) for s, n in sizes], config=CONFIG)
    assert tape.ofi3[0].tolist() == [0, 0, 0]
    mean = (5 + 6.5) / 2
    assert tape.ofi3[1].tolist() == pytest.approx([3 / mean] * 3)
    assert tape.ofi3[2].tolist() == pytest.approx([0, *[3 / ((5 + 6.5 + 6.5) / 3)] * 2])
    assert tape.ofi.shape == (3, 2 * 3)
    assert tape.ofi[:, :3].tolist() == tape.ofi3.tolist()


def test_book_features_by_hand() -> None:
    """Spread 2, microprice (99 * 3 + 101 * 9) / 12 = 100.5, imbalances and depths."""
    book = [(99, 9), (98, 1), (96, 2)], [(101, 3), (102, 5), (103, 4)]
    tape = tape_of([(s, *book) for s in (0, 0.5, 1)], config=CONFIG)
    expected = {
        "spread": 2,
        "microprice": 0.5,
        "imbalance_1": (9 - 3) / 12,
        "imbalance_3": (12 - 12) / 24,
        "bid_depth": math.log(10),
        "ask_depth": math.log(4),
        "depth": math.log(25),
    }
    assert {name: column(tape, name)[0] for name in expected} == pytest.approx(expected)


def mids(*middle: int) -> Tape:
    """A decision a second on books around these mids."""
    books: list[BookRow] = [(float(s), [(m - 1, 5)], [(m + 1, 5)]) for s, m in enumerate(middle)]
    return tape_of(books, config=CONFIG)


def test_returns_and_volatility_by_hand() -> None:
    """Log returns in basis points; root mean square without the mean; windows end where the segment begins."""
    tape = mids(100, 110, 121, 121, 121, 100)
    step = 1e4 * math.log(1.1)
    assert column(tape, "return_1") == pytest.approx([0, step, step, 0, 0, 1e4 * math.log(100 / 121)], rel=1e-6)
    assert column(tape, "return_2") == pytest.approx([0, step, 2 * step, step, 0, 1e4 * math.log(100 / 121)], rel=1e-6)
    assert column(tape, "volatility_2")[:5] == pytest.approx([0, step, step, step / 2**0.5, 0], rel=1e-5)
    assert column(tape, "volatility_4")[:5] == pytest.approx(
        [0, step, step, step * (2 / 3) ** 0.5, step * 0.5**0.5], rel=1e-5
    )


def test_regime_stability_compares_the_two_volatilities() -> None:
    """exp(-|log(short / long)|): the smaller over the larger; 1 where both are 0, 0 where only one is."""
    tape = mids(100, 110, 121, 121, 121, 100)
    assert column(tape, "regime_stability")[:5] == pytest.approx([1, 1, 1, (0.5 / (2 / 3)) ** 0.5, 0], rel=1e-5)


def test_trade_flow_by_hand() -> None:
    """Bought 6 and sold 2 in the first second, sold 4 in the second; unsigned trades do not count."""
    books: list[BookRow] = [(float(s), [(99, 5)], [(101, 5)]) for s in range(4)]
    trades = [(0.1, 101, 6, "B"), (0.2, 99, 2, "A"), (0.3, 100, 50, "N"), (1.5, 99, 4, "A")]
    tape = tape_of(books, trades, config=CONFIG)
    assert column(tape, "flow_1") == pytest.approx([0, 4 / 8, -1, 0])
    assert column(tape, "flow_2") == pytest.approx([0, 4 / 8, 0, -1])
    assert column(tape, "volume_1") == pytest.approx([0, math.log(9), math.log(5), 0])
    assert column(tape, "volume_5")[3] == pytest.approx(math.log(13))


def test_windows_do_not_reach_over_a_gap() -> None:
    """A jump and a trade lie in the gap between two segments: the second one starts from nothing."""
    books = [(float(s), [(99, 5)], [(101, 5)]) for s in range(3)]
    later = [(100.0 + s, [(149, 50)], [(151, 5)]) for s in range(3)]
    tape = tape_of([*books, *later], [(50, 120, 30, "B"), (100, 151, 30, "B")], config=CONFIG)
    first = int(tape.segments[1, 0])
    for name in ("return_1", "return_5", "volatility_4", "flow_5", "volume_5"):
        assert column(tape, name)[first] == 0, name
    assert tape.ofi[first].abs().sum() == 0


def test_bounded_features_are_bounded() -> None:
    """What is not scaled lies in [-1, 1] as it is."""
    from .frames import wild_market

    tape = tape_of(*wild_market(3), config=CONFIG)
    chosen = torch.tensor([bounded(name) for name in tape.market_names])
    assert 0 < int(chosen.sum()) < len(chosen)
    assert float(tape.market[:, chosen].abs().max()) <= 1
    assert bool(tape.market.isfinite().all())
    assert bool(tape.ofi.isfinite().all())
