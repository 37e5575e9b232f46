"""Trading on a simulated market's hidden state pays; trading against it, or on nothing, does not."""

import pytest

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.data.simulator import Simulation, SimulatorConfig, simulate
from foxhunt.evaluate.arena import Arena
from foxhunt.evaluate.oracle import Oracle
from foxhunt.market.actions import FLAT
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.tape_build import build_tape


def arena_of(simulation: Simulation) -> Arena:
    """The whole simulation, for an account that trades about ten lots."""
    market = MarketConfig()
    tape = build_tape([(simulation.book, simulation.trades, simulation.instrument)], TapeConfig())
    return Arena(tape, market, FeatureScaler.fit(tape, market))


def profit(simulation: Simulation, contrary: bool = False) -> float:
    arena = arena_of(simulation)
    oracle = Oracle(arena, simulation)
    if contrary:
        oracle.direction = 2 * FLAT - oracle.direction
    return float(arena.totals(oracle, 1).profit[0])


@pytest.fixture(scope="module")
def told() -> Simulation:
    return simulate(SimulatorConfig(seconds=3600, signal=0.8, state_seconds=120, seed=4))


def test_the_hidden_state_pays_for_its_costs_many_times_over(told: Simulation) -> None:
    earned = profit(told)
    assert earned > 1000
    assert profit(told, contrary=True) < -earned


def test_without_signal_the_state_costs_what_trading_costs() -> None:
    silent = simulate(SimulatorConfig(seconds=3600, signal=0.0, state_seconds=120, seed=4))
    assert -1000 < profit(silent) < 100


def test_holds_the_state_of_each_decision(told: Simulation) -> None:
    arena = arena_of(told)
    oracle = Oracle(arena, told)
    changes, states = told.signal["ts_event"].to_list(), told.signal["state"].to_list()
    for row in (0, 500, 2000):
        time = int(arena.tape.time[row])
        current = max(k for k, change in enumerate(changes) if change <= time)
        assert int(oracle.direction[row]) == states[current] + FLAT
