"""Fills worked out by hand. Tick 1, lot 1, tick value 1, so money is ticks times lots."""

from dataclasses import replace

import pytest

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.data.schema import Instrument
from foxhunt.market import actions
from foxhunt.market.queue import UNKNOWN

from .frames import ONE, BookRow, tape_of
from .play import CROSS, FLAT, FULL, HALF, IMPROVE, JOIN, LONG, NORMAL, PATIENT, QUARTER, SHORT, URGENT, Player, takes

RICH = MarketConfig(initial_cash=10_000, magnitudes=(0.025, 0.05, 0.1))
"""At a price of 100: full is 10 lots and half 5, far from any limit of the account."""
BUY_ALL = (LONG, FULL, CROSS, NORMAL)
JOIN_BID = (LONG, FULL, JOIN, PATIENT)


def quiet(*stamps: float, bids: int = 10, asks: int = 10) -> list[BookRow]:
    """The same book at every stamp: 99 x bids, 101 x asks."""
    return [(stamp, [(99, bids), (98, 20)], [(101, asks), (102, 20)]) for stamp in stamps]


def test_crossing_walks_the_next_book_at_its_levels_prices() -> None:
    """Decided on 99/101, filled on the book after: 3 at 102, 5 at 103, 2 at 105."""
    books = [(0, [(99, 10)], [(101, 10)]), (0.5, [(99, 10)], [(102, 3), (103, 5), (105, 9)]), *quiet(1.5, 2.5)]
    player = Player(tape_of(books), RICH)
    result, events = player.step(BUY_ALL)
    assert takes(events) == [(102, 3), (103, 5), (105, 2)]
    assert player.cash == 10_000 - (3 * 102 + 5 * 103 + 2 * 105)
    # The next row knows the book of 0.5 s, whose mid is 100.5.
    assert float(result.reward[0]) == 10 * 100.5 - 1031


def test_what_the_book_lacks_is_cancelled() -> None:
    """A crossing order of 10 on a book of 4 leaves nothing working."""
    books = [(0, [(99, 10)], [(101, 10)]), (0.5, [(99, 10)], [(101, 4)]), *quiet(1.5)]
    player = Player(tape_of(books), RICH)
    assert takes(player.step(BUY_ALL)[1]) == [(101, 4)]
    assert player.remaining == 0


def test_only_the_difference_is_traded() -> None:
    """Full long, half long, full short: +10, -5, -15, and nothing when the target is reached."""
    books = [(s, [(99, 50)], [(101, 50)]) for s in (0, 0.5, 1.5, 2.5, 3.5, 4.5)]
    player = Player(tape_of(books), RICH)
    actions_taken = [BUY_ALL, (LONG, HALF, CROSS, NORMAL), (LONG, HALF, CROSS, NORMAL), (SHORT, FULL, CROSS, NORMAL)]
    assert [takes(e) for e in player.steps(actions_taken)] == [[(101, 10)], [(99, -5)], [], [(99, -15)]]
    assert player.position == -10


def test_taken_size_stays_taken_while_the_level_lives() -> None:
    """5 of 5 taken at 101; the level is still shown, so the next order starts at 102."""
    player = Player(tape_of(quiet(0, 0.5, 1.5, 2.5, 3.5, asks=5)), RICH)
    first, second = player.steps([(LONG, HALF, CROSS, NORMAL), BUY_ALL])
    assert takes(first) == [(101, 5)]
    assert takes(second) == [(102, 5)]


def test_size_added_to_a_taken_level_can_be_taken() -> None:
    """5 taken of 5, then 7 shown: 2 left."""
    books = [*quiet(0, 0.5, asks=5), *quiet(1.5, 2.5, asks=7)]
    player = Player(tape_of(books), RICH)
    assert takes(player.steps([(LONG, HALF, CROSS, NORMAL), BUY_ALL])[1]) == [(101, 2), (102, 3)]


@pytest.mark.parametrize("stamp", [0.7, 1.2])
def test_a_level_that_vanished_once_is_new(stamp: float) -> None:
    """101 disappears for a moment, before the next decision or after it, and comes back with 5 fresh lots."""
    books = sorted([*quiet(0, 0.5, 1.5, 2.5, asks=5), (stamp, [(99, 10)], [(102, 20)])])
    config = TapeConfig(latency="250ms")
    player = Player(tape_of(books, config=config), RICH)
    assert takes(player.steps([(LONG, HALF, CROSS, NORMAL), BUY_ALL])[1]) == [(101, 5)]


def test_queue_first_then_excess_then_rest() -> None:
    """10 lots ahead at 99. Sells of 4 and 8 at 99: the queue takes 10, the order 2; a sell of 5 more fills 5."""
    trades = [(0.6, 99, 4, "A"), (0.7, 99, 8, "A"), (0.8, 99, 30, "B"), (0.9, 99, 30, "N"), (1.7, 99, 5, "A")]
    player = Player(tape_of(quiet(0, 0.5, 1.5, 2.5, 3.5, 4.5), trades), RICH)
    first, second, third = player.steps([JOIN_BID] * 3)
    assert [int(e.maker_lots[0]) for e in (first, second, third)] == [2, 5, 0]
    assert [int(e.order_event[0]) for e in (first, second)] == [actions.PLACED, actions.KEPT]
    assert player.cash == 10_000 - 7 * 99
    assert (player.remaining, player.ahead) == (3, 0)


def test_trades_up_to_the_execution_book_are_not_for_a_new_order() -> None:
    """The order joins on the book of 0.5 s, which already shows what the sell of 0.4 s and 0.5 s left."""
    trades = [(0.4, 99, 50, "A"), (0.5, 99, 50, "A")]
    player = Player(tape_of(quiet(0, 0.5, 1.5, 2.5), trades), RICH)
    assert int(player.step(JOIN_BID)[1].maker_lots[0]) == 0
    assert player.ahead == 10


def test_cancellations_ahead_bound_the_queue() -> None:
    """Risk-averse: 10 ahead, then only 3 shown, then 8: three ahead for good."""
    books = [*quiet(0, 0.5), *quiet(0.9, bids=3), *quiet(1.5, 2.5, bids=8)]
    player = Player(tape_of(books), RICH)
    player.step(JOIN_BID)
    assert player.ahead == 3
    player.step(JOIN_BID)
    assert player.ahead == 3


@pytest.mark.parametrize(("queue", "ahead"), [("linear", 3), ("logarithmic", 3)])
def test_cancellations_are_shared_by_the_probability_models(queue: str, ahead: int) -> None:
    """6 ahead of 6 behind; 6 cancelled. Equal halves: 3 from the front under either weight."""
    market = replace(RICH, queue=queue)
    books = [*quiet(0, 0.5, bids=6), *quiet(0.9, 1.4, 1.5, bids=12), *quiet(1.9, bids=6), *quiet(2.5, bids=6)]
    player = Player(tape_of(books), market)
    player.step(JOIN_BID)
    assert player.ahead == 6
    player.step(JOIN_BID)
    assert player.ahead == ahead


def test_trade_through_fills_what_it_shows() -> None:
    """10 ahead and a sell of 4 at 98 only: 4 lots must have passed the order at 99."""
    trades = [(0.6, 98, 4, "A")]
    player = Player(tape_of(quiet(0, 0.5, 1.5, 2.5), trades), RICH)
    assert int(player.step(JOIN_BID)[1].maker_lots[0]) == 4
    assert (player.remaining, player.ahead) == (6, 0)
    full = Player(tape_of(quiet(0, 0.5, 1.5, 2.5), trades), replace(RICH, through="full"))
    assert int(full.step(JOIN_BID)[1].maker_lots[0]) == 10


def test_trades_at_and_through_add_up() -> None:
    """12 sold at 99 with 10 ahead, 3 at 98: 2 + 3."""
    player = Player(tape_of(quiet(0, 0.5, 1.5), [(0.6, 99, 12, "A"), (0.7, 98, 3, "A")]), RICH)
    assert int(player.step(JOIN_BID)[1].maker_lots[0]) == 5


def test_a_book_that_crosses_fills_what_it_shows_once() -> None:
    """Asks of 4 appear at 98: 4 fills. They stay, then grow to 6: 2 more. Taking them again finds nothing."""
    crossing = [(s, [(97, 10)], [(98, lots), (103, 30)]) for s, lots in ((0.7, 4), (1.5, 4), (1.7, 6), (2.5, 6))]
    player = Player(tape_of([*quiet(0, 0.5), *crossing, (3.5, [(97, 10)], [(98, 6), (103, 30)])]), RICH)
    first, second = player.steps([JOIN_BID] * 2)
    assert [int(e.maker_lots[0]) for e in (first, second)] == [4, 2]
    assert player.cash == 10_000 - 6 * 99
    third = player.step(BUY_ALL)[1]
    assert takes(third) == [(103, 4)]


def test_every_level_of_a_crossing_book_fills() -> None:
    """Asks of 2 at 97, 3 at 98 and 1 at 99 against a bid of 10 at 99: 6 fill. Then 98 grows by 2: 2 more."""
    wide, grown = [(97, 2), (98, 3), (99, 1), (100, 9)], [(97, 2), (98, 5), (99, 1), (100, 9)]
    books = [
        *quiet(0, 0.5),
        *[(s, [(96, 10)], wide) for s in (0.8, 1.5)],
        *[(s, [(96, 10)], grown) for s in (1.8, 2.5)],
    ]
    player = Player(tape_of(books), RICH)
    assert [int(e.maker_lots[0]) for e in player.steps([JOIN_BID] * 2)] == [6, 2]
    assert player.cash == 10_000 - 8 * 99


def test_a_crossing_book_that_is_gone_by_the_next_decision_shows_its_best_level() -> None:
    """97 and 98 are offered for a moment between two decisions: of that book the tape keeps 2 lots at 97."""
    books = [*quiet(0, 0.5), (0.8, [(96, 10)], [(97, 2), (98, 3)]), *quiet(0.9, 1.5)]
    assert int(Player(tape_of(books), RICH).step(JOIN_BID)[1].maker_lots[0]) == 2


def test_the_known_book_can_be_chosen() -> None:
    """Decided on 99/101 with 300 ms of latency: the order meets the book standing at its arrival, 102, not 105."""
    books = [(s, [(99, 10)], [(ask, 50)]) for s, ask in ((0, 101), (0.2, 102), (0.5, 105), (1.5, 105))]
    bought = []
    for execution in ("next", "known"):
        player = Player(tape_of(books, config=TapeConfig(latency="300ms", execution=execution)), RICH)
        bought.append(takes(player.step(BUY_ALL)[1]))
    assert bought == [[(105, 10)], [(102, 10)]]


def test_data_latency_ages_what_is_known_and_delays_what_is_ordered() -> None:
    """The decision at 1 s knows the book of 0.7 s (97/103, joined at 97), not that of 0.9; its order arrives at 1.2 s
    and meets the book of 1.4, where 97 shows 4 lots; a sell of 5 at 1.1 s is too early, one of 6 at 1.5 s fills 2."""
    books = [
        (0.7, [(97, 10)], [(103, 10)]),
        (0.9, [(99, 10)], [(101, 10)]),
        *[(s, [(97, 4)], [(103, 9)]) for s in (1.4, 1.65, 1.9, 2.4)],
    ]
    config = TapeConfig(data_latency="300ms", latency="200ms")
    tape = tape_of(books, [(1.1, 97, 5, "A"), (1.5, 97, 6, "A")], config=config)
    assert int(tape.time[0]) == 700_000_001
    _, events = (player := Player(tape, RICH)).step(JOIN_BID)
    assert (int(events.order_tick[0]), int(events.maker_lots[0])) == (97, 2)
    assert player.position == 2


def test_funding_is_paid_by_the_position_held_then() -> None:
    """1 % at 8:00 UTC on 10 lots at a mid of 100: 10 paid by the long, received by the short, once, and never flat."""
    instrument = Instrument("PERP", "1", funding_bps=100)
    eight = 8 * 3600
    tape = tape_of(quiet(*(eight + s for s in (-2, -1.5, -0.5, 0.5, 1.5, 2.5))), (), instrument)
    for direction, paid in ((LONG, 10.0), (SHORT, -10.0), (FLAT, 0.0)):
        player = Player(tape, RICH)
        events = player.steps([(direction, FULL, CROSS, NORMAL)] * 4)
        assert [float(e.funding[0]) for e in events] == [0, paid, 0, 0]
        spread = 0 if direction == FLAT else 10
        assert float(player.environment.state.worth[0]) == 10_000 - spread - paid


def test_funding_can_liquidate() -> None:
    """Long 47 lots on 1000 of cash; funding of 20 % takes 940 of the 953 left: the position is closed at once."""
    instrument = Instrument("PERP", "1", funding_bps=2000, funding_every="1m")
    tape = tape_of(quiet(58, 58.5, 59.5, 60.5, 61.5, asks=200, bids=200), (), instrument)
    player = Player(tape, MarketConfig(initial_cash=1000, leverage=5))
    results = [player.step(BUY_ALL)[0] for _ in range(2)]
    assert [bool(r.terminated[0]) for r in results] == [False, True]
    assert player.position == 0
    assert player.cash == pytest.approx(1000 - 47 * 101 - 940 + 47 * 99)


def test_the_larger_of_two_evidences_counts() -> None:
    """5 lots sold through at 98 and a book asking 3 at 98: 5, not 8."""
    books = [*quiet(0, 0.5), (0.7, [(97, 10)], [(98, 3)]), *quiet(1.5)]
    player = Player(tape_of(books, [(0.6, 98, 5, "A")]), RICH)
    assert int(player.step(JOIN_BID)[1].maker_lots[0]) == 5


def test_improving_stands_before_everybody() -> None:
    """At 100, one tick inside 99/101, nothing is displayed: the first seller at 100 fills it."""
    player = Player(tape_of(quiet(0, 0.5, 1.5), [(0.6, 100, 4, "A")]), RICH)
    _, events = player.step((LONG, FULL, IMPROVE, PATIENT))
    assert (int(events.maker_lots[0]), int(events.maker_tick[0])) == (4, 100)


def test_improving_joins_where_there_is_no_room() -> None:
    """99/100 leaves no tick inside."""
    books = [(s, [(99, 7)], [(100, 9)]) for s in (0, 0.5, 1.5)]
    player = Player(tape_of(books), RICH)
    assert int(player.step((LONG, FULL, IMPROVE, PATIENT))[1].order_tick[0]) == 99
    assert player.ahead == 7


def test_a_limit_order_that_arrives_marketable_takes_up_to_its_limit() -> None:
    """Joined at 99, but the next book asks 4 at 98 and 3 at 99: those fill as taker, 3 lots rest at 99."""
    later = [(s, [(97, 10)], [(100, 9)]) for s in (1.5, 2.5)]
    books = [*quiet(0), (0.5, [(97, 10)], [(98, 4), (99, 3), (100, 9)]), *later]
    player = Player(tape_of(books), RICH)
    _, events = player.step(JOIN_BID)
    assert takes(events) == [(98, 4), (99, 3)]
    assert (player.remaining, player.ahead) == (3, 0)


def test_a_price_beyond_the_last_level_has_an_unknown_queue() -> None:
    """Joined at 99; the book that counts shows bids at 103 and 102 only. Sells at 99 do not fill, sells below do."""
    books = [
        *quiet(0),
        (0.5, [(103, 5), (102, 5)], [(105, 5)]),
        (1.5, [(99, 6)], [(105, 5)]),
        (2.5, [(99, 6)], [(105, 5)]),
    ]
    player = Player(tape_of(books, [(0.6, 99, 50, "A"), (1.7, 99, 8, "A")]), RICH)
    assert int(player.step(JOIN_BID)[1].maker_lots[0]) == 0
    assert player.ahead == UNKNOWN
    # At the next row the price is shown with 6 lots: it has been joined behind them by then.
    assert int(player.step(JOIN_BID)[1].maker_lots[0]) == 0
    assert player.ahead == 6


def test_patience_ends_in_a_new_price_or_a_crossing() -> None:
    """Bids rise to 100: a normal order of patience 2 follows at its third decision, an urgent one crosses."""
    books = [*quiet(0, 0.5), *[(s, [(100, 8)], [(102, 20)]) for s in (0.7, 1.5, 2.5, 3.5, 4.5)]]
    market = replace(RICH, patience=(8, 2, 1))
    player = Player(tape_of(books), market)
    events = player.steps([(LONG, FULL, JOIN, NORMAL)] * 4)
    assert [int(e.order_event[0]) for e in events] == [actions.PLACED, actions.KEPT, actions.REPRICED, actions.KEPT]
    assert [int(e.order_tick[0]) for e in events] == [99, 99, 100, 100]
    hurried = Player(tape_of(books), market)
    hurried.step((LONG, FULL, JOIN, URGENT))
    assert takes(hurried.step((LONG, FULL, JOIN, URGENT))[1]) == [(102, 10)]


def test_the_queue_place_survives_shrinking_and_not_growing() -> None:
    """Target half keeps the place, target full again loses it: 10 ahead anew."""
    trades = [(0.6, 99, 6, "A")]
    player = Player(tape_of(quiet(0, 0.5, 1.5, 2.5, 3.5, 4.5), trades), RICH)
    player.step(JOIN_BID)
    assert (player.remaining, player.ahead) == (10, 4)
    player.step((LONG, HALF, JOIN, PATIENT))
    assert (player.remaining, player.ahead) == (5, 4)
    assert int(player.step(JOIN_BID)[1].order_event[0]) == actions.REPLACED
    assert (player.remaining, player.ahead) == (10, 10)


def test_flat_cancels() -> None:
    """Nothing held, nothing wanted: the working order goes."""
    player = Player(tape_of(quiet(0, 0.5, 1.5, 2.5)), RICH)
    events = player.steps([JOIN_BID, (FLAT, FULL, JOIN, PATIENT)])
    assert int(events[1].order_event[0]) == actions.CANCELLED
    assert player.remaining == 0


def test_an_order_on_the_way_leaves_the_old_one_exposed() -> None:
    """Latency 300 ms: cancelled at 1 s, the bid is hit at 1.2 s, before the cancel arrives."""
    trades = [(1.2, 99, 13, "A"), (1.4, 99, 50, "A")]
    books = quiet(0, 0.5, 1.6, 2.5)
    player = Player(tape_of(books, trades, config=TapeConfig(latency="300ms")), RICH)
    player.step(JOIN_BID)
    _, events = player.step((FLAT, FULL, JOIN, PATIENT))
    assert (int(events.early_lots[0]), int(events.early_tick[0])) == (3, 99)
    assert int(events.order_event[0]) == actions.CANCELLED
    assert (player.position, player.cash) == (3, 10_000 - 3 * 99)


def test_fees_by_the_hand() -> None:
    """Buy 10 at 101 taker, sell 4 at 101 maker and 6 at 99 taker, with a tax on sells and per-lot fees."""
    instrument = replace(ONE, maker_bps=-1, taker_bps=5, sell_bps=10, maker_per_lot=0.01, taker_per_lot=0.02)
    trades = [(1.7, 101, 14, "B")]
    player = Player(tape_of(quiet(0, 0.5, 1.5, 2.5, 3.5), trades, instrument), RICH)
    buy = player.step(BUY_ALL)[1]
    assert float(buy.taker_fee[0]) == pytest.approx(1010 * 5e-4 + 10 * 0.02)
    sell = player.step((FLAT, FULL, JOIN, PATIENT))[1]
    assert int(sell.maker_lots[0]) == -4
    assert float(sell.maker_fee[0]) == pytest.approx(404 * (-1 + 10) * 1e-4 + 4 * 0.01)
    close = player.step((FLAT, FULL, CROSS, PATIENT))[1]
    assert float(close.taker_fee[0]) == pytest.approx(594 * (5 + 10) * 1e-4 + 6 * 0.02)
    paid = 0.505 + 0.2 + 0.3636 + 0.04 + 0.891 + 0.12
    assert player.cash == pytest.approx(10_000 - 1010 + 404 + 594 - paid)


def test_config_replaces_the_instruments_fees_but_not_the_tax() -> None:
    """taker_bps=2 in the config: 2 bps on the buy, 2 + 10 on the sell, no per-lot fee."""
    instrument = replace(ONE, taker_bps=5, sell_bps=10, taker_per_lot=0.02)
    player = Player(tape_of(quiet(0, 0.5, 1.5, 2.5), (), instrument), replace(RICH, taker_bps=2.0))
    buy, sell = player.steps([BUY_ALL, (FLAT, FULL, CROSS, NORMAL)])
    assert float(buy.taker_fee[0]) == pytest.approx(1010 * 2e-4)
    assert float(sell.taker_fee[0]) == pytest.approx(990 * 12e-4)


def test_a_buyer_without_margin_pays_fees_and_slippage_out_of_the_same_cash() -> None:
    """1000 of cash, ask 101, 1 % fee: 102.01 a lot, so 9 lots of the 10 wanted, and cash stays above zero."""
    market = MarketConfig(initial_cash=1000, taker_bps=100.0)
    player = Player(tape_of(quiet(0, 0.5, 1.5)), market)
    assert takes(player.step(BUY_ALL)[1]) == [(101, 9)]
    assert player.cash == pytest.approx(1000 - 9 * 102.01)


def test_exactly_affordable_is_affordable() -> None:
    """10 lots at 100 cost exactly 1000."""
    books = [(s, [(100, 50)], [(101, 50)]) for s in (0, 0.5, 1.5)]
    market = MarketConfig(initial_cash=1010, magnitudes=(0.25, 0.5, 1.0))
    player = Player(tape_of(books), market)
    assert takes(player.step(BUY_ALL)[1]) == [(101, 10)]
    assert player.cash == 0


def test_short_exposure_is_bounded_by_equity() -> None:
    """Short at 99 with the mid at 100: each lot costs 100 of room and 1 of equity, so 9 of 10 lots."""
    player = Player(tape_of(quiet(0, 0.5, 1.5)), MarketConfig(initial_cash=1000))
    assert takes(player.step((SHORT, FULL, CROSS, NORMAL))[1]) == [(99, -9)]


def test_orders_open_in_whole_order_lots_and_close_to_the_last_lot() -> None:
    """Order lot 4, 8 lots wanted, 5 offered. The missing 3 are no order lot; flat sells all 5."""
    instrument = Instrument("ONE", "1", order_lots=4)
    books = [*quiet(0, 0.5, asks=5), *quiet(1.5, 2.5, 3.5)]
    market = MarketConfig(initial_cash=10_000, magnitudes=(0.02, 0.04, 0.08))
    tape = tape_of([(s, b, a[:1]) for s, b, a in books], (), instrument)
    player = Player(tape, market)
    events = player.steps([BUY_ALL, BUY_ALL, (FLAT, FULL, CROSS, NORMAL)])
    assert [takes(e) for e in events] == [[(101, 5)], [], [(99, -5)]]


def test_small_magnitudes_are_at_least_one_order_lot() -> None:
    """A quarter of 8 lots is 2, less than an order lot of 4."""
    market = MarketConfig(initial_cash=10_000, magnitudes=(0.02, 0.04, 0.08))
    player = Player(tape_of(quiet(0, 0.5, 1.5), (), Instrument("ONE", "1", order_lots=4)), market)
    assert int(player.step((LONG, QUARTER, CROSS, NORMAL))[1].target[0]) == 4


def test_liquidation_closes_on_the_book_that_showed_the_loss() -> None:
    """Leverage 5, 49 lots long at 101 (1000 of cash): at a mid of 84.5 equity is gone below 10 % of the position.

    The forced sale walks that book: 30 at 84, 19 at 80; the observation after shows no position, and the step ends the
    episode as terminated, not truncated.
    """
    crash = [(0.7, [(84, 30), (80, 50)], [(85, 10)]), (1.5, [(84, 30), (80, 50)], [(85, 10)])]
    market = MarketConfig(initial_cash=1000, leverage=5)
    player = Player(tape_of([*quiet(0, 0.5, asks=200), *crash]), market)
    result, events = player.step(BUY_ALL)
    bought = int(events.taker_lots[0].sum())
    assert bought == 47  # 5 * 1000 / (100 + 5 * 1) = 47.6
    sold = events.liquidation_lots[0]
    assert list(zip(events.liquidation_tick[0][:2].tolist(), sold[:2].tolist(), strict=True)) == [(84, -30), (80, -17)]
    assert player.cash == 1000 - 47 * 101 + 30 * 84 + 17 * 80
    assert player.position == 0
    assert float(result.observation["portfolio"][0, 0]) == 0
    assert (bool(result.terminated[0]), bool(result.truncated[0])) == (True, False)
    assert float(result.reward[0]) == player.cash - 1000


def test_no_liquidation_above_maintenance() -> None:
    """The same position at a mid of 95: equity 718 is above 10 % of 4465."""
    dip = [(0.7, [(94, 80)], [(96, 10)]), (1.5, [(94, 80)], [(96, 10)])]
    player = Player(tape_of([*quiet(0, 0.5, asks=200), *dip]), MarketConfig(initial_cash=1000, leverage=5))
    result, _ = player.step(BUY_ALL)
    assert not bool(result.terminated[0])
    assert float(player.environment.state.worth[0]) == 1000 - 47 * 101 + 47 * 95
