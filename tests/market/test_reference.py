"""The vector environment against the plain-Python market, step for step."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.data.schema import Instrument
from foxhunt.errors import DataError
from foxhunt.market.actions import PLACED, REPRICED
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.queue import UNKNOWN
from foxhunt.market.state import StepEvents

from .frames import tape_of, wild_market
from .reference import Market, Step, Trader

ROUNDING = 1e-9
QUEUES = ("risk-averse", "linear", "logarithmic")
INSTRUMENTS = (
    Instrument("ONE", "1"),
    Instrument("TEN", "1", order_lots=3, maker_bps=-20, taker_bps=50, sell_bps=10),
    Instrument("LOT", "1", lot_size="0.5", multiplier=2, maker_per_lot=0.01, taker_per_lot=0.2),
    Instrument("PERP", "1", funding_bps=25, funding_every="10s"),
)


def check_step(environment: TradingEnvironment, index: int, trader: Trader, done: Step, reward: float) -> None:
    """Everything observable of one environment equals the reference's."""
    state, events = environment.state, environment.events
    assert events is not None
    assert int(state.row[index]) == trader.row
    assert int(state.account.position[index]) == trader.position
    for mine, theirs in (
        (state.account.cash, trader.cash),
        (state.account.cost, trader.cost),
        (state.worth, trader.worth),
    ):
        assert float(mine[index]) == pytest.approx(theirs, rel=ROUNDING, abs=1e-6)
    assert float(reward) == pytest.approx(done.reward, abs=1e-6)
    remaining = int(state.order.remaining[index])
    assert remaining == (trader.order.remaining if trader.order else 0)
    if trader.order:
        for name in ("side", "kind", "tick", "displayed", "age", "target"):
            assert int(getattr(state.order, name)[index]) == getattr(trader.order, name), name
        ahead = int(state.order.ahead[index])
        assert (math.inf if ahead >= UNKNOWN else ahead) == trader.order.ahead


def check_events(events: StepEvents, index: int, trader: Trader, done: Step) -> None:
    """The report of the step equals what the reference did."""
    assert int(events.row[index]) == trader.row - 1
    assert int(events.early_lots[index]) == done.early
    assert done.early == 0 or int(events.early_tick[index]) == done.early_tick
    assert int(events.maker_lots[index]) == done.maker
    assert float(events.funding[index]) == pytest.approx(done.funding, abs=1e-9)
    for lots, ticks, fills in (
        (events.taker_lots, events.taker_tick, done.takes),
        (events.liquidation_lots, events.liquidation_tick, done.forced),
    ):
        filled = lots[index].abs() > 0
        assert list(zip(ticks[index][filled].tolist(), lots[index][filled].abs().tolist(), strict=True)) == fills


def play_both(
    seed: int, instrument: Instrument, config: TapeConfig, market: MarketConfig, environments: int = 12, steps: int = 40
) -> int:
    """Random actions on a wild market through both; everything observable must be equal. Returns the orders sent."""
    books, trades = wild_market(seed)
    try:
        tape = tape_of(books, trades, instrument, config)
    except DataError:
        assert not Market(books, trades, config).segments
        return 0
    reference = Market(books, trades, config)
    assert tape.time.tolist() == [row[0] for row in reference.rows]
    assert tape.segments.tolist() == [list(s) for s in reference.segments]

    environment = TradingEnvironment(tape, market, environments, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    state = environment.state
    traders = [
        Trader(reference, instrument, market, int(state.row[i]), int(state.last[i])) for i in range(environments)
    ]
    over = [False] * environments
    action = torch.randint(0, 3, (environments, 4), generator=generator)
    orders = 0
    for _ in range(steps):
        # Actions persist for a while, so that orders rest long enough to fill.
        fresh = torch.randint(0, 3, (environments, 4), generator=generator)
        action = torch.where(torch.rand(environments, 1, generator=generator) < 0.4, fresh, action)
        result = environment.step(action)
        events = environment.events
        assert events is not None
        orders += int((events.active & ((events.order_event == PLACED) | (events.order_event >= REPRICED))).sum())
        for i, trader in enumerate(traders):
            assert bool(events.active[i]) != over[i]
            if over[i]:
                assert float(result.reward[i]) == 0
                assert not result.terminated[i]
                assert not result.truncated[i]
                traders[i] = Trader(reference, instrument, market, int(state.row[i]), int(state.last[i]))
                assert int(state.cap[i]) == traders[i].cap
                over[i] = False
                continue
            done = trader.step(action[i].tolist())
            check_step(environment, i, trader, done, float(result.reward[i]))
            check_events(events, i, trader, done)
            assert (bool(result.terminated[i]), bool(result.truncated[i])) == (done.terminated, done.truncated)
            assert events.action[i].tolist() == action[i].tolist()
            over[i] = done.terminated or done.truncated
    return orders


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    queue=st.sampled_from(QUEUES),
    through=st.sampled_from(["evidenced", "full"]),
    latency=st.sampled_from(["0ms", "100ms", "250ms", "1s"]),
    data_latency=st.sampled_from(["0ms", "0ms", "150ms", "1s"]),
    execution=st.sampled_from(["next", "known"]),
    every=st.sampled_from(["1s", "250ms", "3ev", "1ev"]),
    leverage=st.sampled_from([0.5, 1.0, 3.0]),
    maintenance=st.sampled_from([0.3, 0.98]),
    cash=st.sampled_from([900.0, 5_000.0]),
    instrument=st.sampled_from(INSTRUMENTS),
)
def test_vector_environment_equals_plain_python(
    seed: int,
    queue: str,
    through: str,
    latency: str,
    data_latency: str,
    execution: str,
    every: str,
    leverage: float,
    maintenance: float,
    cash: float,
    instrument: Instrument,
) -> None:
    """Every account, order, fill, reward and flag, over many episodes of a wild market."""
    config = TapeConfig(
        every=every, latency=latency, data_latency=data_latency, execution=execution, levels=3, ofi_levels=2,
        stale_after="5s",
    )  # fmt: skip
    market = MarketConfig(
        initial_cash=cash, leverage=leverage, maintenance=maintenance / leverage, episode_steps=25, patience=(4, 2, 1),
        queue=queue, through=through,
    )  # fmt: skip
    play_both(seed, instrument, config, market)


def test_ten_thousand_orders_at_event_resolution() -> None:
    """A decision on every book: no trade, no book and no level is summed over, and all of these orders agree."""
    orders = 0
    for seed, (queue, through, execution, latency) in enumerate(
        product(QUEUES, ("evidenced", "full"), ("next", "known"), ("0ms", "120ms"))
    ):
        config = TapeConfig(
            every="1ev", latency=latency, execution=execution, levels=3, ofi_levels=2, stale_after="5s"
        )  # fmt: skip
        market = MarketConfig(initial_cash=3000, leverage=2, episode_steps=60, queue=queue, through=through)
        orders += play_both(seed, INSTRUMENTS[seed % 4], config, market, environments=20, steps=50)
    assert orders >= 10_000
