"""The vector environment against the plain-Python market, step for step."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.data.schema import Instrument
from foxhunt.errors import DataError
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.queue import UNKNOWN

from .frames import tape_of, wild_market
from .reference import Market, Step, Trader

ROUNDING = 1e-9
INSTRUMENTS = (
    Instrument("ONE", "1"),
    Instrument("TEN", "1", order_lots=3, maker_bps=-20, taker_bps=50, sell_bps=10),
    Instrument("LOT", "1", lot_size="0.5", multiplier=2, maker_per_lot=0.01, taker_per_lot=0.2),
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


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    queue=st.sampled_from(["risk-averse", "linear", "logarithmic"]),
    through=st.sampled_from(["evidenced", "full"]),
    latency=st.sampled_from(["0ms", "100ms", "250ms", "1s"]),
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
    every: str,
    leverage: float,
    maintenance: float,
    cash: float,
    instrument: Instrument,
) -> None:
    """Every account, order, fill, reward and flag, over many episodes of a wild market."""
    books, trades = wild_market(seed)
    config = TapeConfig(every=every, latency=latency, levels=3, ofi_levels=2, stale_after="5s")
    market = MarketConfig(
        initial_cash=cash, leverage=leverage, maintenance=maintenance / leverage, episode_steps=25, patience=(4, 2, 1),
        queue=queue, through=through,
    )  # fmt: skip
    try:
        tape = tape_of(books, trades, instrument, config)
    except DataError:
        assert not Market(books, trades, config).segments
        return
    reference = Market(books, trades, config)
    assert tape.time.tolist() == [row[0] for row in reference.rows]
    assert tape.segments.tolist() == [list(s) for s in reference.segments]

    environment = TradingEnvironment(tape, market, 12, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    state = environment.state
    traders = [Trader(reference, instrument, market, int(state.row[i]), int(state.last[i])) for i in range(12)]
    over = [False] * 12
    action = torch.randint(0, 3, (12, 4), generator=generator)
    for _ in range(40):
        # Actions persist for a while, so that orders rest long enough to fill.
        fresh = torch.randint(0, 3, (12, 4), generator=generator)
        action = torch.where(torch.rand(12, 1, generator=generator) < 0.4, fresh, action)
        result = environment.step(action)
        events = environment.events
        assert events is not None
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
            assert (bool(result.terminated[i]), bool(result.truncated[i])) == (done.terminated, done.truncated)
            assert int(events.row[i]) == trader.row - 1
            assert events.action[i].tolist() == action[i].tolist()
            assert int(events.early_lots[i]) == done.early
            assert done.early == 0 or int(events.early_tick[i]) == done.early_tick
            assert int(events.maker_lots[i]) == done.maker
            for lots, ticks, fills in (
                (events.taker_lots, events.taker_tick, done.takes),
                (events.liquidation_lots, events.liquidation_tick, done.forced),
            ):
                filled = lots[i].abs() > 0
                assert list(zip(ticks[i][filled].tolist(), lots[i][filled].abs().tolist(), strict=True)) == fills
            over[i] = done.terminated or done.truncated
