"""Laws of accounting, on wild markets and random actions."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.data.schema import Instrument
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.state import StepEvents
from foxhunt.market.tape import Tape

from ..market.frames import BookRow, TradeRow, tape_of, wild_market

CONFIG = TapeConfig(levels=3, ofi_levels=2, latency="100ms", every="500ms")
FREE = Instrument("ONE", "1")
COSTLY = replace(FREE, lot_size="0.5", multiplier=2, taker_bps=30, maker_bps=-5, sell_bps=10, maker_per_lot=0.1)
SEEDS = st.integers(0, 100_000)


def actions(seed: int, environments: int, steps: int) -> list[Tensor]:
    """Random actions that last a few steps."""
    generator = torch.Generator().manual_seed(seed)
    chosen = [torch.randint(0, 3, (environments, 4), generator=generator)]
    for _ in range(steps - 1):
        fresh = torch.randint(0, 3, (environments, 4), generator=generator)
        chosen.append(torch.where(torch.rand(environments, 1, generator=generator) < 0.4, fresh, chosen[-1]))
    return chosen


def fills(events: StepEvents) -> tuple[Tensor, Tensor]:
    """[environments, fills] signed lots and ticks of every fill of a step."""
    lots = [events.early_lots[:, None], events.taker_lots, events.maker_lots[:, None], events.liquidation_lots]
    ticks = [events.early_tick[:, None], events.taker_tick, events.maker_tick[:, None], events.liquidation_tick]
    return torch.cat(lots, 1), torch.cat(ticks, 1)


def fees(events: StepEvents) -> Tensor:
    """All fees of a step."""
    return events.early_fee + events.taker_fee + events.maker_fee + events.liquidation_fee


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, leverage=st.sampled_from([1.0, 4.0]))
def test_money_and_lots_are_conserved(seed: int, leverage: float) -> None:
    """Rewards add up to the change in equity, fills to the change in position, money paid to the change in cash; and
    cash plus the position at the mid is equity."""
    tape = tape_of(*wild_market(seed), COSTLY, CONFIG)
    market = MarketConfig(initial_cash=3000, leverage=leverage, maintenance=0.9 / leverage, episode_steps=30)
    environment = TradingEnvironment(tape, market, 16, seed=seed)
    earned = torch.zeros(16, dtype=torch.float64)
    held = torch.zeros(16, dtype=torch.int64)
    cash = torch.full((16,), 3000.0, dtype=torch.float64)
    for action in actions(seed, 16, 60):
        fresh = environment.finished.clone()
        result = environment.step(action)
        events = environment.events
        assert events is not None
        lots, ticks = fills(events)
        earned = torch.where(fresh, 0, earned + result.reward)
        held = torch.where(fresh, 0, held + lots.sum(1))
        cash = torch.where(fresh, 3000, cash - (lots * ticks).sum(1).double() * COSTLY.tick_value - fees(events))
        state = environment.state
        assert torch.equal(held, state.account.position)
        torch.testing.assert_close(cash, state.account.cash, rtol=1e-12, atol=1e-9)
        torch.testing.assert_close(earned, state.worth - 3000, rtol=0, atol=1e-8)
        mid = tape.touch[state.row].sum(1).double() / 2
        torch.testing.assert_close(state.worth, cash + held * mid * COSTLY.tick_value, rtol=1e-12, atol=1e-8)


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_higher_fees_never_help(seed: int) -> None:
    """Same actions, far from the account's limits: the same fills, and never more equity."""
    tape = tape_of(*wild_market(seed), config=CONFIG)
    cheap, dear = (
        TradingEnvironment(
            tape,
            MarketConfig(initial_cash=1e5, magnitudes=(0.001, 0.01, 0.02), episode_steps=50, maker_bps=m, taker_bps=t),
            16,
            seed=seed,
        )
        for m, t in ((0.0, 1.0), (0.5, 3.0))
    )
    for action in actions(seed, 16, 50):
        cheap.step(action)
        dear.step(action)
        assert cheap.events is not None
        assert dear.events is not None
        assert torch.equal(fills(cheap.events)[0], fills(dear.events)[0])
        assert bool((dear.state.worth <= cheap.state.worth).all())
        traded = fills(cheap.events)[0].any(1)
        assert bool((fees(dear.events) > fees(cheap.events))[traded].all())


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, leverage=st.sampled_from([0.5, 1.0, 3.0]), instrument=st.sampled_from([COSTLY, FREE]))
def test_solvency(seed: int, leverage: float, instrument: Instrument) -> None:
    """Without margin a holder's cash never falls below zero; and no order raises exposure beyond leverage times equity,
    both at the mid of the book that it met."""
    tape = tape_of(*wild_market(seed), instrument, CONFIG)
    market = MarketConfig(initial_cash=2000, leverage=leverage, maintenance=0.0, episode_steps=40)
    environment = TradingEnvironment(tape, market, 16, seed=seed)
    for action in actions(seed, 16, 60):
        before = environment.state.account.position.clone()
        environment.step(action)
        events = environment.events
        assert events is not None
        if leverage <= 1:
            holders = events.position > 0
            assert bool((events.cash[holders] >= -1e-9).all())
        lots = events.taker_lots.sum(1)
        after = before + events.early_lots + lots
        raised = (lots != 0) & (after.abs() > before.abs()) & (events.maker_lots == 0)
        mid = tape.execution[events.row][:, :, 0, 0].sum(1).double() / 2 * instrument.tick_value
        equity = events.cash + after * mid
        assert bool((after.abs() * mid <= leverage * equity + 1e-6)[raised].all())


def mirrored(books: list[BookRow], trades: list[TradeRow]) -> tuple[list[BookRow], list[TradeRow]]:
    """Prices negated, bids and asks exchanged, sellers made buyers."""

    def flip(levels: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return [(-tick, lots) for tick, lots in levels]

    side = {"A": "B", "B": "A", "N": "N"}
    return (
        [(stamp, flip(list(asks)), flip(list(bids))) for stamp, bids, asks in books],
        [(stamp, -tick, lots, side[aggressor]) for stamp, tick, lots, aggressor in trades],
    )


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, queue=st.sampled_from(["risk-averse", "linear", "logarithmic"]))
def test_mirror_symmetry(seed: int, queue: str) -> None:
    """Long in a market is short in its mirror image, to the last bit, with fees per lot."""
    instrument = replace(FREE, maker_per_lot=-0.25, taker_per_lot=0.5)
    market = MarketConfig(initial_cash=2000, leverage=2, maintenance=0.4, episode_steps=40, queue=queue)  # type: ignore[arg-type]
    books, trades = wild_market(seed)
    sides = [
        TradingEnvironment(tape_of(b, t, instrument, CONFIG), market, 16, seed=seed)
        for b, t in ((books, trades), mirrored(books, trades))
    ]
    for action in actions(seed, 16, 60):
        opposite = action.clone()
        opposite[:, 0] = 2 - action[:, 0]
        results = [environment.step(a) for environment, a in zip(sides, (action, opposite), strict=True)]
        assert torch.equal(results[0].reward, results[1].reward)
        assert torch.equal(results[0].terminated, results[1].terminated)
        assert torch.equal(sides[0].state.account.position, -sides[1].state.account.position)
        assert torch.equal(sides[0].state.order.ahead, sides[1].state.order.ahead)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_a_market_that_stands_still_pays_the_spread_and_nothing_else(seed: int) -> None:
    """Bid 99 and ask 101 for good, no fees: a fill earns or costs its distance to 100, and holding is worth 0."""
    generator = torch.Generator().manual_seed(seed)
    books: list[BookRow] = [(stamp / 4, [(99, 6)], [(101, 6)]) for stamp in range(200)]
    trades: list[TradeRow] = [
        (stamp / 4 + 0.1, *((99, 4, "A") if torch.rand(1, generator=generator) < 0.5 else (101, 4, "B")))
        for stamp in range(200)
    ]
    environment = TradingEnvironment(tape_of(books, trades), MarketConfig(initial_cash=5000, episode_steps=20), 16)
    held = 0
    for action in actions(seed, 16, 60):
        result = environment.step(action)
        events = environment.events
        assert events is not None
        lots, ticks = fills(events)
        assert torch.equal(result.reward, (lots * (100 - ticks)).sum(1).double())
        held += int(events.position.abs().sum())
    assert held > 0


def test_ticks_and_lots_are_integers_end_to_end() -> None:
    """No price and no quantity is ever a float."""
    tape: Tape = tape_of(*wild_market(1), config=CONFIG)
    environment = TradingEnvironment(tape, MarketConfig(initial_cash=5000), 4)
    environment.step(torch.full((4, 4), 2))
    assert environment.events is not None
    for name, value in environment.events._asdict().items():
        money = name.endswith("fee") or name in ("cash", "worth", "funding")
        assert value.dtype == (torch.float64 if money else value.dtype)
        assert money or value.dtype in (torch.int64, torch.bool), name
    for tensor in (tape.touch, tape.decision, tape.execution, tape.windows, tape.trade_volume):
        assert tensor.dtype == torch.int64


def test_money_made_by_chance_is_the_cost_of_trading() -> None:
    """On a random walk without signal, what random crossing loses is spread and fees: the rest is zero within noise."""
    generator = torch.Generator().manual_seed(5)
    middle = 1000 + torch.randint(-1, 2, (4000,), generator=generator).cumsum(0)
    books: list[BookRow] = [
        (stamp / 4, [(int(m) - 1, 50)], [(int(m) + 1, 50)]) for stamp, m in enumerate(middle.tolist())
    ]
    tape = tape_of(books, instrument=replace(FREE, taker_bps=5))
    environment = TradingEnvironment(tape, MarketConfig(initial_cash=20_000, episode_steps=100), 64)
    gross = []
    for action in actions(0, 64, 200):
        action[:, 2] = 2
        result = environment.step(action)
        events = environment.events
        assert events is not None
        gross.append(result.reward + events.taker_fee + events.taker_lots.abs().sum(1))
    total = torch.stack(gross).sum(0)
    assert float(total.abs().mean()) > 0
    assert abs(float(total.mean())) < 3 * float(total.std()) / 64**0.5
    assert float(torch.stack(gross).sum()) != pytest.approx(0.0, abs=1e-9)
