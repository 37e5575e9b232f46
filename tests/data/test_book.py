"""The order book builder: hand-worked events, and an obvious replay as reference."""

from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foxhunt.data.book import Action, BuiltBook, OrderEvents, _Replay, build_book

BID, ASK = 0, 1
Event = tuple[int, Action, int, int, int, int]
"""Stamp, action, order, side, price, size."""


def build(events: list[Event], patience: int | None = None) -> BuiltBook:
    """Build from events; those of one stamp are one batch."""
    columns = [np.array(c, dtype=np.int64) for c in zip(*events, strict=True)]
    stamps = columns[0]
    return build_book(OrderEvents(*columns, np.append(stamps[1:] != stamps[:-1], True)), patience)


def touch(built: BuiltBook) -> list[tuple[Any, ...]]:
    """Stamp, best bid, its size and count, best ask, its size and count of every row."""
    columns = [f"{s}_{f}_00" for s in ("bid", "ask") for f in ("px", "sz", "ct")]
    return built.rows.select("ts_event", *columns).rows()


def test_orders_of_one_price_add_up_and_leave() -> None:
    built = build(
        [
            (1, Action.ADD, 11, BID, 100, 5),
            (2, Action.ADD, 12, BID, 100, 3),
            (3, Action.ADD, 21, ASK, 101, 4),
            (4, Action.RESIZE, 11, BID, 100, 2),
            (5, Action.REDUCE, 12, BID, 100, 1),
            (6, Action.REMOVE, 11, BID, 100, 0),
            (7, Action.REDUCE, 12, BID, 100, 2),
        ]
    )
    assert touch(built) == [
        (1, 100, 5, 1, None, None, None),
        (2, 100, 8, 2, None, None, None),
        (3, 100, 8, 2, 101, 4, 1),
        (4, 100, 5, 2, 101, 4, 1),
        (5, 100, 4, 2, 101, 4, 1),
        (6, 100, 2, 1, 101, 4, 1),
        (7, None, None, None, 101, 4, 1),
    ]
    assert not built.refused.any()


def test_a_batch_makes_one_row() -> None:
    built = build(
        [(1, Action.ADD, 11, BID, 100, 5), (1, Action.ADD, 12, BID, 99, 1), (1, Action.REMOVE, 12, BID, 99, 0)]
    )
    assert touch(built) == [(1, 100, 5, 1, None, None, None)]


def test_replacing_moves_price_and_size_and_an_unknown_order_is_added() -> None:
    built = build(
        [(1, Action.ADD, 11, BID, 100, 5), (2, Action.REPLACE, 11, BID, 98, 7), (3, Action.REPLACE, 12, ASK, 103, 1)]
    )
    assert touch(built)[1:] == [(2, 98, 7, 1, None, None, None), (3, 98, 7, 1, 103, 1, 1)]


def test_clearing_empties_the_book_and_is_a_row_of_its_own() -> None:
    built = build([(1, Action.ADD, 11, BID, 100, 5), (2, Action.CLEAR, 0, BID, 0, 0), (3, Action.ADD, 12, ASK, 101, 1)])
    assert touch(built) == [(1, 100, 5, 1, *[None] * 3), (2, *[None] * 6), (3, *[None] * 3, 101, 1, 1)]


def test_the_recorders_closing_makes_no_row() -> None:
    built = build([(1, Action.ADD, 11, BID, 100, 5), (2, Action.REMOVE, 11, BID, 100, 0)])
    assert [row[0] for row in touch(built)] == [1]


def test_events_that_contradict_an_orders_state_are_refused_and_change_nothing() -> None:
    built = build(
        [
            (1, Action.REMOVE, 99, BID, 100, 0),
            (2, Action.ADD, 11, BID, 100, 5),
            (3, Action.REDUCE, 11, BID, 100, 6),
            (4, Action.RESIZE, 98, BID, 100, 6),
            (5, Action.NOTHING, 97, BID, 100, 6),
        ]
    )
    assert built.refused.tolist() == [True, False, True, True, False]
    assert touch(built) == [(2, 100, 5, 1, None, None, None)]


def test_only_the_ten_best_levels_are_shown_and_only_their_changes_make_rows() -> None:
    events: list[Event] = [(1, Action.ADD, n, BID, 100 - n, n) for n in range(1, 13)]
    events += [(2, Action.RESIZE, 12, BID, 0, 50), (3, Action.REMOVE, 3, BID, 0, 0)]
    built = build(events)
    assert built.rows["ts_event"].to_list() == [1, 3]
    last = built.rows.row(-1, named=True)
    assert [last[f"bid_px_{n:02d}"] for n in range(10)] == [99, 98, 96, 95, 94, 93, 92, 91, 90, 89]
    assert last["bid_sz_09"] == 11


RESTING: list[Event] = [
    (1, Action.ADD, 1, BID, 99, 5),
    (1, Action.ADD, 2, ASK, 101, 4),
    (1, Action.ADD, 3, ASK, 102, 6),
]


def test_a_post_only_order_that_is_refused_on_arrival_never_shows() -> None:
    built = build([*RESTING, (2, Action.ADD, 9, BID, 101, 7), (2, Action.REMOVE, 9, BID, 101, 7)], patience=100)
    assert [row[0] for row in touch(built)] == [1]
    assert (built.held, built.evicted) == (1, 0)


def test_an_order_being_matched_shows_when_its_fills_are_through() -> None:
    built = build(
        [
            *RESTING,
            (2, Action.ADD, 9, BID, 105, 7),
            (3, Action.RESIZE, 9, BID, 101, 3),
            (4, Action.REMOVE, 2, ASK, 101, 0),
            (5, Action.RESIZE, 9, BID, 102, 1),
            (6, Action.REMOVE, 3, ASK, 102, 0),
        ],
        patience=100,
    )
    assert touch(built)[1:] == [(4, 99, 5, 1, 102, 6, 1), (6, 105, 1, 1, None, None, None)]
    assert built.evicted == 0
    assert not built.refused.any()


def test_a_stale_order_is_evicted_after_the_patience_and_its_late_deletion_changes_nothing() -> None:
    built = build(
        [
            *RESTING,
            (2, Action.ADD, 9, BID, 101, 7),
            (50, Action.ADD, 10, BID, 98, 1),
            (102, Action.ADD, 11, BID, 97, 1),
            (103, Action.REMOVE, 2, ASK, 101, 4),
            (104, Action.REMOVE, 2, ASK, 101, 4),
        ],
        patience=100,
    )
    assert touch(built) == [
        (1, 99, 5, 1, 101, 4, 1),
        (50, 99, 5, 1, 101, 4, 1),
        (102, 101, 7, 1, 102, 6, 1),
    ]
    assert built.evicted == 1
    assert built.refused.tolist() == [False] * 7 + [True], "the first late deletion is known, a second one is not"


def test_without_patience_a_crossed_book_is_shown_as_it_is() -> None:
    built = build([*RESTING, (2, Action.ADD, 9, BID, 101, 7)])
    assert touch(built)[-1][1] == touch(built)[-1][4] == 101


class Obvious:
    """The book as a dictionary of orders, its levels counted afresh for every row."""

    def __init__(self) -> None:
        self.orders: dict[int, tuple[int, int, int]] = {}

    def apply(self, event: Event) -> None:
        _, action, order, side, price, size = event
        if action is Action.ADD or action is Action.REPLACE:
            self.orders[order] = (side, price, size)
        elif action is Action.CLEAR:
            self.orders.clear()
        elif order in self.orders:
            own_side, own_price, own_size = self.orders[order]
            rest = {Action.RESIZE: size, Action.REDUCE: own_size - size, Action.REMOVE: 0}.get(action, own_size)
            if rest > 0:
                self.orders[order] = (own_side, own_price, rest)
            elif rest == 0:
                del self.orders[order]

    def levels(self, side: int) -> list[tuple[int, int, int]]:
        totals: dict[int, list[int]] = defaultdict(list)
        for own_side, price, size in self.orders.values():
            if own_side == side:
                totals[price].append(size)
        best = sorted(totals, reverse=side == BID)[:10]
        return [(price, sum(totals[price]), len(totals[price])) for price in best]


events = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.sampled_from(list(Action)),
        st.integers(1, 25),
        st.sampled_from([BID, ASK]),
        st.integers(90, 110),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(events)
def test_the_built_book_is_that_of_an_obvious_replay(drawn: list[Event]) -> None:
    drawn = sorted(drawn, key=lambda event: event[0])
    obvious, expected = Obvious(), [(0, [], [])]
    for index, event in enumerate(drawn):
        obvious.apply(event)
        ends = index + 1 == len(drawn) or drawn[index + 1][0] != event[0]
        state = (event[0], obvious.levels(BID), obvious.levels(ASK))
        if ends and state[1:] != expected[-1][1:]:
            expected.append(state)
    if not obvious.orders:
        expected = expected[: len(expected) - (len(expected) > 1)]
    shown = [
        (
            row["ts_event"],
            *(
                [(row[f"{name}_px_{n:02d}"], row[f"{name}_sz_{n:02d}"], row[f"{name}_ct_{n:02d}"]) for n in range(10)]
                for name in ("bid", "ask")
            ),
        )
        for row in build(drawn).rows.iter_rows(named=True)
    ]
    empty = [(None, None, None)]
    assert shown == [
        (t, bids + empty * (10 - len(bids)), asks + empty * (10 - len(asks))) for t, bids, asks in expected[1:]
    ]


@settings(max_examples=100, deadline=None)
@given(events, st.sampled_from([0, 5, 1000]))
def test_with_patience_no_row_is_crossed_or_locked(drawn: list[Event], patience: int) -> None:
    rows = build(sorted(drawn, key=lambda event: event[0]), patience).rows
    assert not rows.select((pl.col("bid_px_00") >= pl.col("ask_px_00")).any()).item()


@settings(max_examples=100, deadline=None)
@given(events, st.sampled_from([None, 0, 5, 1000]))
def test_levels_are_always_the_sum_of_their_orders(drawn: list[Event], patience: int | None) -> None:
    replay = _Replay(patience)
    for stamp, action, order, side, price, size in sorted(drawn, key=lambda event: event[0]):
        replay.apply(stamp, action, order, side, price if side else -price, size)
        replay.settle(stamp)
        totals: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        for own_side, key, own_size in replay.book.orders.values():
            totals[own_side, key][0] += own_size
            totals[own_side, key][1] += 1
        kept = {(s, key): level for s in (BID, ASK) for key, level in replay.book.levels[s].items()}
        assert kept == totals
        assert all(keys == sorted(replay.book.levels[s]) for s, keys in enumerate(replay.book.keys))
        assert not set(replay.waiting) & set(replay.book.orders)


def test_a_last_batch_that_never_ended_costs_no_row() -> None:
    columns = [np.array(c, dtype=np.int64) for c in zip((1, 0, 11, 0, 100, 5), (2, 2, 11, 0, 100, 0), strict=True)]
    built = build_book(OrderEvents(*columns, np.array([True, False])))
    assert touch(built) == [(1, 100, 5, 1, None, None, None)]


def test_a_held_order_that_is_replaced_is_there_once() -> None:
    events: list[Event] = [*RESTING, (2, Action.ADD, 9, BID, 101, 7), (3, Action.REPLACE, 9, BID, 98, 2)]
    built = build([*events, (500, Action.ADD, 10, ASK, 120, 1), (501, Action.REMOVE, 9, BID, 98, 0)], patience=100)
    assert [row["bid_ct_01"] for row in built.rows.iter_rows(named=True)] == [None, 1, 1, None]


@pytest.mark.parametrize("patience", [None, 10])
def test_no_events_make_no_rows(patience: int | None) -> None:
    nothing = np.empty(0, dtype=np.int64)
    built = build_book(OrderEvents(*[nothing] * 6, nothing.astype(bool)), patience)
    assert len(built.rows) == 0
    assert len(built.refused) == 0
