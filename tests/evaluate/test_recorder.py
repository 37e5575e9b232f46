"""The record of a sweep reconciles with the account, step by step, whatever the policy did."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from foxhunt.config import TapeConfig
from foxhunt.data.simulator import Simulation
from foxhunt.evaluate import baselines
from foxhunt.evaluate.arena import Arena, Entry, sweep
from foxhunt.evaluate.metrics import measure
from foxhunt.evaluate.record import DECISIONS, FILLS, HEADS, ORDERS, Backtest
from foxhunt.evaluate.recorder import ACTIONS, record
from foxhunt.evaluate.series import Clock
from foxhunt.interface import Decision, Observation
from foxhunt.market.actions import JOIN, LONG, SHORT
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.tape_build import build_tape

from .conftest import MARKET

CASH = 500_000.0
LOT = 100
"""Shares in a lot of the simulated instrument."""


class Restless:
    """Random actions in every branch, seeded."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, observation: Observation) -> Decision:
        return Decision(torch.randint(0, 3, (len(observation["market"]), 4), generator=self.generator))


@pytest.fixture(scope="module")
def run(arenas: dict[str, Arena]) -> Backtest:
    ((backtest,),) = record(arenas["test"], [Entry("restless", Restless(1))])
    return backtest


def test_tables_have_the_documented_columns(run: Backtest) -> None:
    assert run.decisions.schema == pl.Schema(DECISIONS | dict.fromkeys(ACTIONS, pl.Int8) | HEADS)
    assert run.orders.schema == pl.Schema(ORDERS)
    assert run.fills.schema == pl.Schema(FILLS)


def test_every_decision_of_every_segment_is_there(run: Backtest, arenas: dict[str, Arena]) -> None:
    tape = arenas["test"].tape
    rows = np.concatenate([np.arange(first, stop - 1) for first, stop in tape.segments.tolist()])
    assert len(run.accounts) == 2
    assert run.decisions["row"].to_list() == rows.tolist()
    assert run.decisions["time"].to_physical().to_list() == tape.time[rows].tolist()
    assert run.decisions["until"].to_physical().to_list() == tape.time[rows + 1].tolist()
    assert run.decisions["mid"].to_list() == pytest.approx((tape.half_ticks[rows] / 2 * 0.01).tolist())
    lengths = run.decisions.group_by("segment", maintain_order=True).len()["len"].to_list()
    assert lengths == (tape.segments[:, 1] - tape.segments[:, 0] - 1).tolist()


def test_fills_explain_position_cash_and_fees_of_every_step(run: Backtest) -> None:
    assert run.fills["liquidity"].unique().sort().to_list() == ["maker", "taker"]
    sign = pl.when(pl.col("side") == "buy").then(1).otherwise(-1)
    steps = run.fills.group_by("segment", "step").agg(
        lots=(sign * pl.col("quantity_lots")).sum(), paid=(sign * pl.col("notional")).sum(), fee=pl.col("fee").sum()
    )
    joined = run.decisions.join(steps, on=["segment", "step"], how="left").fill_null(0).sort("segment", "step")
    for _, account in joined.group_by("segment", maintain_order=True):
        assert account["position_lots"].to_list() == account["lots"].cum_sum().to_list()
        cash = CASH - (account["paid"] + account["fee"]).cum_sum()
        assert account["cash"].to_list() == pytest.approx(cash.to_list())
        assert account["fees"].to_list() == pytest.approx(account["fee"].to_list(), abs=1e-12)


def test_rewards_sum_to_the_change_in_equity_and_split_into_move_slippage_fees(run: Backtest) -> None:
    for _, account in run.decisions.group_by("segment", maintain_order=True):
        assert account["reward"].cum_sum().to_list() == pytest.approx((account["equity"] - CASH).to_list())
    measured = measure(run, Clock(10**9, 86_400, 365))
    ends = run.decisions.with_columns(after=pl.col("mid").shift(-1).over("segment"))
    shares = ends["position_lots"] * LOT
    last = (ends["equity"] - ends["cash"]) / shares
    moves = (ends["after"].fill_null(last) - ends["mid"]) * shares
    assert measured.market_move == pytest.approx(moves.sum())
    assert measured.pnl == pytest.approx(measured.market_move - measured.slippage - measured.fees)


def test_prices_and_quantities_are_the_decimals_of_ticks_and_lots(run: Backtest) -> None:
    fills = run.fills
    assert fills["price"].to_list() == [float(f"{ticks / 100:.2f}") for ticks in fills["price_ticks"]]
    assert fills["quantity"].to_list() == (fills["quantity_lots"] * float(LOT)).to_list()
    assert fills["notional"].to_list() == pytest.approx((fills["price"] * fills["quantity"]).to_list())
    taken = fills.filter(liquidity="taker")
    assert taken["fee"].to_list() == pytest.approx((taken["notional"] * 0.5e-4).to_list())


def test_contracts_of_many_units_are_counted_in_units_and_money(simulation: Simulation) -> None:
    """Lots of a tenth of a unit, five units of money a unit of price: a lot at 100 is worth 50."""
    contract = replace(simulation.instrument, lot_size="0.1", multiplier=5.0, taker_per_lot=0.25, taker_bps=0.0)
    tape = build_tape([(simulation.book, simulation.trades, contract)], TapeConfig()).select("0%/20%")
    arena = Arena(tape, MARKET, FeatureScaler.fit(tape, MARKET))
    ((run,),) = record(arena, [Entry("restless", Restless(1))])
    fills, steps = run.fills, run.decisions
    assert fills["quantity"].to_list() == [lots / 10 for lots in fills["quantity_lots"]]
    assert steps["position"].to_list() == [lots / 10 for lots in steps["position_lots"]]
    assert fills["notional"].to_list() == pytest.approx((fills["price"] * fills["quantity"] * 5).to_list())
    taken = fills.filter(liquidity="taker")
    assert taken["fee"].to_list() == pytest.approx((taken["quantity_lots"] * 0.25).to_list())
    value = steps["equity"] - steps["cash"]
    after = steps["mid"].shift(-1).drop_nulls() * steps["position"][:-1] * 5
    assert value[:-1].to_list() == pytest.approx(after.to_list())


def test_taken_lots_stay_within_their_order(run: Backtest) -> None:
    taken = run.fills.filter(liquidity="taker").group_by("segment", "step", "side").agg(pl.col("quantity_lots").sum())
    placed = run.orders.filter(pl.col("event").is_in(["placed", "replaced", "repriced"]))
    joined = taken.join(
        placed.select("segment", "step", "side", ordered="quantity_lots"), on=["segment", "step", "side"]
    )
    assert joined.height == taken.height > 20
    assert (joined["quantity_lots"] <= joined["ordered"]).all()


def test_resting_orders_fill_at_their_own_price(run: Backtest) -> None:
    """A maker fill is at the price of the newest resting order, or of the one before while its cancel is on its way."""
    made = run.fills.filter(liquidity="maker")
    assert made.height > 20
    for fill in made.iter_rows(named=True):
        before = run.orders.filter(
            (pl.col("segment") == fill["segment"])
            & (pl.col("step") <= fill["step"])
            & pl.col("event").is_in(["placed", "replaced", "repriced"])
        ).tail(2)
        assert (fill["side"], fill["price_ticks"]) in set(zip(before["side"], before["price_ticks"], strict=True))


def test_orders_are_numbered_and_priced(run: Backtest) -> None:
    orders = run.orders
    assert set(orders["event"]) <= {"placed", "replaced", "repriced", "cancelled", "expired", "refused"}
    for _, account in orders.group_by("segment", maintain_order=True):
        fresh = account.filter(pl.col("event").is_in(["placed", "replaced"]) | (pl.col("event") == "refused"))
        assert account["order"][0] == 0
        assert fresh["order"].is_sorted()
    crossing = orders.filter(kind="cross")
    resting = orders.filter((pl.col("kind") != "cross") & (pl.col("event") != "cancelled"))
    assert crossing["price"].null_count() == crossing.height
    assert resting["price"].null_count() == 0
    assert orders.filter(event="cancelled")["side"].null_count() == orders.filter(event="cancelled").height


def test_recording_changes_nothing(arenas: dict[str, Arena], run: Backtest) -> None:
    environment: TradingEnvironment = arenas["test"].environment()
    worth = [events.worth.clone() for events, _ in sweep(environment, Restless(1))]
    first = run.decisions.filter(segment=0)["equity"].to_list()
    assert [float(step[0]) for step in worth[: len(first)]] == first


def test_policies_side_by_side_do_as_they_do_alone(arenas: dict[str, Arena]) -> None:
    arena = arenas["test"]
    entries = [
        Entry("flat", baselines.flat()),
        Entry("buy and hold", baselines.buy_and_hold(), copies=2),
        Entry("restless", Restless(1)),
    ]
    together = record(arena, entries)
    ((alone,),) = record(arena, [Entry("restless", Restless(1))])
    assert [len(runs) for runs in together] == [1, 2, 1]
    assert together[2][0].decisions.equals(alone.decisions)
    assert together[2][0].fills.equals(alone.fills)
    assert together[1][0].decisions.equals(together[1][1].decisions)
    assert together[0][0].fills.height == 0


def test_totals_agree_with_the_record(arenas: dict[str, Arena]) -> None:
    arena = arenas["test"]
    ((recorded,),) = record(arena, [Entry("restless", Restless(2))])
    totals = arena.totals(Restless(2), copies=1)
    assert float(totals.profit[0]) == pytest.approx(recorded.decisions["reward"].sum())
    assert float(totals.traded[0]) == pytest.approx(recorded.fills["notional"].sum())


class Hesitant:
    """Wants to be long and short by turns, with patient orders at the touch."""

    step = 0

    def __call__(self, observation: Observation) -> Decision:
        self.step += 1
        direction = LONG if self.step % 2 else SHORT
        return Decision(torch.tensor([[direction, 2, JOIN, 0]]).repeat(len(observation["market"]), 1))


def test_an_order_that_outlives_its_account_expires(arenas: dict[str, Arena]) -> None:
    """What an account ordered last and did not fill is what expires."""
    ((run,),) = record(arenas["test"], [Entry("hesitant", Hesitant())])
    expired = run.orders.filter(event="expired")
    assert expired.height > 0
    for row in expired.iter_rows(named=True):
        key = {name: row[name] for name in ("segment", "step", "side")}  # its side: the order before it was opposite
        placed = run.orders.filter(event="replaced", **key)
        assert row["step"] == run.decisions.filter(segment=row["segment"]).height - 1
        assert row["quantity_lots"] == placed["quantity_lots"][0] - run.fills.filter(**key)["quantity_lots"].sum()
        assert (row["order"], row["price"]) == (placed["order"][0], placed["price"][0])
