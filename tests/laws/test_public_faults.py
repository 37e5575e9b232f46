"""Faults that public trading environments ship with, one test each, with the value that is right.

Each test looks from outside (accounts, observations, ledgers); what stands behind it has tests of its own beside it.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from foxhunt.config import MarketConfig, SplitConfig, TapeConfig
from foxhunt.data.readers import ImportOptions, read_sources
from foxhunt.data.schema import Instrument
from foxhunt.evaluate.series import clock
from foxhunt.market.clock import local_clock, sessions
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.gymnasium import TradingEnv
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.tape import Tape
from foxhunt.market.tape_build import bars_as_book, build_tape

from ..evaluate.market import random_backtest
from ..market.frames import ONE, SECOND, BookRow, TradeRow, tape_of, trade_frame, wild_market
from ..market.play import CROSS, FLAT, FULL, HALF, JOIN, LONG, NORMAL, PATIENT, QUARTER, SHORT, Player, takes

RICH = MarketConfig(initial_cash=10_000, magnitudes=(0.025, 0.05, 0.1))
"""At a price of 100: full is 10 lots, half 5 and a quarter 2, far from any limit of the account."""
BUY, SELL, CLOSE = (LONG, FULL, CROSS, NORMAL), (SHORT, FULL, CROSS, NORMAL), (FLAT, FULL, CROSS, NORMAL)
BID = (LONG, FULL, JOIN, PATIENT)


def books(*stamps: float, bid: int = 99, ask: int = 101, lots: int = 50) -> list[BookRow]:
    """The same book at every stamp, nothing behind its best prices."""
    return [(stamp, [(bid, lots)], [(ask, lots)]) for stamp in stamps]


def still(rows: int) -> list[BookRow]:
    """99/101, twice a second."""
    return books(*(s / 2 for s in range(2 * rows)))


def test_future_price_in_the_state() -> None:
    """Up to 5 s the price is 100, then it doubles or does not: no observation up to 5 s tells which."""
    past = still(6)[:11]
    after = [books(*(s / 2 for s in range(11, 24)), bid=b, ask=b + 2) for b in (99, 199)]
    config = TapeConfig(levels=1, ofi_levels=1, volatility_windows=(2, 3))
    tapes = [tape_of(past + future, config=config) for future in after]
    scaler = FeatureScaler.fit(tapes[0], RICH)
    players = [TradingEnvironment(tape, RICH, sweep=True, scaler=scaler) for tape in tapes]
    seen = [player.reset() for player in players]
    for _ in range(5):
        assert all(torch.equal(value, seen[1][name]) for name, value in seen[0].items())
        seen = [player.step(torch.tensor([CLOSE])).observation for player in players]
    assert all(torch.equal(value, seen[1][name]) for name, value in seen[0].items())
    seen = [player.step(torch.tensor([CLOSE])).observation for player in players]
    assert not torch.equal(seen[0]["market"], seen[1]["market"])


def bars(closes: list[float]) -> pl.DataFrame:
    """Bars of a minute that open and close at the same price."""
    prices = [round(close * 10**9) for close in closes]
    stamps = [60 * SECOND * minute for minute in range(len(closes))]
    same = dict.fromkeys(("open", "high", "low", "close"), prices)
    return pl.DataFrame({"ts_event": stamps, "instrument": "ONE", **same, "volume": [100] * len(closes)})


def test_seen_and_traded_at_the_same_close() -> None:
    """Decided on a close of 100, bought at the next close, 120, and a tick: no profit from 100 to 120."""
    config = TapeConfig(every="1ev", stale_after="5m")
    tape = build_tape([(bars_as_book(bars([100, 120, 120]), ONE), trade_frame([]), ONE)], config)
    result, events = Player(tape, RICH).step(BUY)
    assert takes(events) == [(121, 10)]
    assert float(result.reward[0]) == -10


def test_scaler_fitted_on_all_data() -> None:
    """Whatever the test part holds, the features of the train part stay what they are."""
    config = TapeConfig(levels=1, ofi_levels=1, volatility_windows=(2, 3))
    quiet = [(s / 2, [(100 + s % 3, 5 + s % 4)], [(103 + s % 5, 9)]) for s in range(120)]
    wild = quiet[:80] + [(s, [(b[0][0] + 500, 90)], [(a[0][0] + 900, 1)]) for s, b, a in quiet[80:]]
    split = SplitConfig(train="0%/50%", validate="50%/60%", test="70%/100%")
    first, second = (TradingEnv(tape=tape_of(rows, config=config), split=split, market=RICH) for rows in (quiet, wild))
    assert np.array_equal(first.reset(seed=1)[0], second.reset(seed=1)[0])


def test_fee_sign() -> None:
    """10 bp on a buy of 1010 and on a sell of 990 both cost; a maker rebate of 5 bp on 990 pays."""
    player = Player(tape_of(still(5)), replace(RICH, taker_bps=10.0))
    player.steps([BUY, CLOSE])
    assert player.cash == pytest.approx(10_000 - 1010 - 1.010 + 990 - 0.990)
    maker = Player(tape_of(still(5), [(0.6, 99, 60, "A")]), replace(RICH, maker_bps=-5.0))
    maker.step(BID)
    assert maker.cash == pytest.approx(10_000 - 990 + 0.495)


def test_size_ignoring_fees() -> None:
    """1010 of cash, an ask of 101 and a fee of 1 %: nine lots, not ten, and no debt."""
    player = Player(tape_of(still(3)), MarketConfig(initial_cash=1010, taker_bps=100.0))
    assert takes(player.step(BUY)[1]) == [(101, 9)]
    assert player.cash == pytest.approx(1010 - 9 * 102.01)


def test_float_rounding_that_sells_what_is_not_held() -> None:
    """0.1 and 0.2 units bought are 3 lots of 0.1: selling them all leaves exactly nothing, not -5.6e-17."""
    tenth = Instrument("TEN", "1", lot_size="0.1")
    market = MarketConfig(initial_cash=100, magnitudes=(0.1, 0.3, 1.0))
    player = Player(tape_of(still(6), (), tenth), market)
    steps = player.steps([(LONG, QUARTER, CROSS, NORMAL), (LONG, HALF, CROSS, NORMAL), CLOSE])
    assert [takes(step) for step in steps] == [[(101, 1)], [(101, 2)], [(99, -3)]]
    assert player.position == 0
    assert 0.1 + 0.2 - 0.3 != 0


def crash() -> Tape:
    """99/101, then 84/85 for good."""
    return tape_of([*books(0, 0.5, lots=200), *books(0.7, *(s / 2 for s in range(3, 12)), bid=84, ask=85, lots=80)])


def test_repeated_terminal_reward() -> None:
    """Liquidated at 84: -799 once. The step that starts the next episode earns nothing, nor does a sweep's end."""
    market = MarketConfig(initial_cash=1000, leverage=5)
    for sweep in (False, True):
        environment = TradingEnvironment(crash(), replace(market, episode_steps=8), None if sweep else 1, sweep=sweep)
        rewards = [environment.step(torch.tensor([BUY])) for _ in range(2)]
        assert [float(r.reward[0]) for r in rewards] == [47 * (84 - 101), 0]
        assert [bool(r.terminated[0]) for r in rewards] == [True, False]


def test_end_of_data_as_termination() -> None:
    """The last row truncates, so that learners bootstrap through it: running out of data is no loss."""
    player = Player(tape_of(still(4)), RICH)
    flags = [player.step(BUY)[0] for _ in range(3)]
    assert [bool(f.truncated[0]) for f in flags] == [False, False, True]
    assert not any(bool(f.terminated[0]) for f in flags)


def test_reset_observation_stored_as_next_observation() -> None:
    """The step that ends an episode serves that episode's last state; the one after serves the first of the next."""
    environment = TradingEnvironment(tape_of(still(30)), replace(RICH, episode_steps=3), 1)
    shares = [float(environment.step(torch.tensor([BUY])).observation["portfolio"][0, 0]) for _ in range(4)]
    assert shares == pytest.approx([0.1, 0.1, 0.1, 0])


def test_resize_that_closes_and_reopens() -> None:
    """From 10 lots to 5: one sale of 5, one fee of 5 lots; and nothing where the target is held already."""
    player = Player(tape_of(still(6)), replace(RICH, taker_bps=10.0))
    _, smaller, same = player.steps([BUY, (LONG, HALF, CROSS, NORMAL), (LONG, HALF, CROSS, NORMAL)])
    assert takes(smaller) == [(99, -5)]
    assert float(smaller.taker_fee[0]) == pytest.approx(5 * 99 * 0.001)
    assert takes(same) == []


def test_liquidation_after_the_observation() -> None:
    """The observation of the step that liquidates shows the account after it: no position, all of the loss."""
    environment = TradingEnvironment(crash(), MarketConfig(initial_cash=1000, leverage=5), sweep=True)
    result = environment.step(torch.tensor([BUY]))
    assert bool(result.terminated[0])
    assert result.observation["portfolio"][0, :2].tolist() == [0, 0]
    assert float(environment.state.worth[0]) == 1000 + float(result.reward[0]) == 1000 - 47 * 17


def test_partial_fills_lost() -> None:
    """3, then 4, then 3 lots of a bid of 10: all ten are held and paid for."""
    trades: list[TradeRow] = [(s, 99, lots, "A") for s, lots in ((0.6, 53), (1.6, 4), (2.6, 9))]
    player = Player(tape_of(still(6), trades), RICH)
    assert [int(e.maker_lots[0]) for e in player.steps([BID] * 3)] == [3, 4, 3]
    assert (player.position, player.cash, player.remaining) == (10, 10_000 - 10 * 99, 0)


@pytest.mark.parametrize(("queue", "ahead"), [("risk-averse", 50), ("linear", 25), ("logarithmic", 25)])
def test_a_delete_ahead_that_puts_you_at_the_front(queue: str, ahead: int) -> None:
    """50 ahead, 50 join behind, 50 are deleted: 50 or 25 are still ahead, and 20 sold there reach nobody else."""
    rows = [*books(0, 0.5), *books(0.9, 1.4, lots=100), *books(1.7, 2.4, 2.9, 3.4)]
    player = Player(tape_of(rows, [(2.6, 99, 20, "A")]), replace(RICH, queue=queue))
    events = player.steps([BID] * 2)
    assert player.ahead == ahead
    events += player.steps([BID])
    assert player.ahead == ahead - 20
    assert sum(int(e.maker_lots[0]) for e in events) == 0


def test_two_orders_using_the_same_liquidity() -> None:
    """12 lots are offered and stay displayed: 10 are bought, sold again, and only the 2 that are left bought then."""
    rows = [(s / 2, [(99, 50)], [(101, 12)]) for s in range(12)]
    player = Player(tape_of(rows), RICH)
    assert [takes(e) for e in player.steps([BUY, CLOSE, BUY])] == [[(101, 10)], [(99, -10)], [(101, 2)]]


def test_fills_against_the_pre_trade_book() -> None:
    """Decided on an ask of 101; when the order arrives 150 is asked: that is the price."""
    player = Player(tape_of([*books(0), *books(0.5, 1.5, 2.5, bid=148, ask=150)]), RICH)
    assert takes(player.step(BUY)[1]) == [(150, 10)]


def test_empty_levels_as_sentinel_prices() -> None:
    """One level of ten is shown: nine that are not there make no price, no size and no feature out of bounds."""
    tape = tape_of(still(6))
    assert set(tape.decision[:, :, 0].flatten().tolist()) == {99, 101}
    assert int(tape.decision[:, :, 1, 1:].sum()) == 0
    assert bool(tape.market.isfinite().all())
    assert bool(tape.ofi.isfinite().all())
    spread, deviation = (tape.market[0, tape.market_names.index(name)] for name in ("spread", "microprice"))
    assert (float(spread), float(deviation)) == (2, 0)


def test_bars_stamped_at_open(tmp_path: Path) -> None:
    """A bar from 12:00 to 12:05 stamped 12:00 is known at 12:05, when its close is."""
    path = tmp_path / "ONE.csv"
    path.write_text(
        "date,open,high,low,close,volume\n2022-06-01 12:00:00,10,12,9,11,5\n2022-06-01 12:05:00,11,11,9,9,5\n"
    )
    options = ImportOptions(tick_size="1", stamp="open", every="5m")
    known = read_sources([path], options).frames["bars"]["ts_event"]
    assert known.cast(pl.Datetime("ns", "UTC")).dt.to_string("%H:%M").to_list() == ["12:05", "12:10"]


def test_crossed_feed() -> None:
    """A bid of 110 against an ask of 101 is no chance to sell at 110: the next sound book counts, 99."""
    rows = [*books(0), (0.5, [(110, 50)], [(101, 50)]), (0.6, [(101, 50)], [(101, 50)]), *books(0.8, 1.5, 2.5)]
    player = Player(tape_of(rows), RICH)
    assert takes(player.step(SELL)[1]) == [(99, -10)]


def test_fill_time_before_order_time() -> None:
    """On wild data, with latency and without: an order reaches its book after it was sent, and before the next."""
    for latency, execution in (("0ms", "next"), ("250ms", "next"), ("250ms", "known"), ("0ms", "known")):
        config = TapeConfig(levels=3, ofi_levels=2, latency=latency, execution=execution)
        tape = tape_of(*wild_market(11, 600), config=config)
        last = torch.zeros(tape.rows, dtype=torch.bool)
        last[tape.segments[:, 1] - 1] = True
        sent = tape.time + (250_000_000 if latency == "250ms" else 0)
        early = tape.execution_time < sent if execution == "known" else tape.execution_time <= sent
        assert not bool(early[~last].any())
        assert bool((tape.execution_time[:-1] < tape.time[1:])[~last[:-1]].all())


def test_dst_shift_to_nan() -> None:
    """New York springs forward on 13 March 2022: 01:30 and 03:30 are an hour apart, and 09:30 opens at 13:30 UTC."""
    stamps = [datetime(2022, 3, 13, 6, 30, tzinfo=UTC), datetime(2022, 3, 13, 7, 30, tzinfo=UTC)]
    stamps += [datetime(2022, 3, day, hour, 30, tzinfo=UTC) for day, hour in ((11, 14), (14, 13), (14, 12))]
    nanoseconds = np.array([int(stamp.timestamp()) * SECOND for stamp in stamps])
    hours = local_clock(nanoseconds, "America/New_York")[1] / (3600 * SECOND)
    assert hours.tolist() == [1.5, 3.5, 9.5, 9.5, 8.5]
    shares = Instrument("SPY", "0.01", timezone="America/New_York", sessions=(("09:30", "16:00"),))
    number, elapsed = sessions(nanoseconds, shares)
    assert (number[2:] >= 0).tolist() == [True, True, False]
    assert elapsed[2:4].tolist() == [0, 0]


def test_wrong_annualisation() -> None:
    """A Chinese share trades 3 h 57 min on 252 days, a coin all 8,760 hours: not 252 bars, not the same for both."""
    decisions = random_backtest().decisions
    share = Instrument("SZ", "0.01", sessions=(("09:30", "11:30"), ("13:00", "14:57")))
    assert clock([share], decisions).bins_per_year == 252 * 14_220
    assert clock([Instrument("BTC", "1")], decisions).bins_per_year == 365 * 86_400
