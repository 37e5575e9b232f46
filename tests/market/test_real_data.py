"""The tape of a real day against the raw file, and the laws on it."""

from pathlib import Path

import polars as pl
import pytest
import torch

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.data.readers import ImportOptions, read_sources
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.tape import ASK, BID, SIZE, TICK, Tape
from foxhunt.market.tape_build import build_tape

from ..laws.test_accounting import actions, fees, fills

FILE = "ashare_l2/SH600519_20230201_mbp10.parquet"
STEP = 3_000_000_000


@pytest.fixture(scope="module")
def tape(market_data: Path) -> Tape:
    """A Shanghai stock, a decision every three seconds."""
    imported = read_sources([market_data / FILE], ImportOptions(map="ashare"))
    (instrument,) = imported.instruments.values()
    return build_tape([(imported.frames["book"], imported.frames["trades"], instrument)], TapeConfig(every="3s"))


@pytest.fixture(scope="module")
def snapshots(market_data: Path) -> pl.DataFrame:
    """Continuous trading straight from the file: UTC stamps in ns, integer prices in cents."""
    local = pl.col("ts").dt.replace_time_zone("Asia/Shanghai").dt.convert_time_zone("UTC").dt.epoch("ns").alias("ns")
    clock = pl.col("ts").dt.time()
    morning = clock.is_between(pl.time(9, 30), pl.time(11, 30), closed="left")
    afternoon = clock.is_between(pl.time(13), pl.time(14, 57), closed="left")
    cents = [
        (pl.col(f"{s}_px_{level:02d}") * 100).round().cast(pl.Int64) for s in ("bid", "ask") for level in range(10)
    ]
    sizes = [pl.col(f"{s}_sz_{level:02d}") for s in ("bid", "ask") for level in range(10)]
    frame = pl.read_parquet(market_data / FILE).filter((pl.col("phase") == "TRADE") & (morning | afternoon))
    return frame.select(local, *cents, *sizes).unique("ns", keep="last").sort("ns")


def test_every_row_shows_the_files_own_books(tape: Tape, snapshots: pl.DataFrame) -> None:
    """Decision: the last snapshot up to the instant; execution: the first one after it. All ten levels."""
    instants = pl.DataFrame({"ns": tape.time.numpy() - 1, "row": range(tape.rows)})
    known = instants.join_asof(snapshots, on="ns", strategy="backward")
    after = instants.with_columns(pl.col("ns") + 1).join_asof(
        snapshots, on="ns", strategy="forward", allow_exact_matches=False
    )
    last = torch.zeros(tape.rows, dtype=torch.bool)
    last[tape.segments[:, 1] - 1] = True
    assert int((~last).sum()) > 4000
    for book, frame, checked in ((tape.decision, known, slice(None)), (tape.execution, after, ~last)):
        for side, name in ((BID, "bid"), (ASK, "ask")):
            for field, column in ((TICK, "px"), (SIZE, "sz")):
                names = [f"{name}_{column}_{level:02d}" for level in range(10)]
                expected = torch.from_numpy(frame.select(names).to_numpy().copy())
                assert torch.equal(book[:, side, field][checked], expected[checked]), (name, column)


def test_segments_are_the_two_halves_of_the_day(tape: Tape) -> None:
    """09:30 to 11:30 and 13:00 to 14:57 at three seconds are 2,400 and 2,340 instants."""
    assert (tape.segments[:, 1] - tape.segments[:, 0]).tolist() == [2400, 2340]
    assert (tape.time[1:] - tape.time[:-1]).unique().min() == STEP


def test_accounts_balance_on_a_real_day(tape: Tape) -> None:
    """Money, lots and equity over a sweep of random actions, stamp duty and commissions included."""
    environment = TradingEnvironment(tape, MarketConfig(initial_cash=2e6), sweep=True)
    tick_value = tape.instruments[0].tick_value
    earned, cash, held, paid = (torch.zeros(2, dtype=torch.float64) for _ in range(4))
    cash += 2e6
    for action in actions(0, 2, 2400):
        earned += environment.step(action).reward
        assert environment.events is not None
        live = environment.events.active
        lots, ticks = fills(environment.events)
        held += lots.sum(1) * live
        cash -= ((lots * ticks).sum(1).double() * tick_value + fees(environment.events)) * live
        paid += fees(environment.events) * live
        assert bool((environment.events.cash[environment.events.position > 0] >= -1e-6).all())
    assert bool(environment.finished.all())
    assert bool((paid > 0).all())
    torch.testing.assert_close(held, environment.state.account.position.double())
    torch.testing.assert_close(cash, environment.state.account.cash, rtol=1e-10, atol=1e-6)
    torch.testing.assert_close(earned, environment.state.worth - 2e6, rtol=1e-9, atol=1e-6)
