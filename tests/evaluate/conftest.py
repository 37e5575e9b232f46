"""A simulated market cut into splits, and back-tests on it."""

import pytest

from foxhunt.config import MarketConfig, SplitConfig, TapeConfig
from foxhunt.data.simulator import Simulation, SimulatorConfig, simulate
from foxhunt.evaluate.arena import Arena
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.split import split_tape
from foxhunt.market.tape_build import build_tape

SPLIT = SplitConfig(train="0%/40%", validate="40%/70%", test="70%/100%")
MARKET = MarketConfig(initial_cash=500_000.0)


@pytest.fixture(scope="session")
def simulation() -> Simulation:
    """Ten minutes of a simulated market with a signal."""
    return simulate(SimulatorConfig(seconds=600, seed=3))


@pytest.fixture(scope="session")
def arenas(simulation: Simulation) -> dict[str, Arena]:
    """Its splits; the test split holds a gap, so that there are two accounts."""
    book = simulation.book
    gap = book["ts_event"].is_between(520 * 10**9, 560 * 10**9)
    parts = [(book.filter(~gap), simulation.trades, simulation.instrument)]
    tape = build_tape(parts, TapeConfig(every="1s", latency="50ms", stale_after="20s"))
    splits = split_tape(tape, SPLIT)
    scaler = FeatureScaler.fit(splits["train"], MARKET)
    return {name: Arena(part, MARKET, scaler) for name, part in splits.items()}
