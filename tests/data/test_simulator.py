"""The simulated market: reproducible, never crossed, and predictable exactly as far as the planted signal goes."""

import numpy as np
import polars as pl
import pytest

from foxhunt.data.schema import BOOK_COLUMNS, TRADE_COLUMNS, level_columns
from foxhunt.data.simulator import INSTRUMENT, Simulation, SimulatorConfig, simulate
from foxhunt.errors import ConfigError


@pytest.fixture(scope="module")
def market() -> Simulation:
    return simulate(SimulatorConfig(seconds=1800, signal=0.5, seed=3))


def drift_per_state(simulation: Simulation) -> dict[int, float]:
    """Mean mid move in ticks a second while each hidden state lasts."""
    stamps = simulation.book["ts_event"].to_numpy()
    mid = (simulation.book["bid_px_00"] + simulation.book["ask_px_00"]).to_numpy() / 2 / INSTRUMENT.tick
    at = np.minimum(np.searchsorted(stamps, simulation.signal["ts_event"].to_numpy()), len(stamps) - 1)
    ends = np.append(at[1:], len(stamps) - 1)
    state = simulation.signal["state"].to_numpy()
    seconds = (stamps[ends] - stamps[at]) / 1e9
    return {s: float((mid[ends] - mid[at])[state == s].sum() / seconds[state == s].sum()) for s in (-1, 0, 1)}


def test_frames_are_canonical(market: Simulation) -> None:
    assert sorted(market.book.columns) == sorted(BOOK_COLUMNS)
    assert market.trades.columns == TRADE_COLUMNS
    assert market.book["ts_event"].is_sorted()
    assert market.trades["ts_event"].is_sorted()


def test_book_is_never_crossed_and_levels_are_ordered(market: Simulation) -> None:
    book = market.book
    assert (book["bid_px_00"] < book["ask_px_00"]).all()
    for worse, better in zip(level_columns("bid_px")[1:], level_columns("bid_px"), strict=False):
        assert (book[worse] < book[better]).drop_nulls().all()
        assert (book[worse.replace("bid", "ask")] > book[better.replace("bid", "ask")]).drop_nulls().all()


def test_level_is_missing_in_price_and_size_together(market: Simulation) -> None:
    for side in ("bid", "ask"):
        for px, sz in zip(level_columns(f"{side}_px"), level_columns(f"{side}_sz"), strict=True):
            assert (market.book[px].is_null() == market.book[sz].is_null()).all()
            assert (market.book[sz].drop_nulls() > 0).all()


def test_trades_take_displayed_liquidity(market: Simulation) -> None:
    """The first fill of every market order is at the touch displayed before it, and not larger."""
    touch = market.book.select("ts_event", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00")
    first = market.trades.unique("ts_event", keep="first", maintain_order=True)
    joined = first.join_asof(touch, on="ts_event", allow_exact_matches=False).drop_nulls()
    buys = joined.filter(pl.col("side") == "B")
    sells = joined.filter(pl.col("side") == "A")
    assert len(buys) > 300
    assert len(sells) > 300
    assert (buys["price"] == buys["ask_px_00"]).all()
    assert (buys["size"] <= buys["ask_sz_00"]).all()
    assert (sells["price"] == sells["bid_px_00"]).all()
    assert (sells["size"] <= sells["bid_sz_00"]).all()


def test_same_seed_same_market() -> None:
    first, again, other = (simulate(SimulatorConfig(seconds=120, seed=seed)) for seed in (1, 1, 2))
    assert first.book.equals(again.book)
    assert first.trades.equals(again.trades)
    assert not first.book.equals(other.book)


def test_price_drifts_with_the_hidden_state() -> None:
    drift = drift_per_state(simulate(SimulatorConfig(seconds=7200, signal=0.6, seed=5)))
    assert drift[1] > 0.1
    assert drift[-1] < -0.1
    assert abs(drift[0]) < 0.08


def test_without_signal_the_state_tells_nothing() -> None:
    drift = drift_per_state(simulate(SimulatorConfig(seconds=7200, signal=0.0, seed=5)))
    assert max(abs(d) for d in drift.values()) < 0.08


def test_market_orders_lean_with_the_state() -> None:
    """With signal 0.6 four of five market orders buy in state +1."""
    simulation = simulate(SimulatorConfig(seconds=7200, signal=0.6, seed=5))
    orders = simulation.trades.unique("ts_event", keep="first", maintain_order=True)
    stated = orders.join_asof(simulation.signal, on="ts_event")
    share = stated.filter(pl.col("state") == 1).select((pl.col("side") == "B").mean()).item()
    assert share == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("bad", [{"signal": 1.0}, {"seconds": 0.0}, {"cancel_rate": 0.0}, {"mean_size": 0.5}])
def test_impossible_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="simulator"):
        SimulatorConfig(**bad)
