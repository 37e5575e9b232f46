"""Baselines do what their names say, and what was fitted was fitted elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from foxhunt.evaluate import baselines
from foxhunt.evaluate.arena import Arena, Entry
from foxhunt.evaluate.record import Backtest
from foxhunt.evaluate.recorder import record
from foxhunt.interface import Decision
from foxhunt.market.actions import CROSS, FLAT, JOIN, LONG, SHORT


def only(arena: Arena, policy: object) -> Backtest:
    ((backtest,),) = record(arena, [Entry("policy", policy)])  # type: ignore[arg-type]
    return backtest


def test_flat_never_trades(arenas: dict[str, Arena]) -> None:
    run = only(arenas["test"], baselines.flat())
    assert run.fills.height == run.orders.height == 0
    assert (run.decisions["reward"] == 0).all()


def test_buy_and_hold_buys_the_cap_by_crossing_and_keeps_it(arenas: dict[str, Arena]) -> None:
    run = only(arenas["test"], baselines.buy_and_hold())
    assert set(run.fills["side"]) == {"buy"}
    assert set(run.fills["liquidity"]) == {"taker"}
    for _, account in run.decisions.group_by("segment", maintain_order=True):
        cap = int(5_000 / account["mid"][0])
        assert account["target_lots"].to_list() == [cap] * account.height
        assert cap - 1 <= account["position_lots"][-1] <= cap  # the last lot may be what fees and spread cost
        assert account["position_lots"].is_sorted()


def test_twap_buys_evenly_over_each_account(arenas: dict[str, Arena]) -> None:
    run = only(arenas["test"], baselines.twap(arenas["test"]))
    assert set(run.fills["side"]) == {"buy"}
    assert len(run.accounts) == 2
    for _, account in run.decisions.group_by("segment", maintain_order=True):
        cap, decisions = account["cap_lots"][0], account.height
        wanted = [cap * (k + 1) // decisions for k in range(decisions)]
        assert np.abs(account["target_lots"].to_numpy() - wanted).max() <= 1  # shares round in floating point
        assert account["target_lots"][-1] == cap
        assert account["position_lots"].is_sorted()


@pytest.mark.parametrize("seed", [1, 2])
def test_random_trading_turns_over_what_the_agent_does(arenas: dict[str, Arena], seed: int) -> None:
    arena, seeds = arenas["test"], 4
    agent = only(arena, baselines.RandomSwitching(
        torch.full((arena.segments,), 0.2, dtype=torch.float64), torch.tensor([[JOIN, 0], [CROSS, 2]]),
        torch.arange(arena.segments), seed=100 + seed,
    ))  # fmt: skip
    matched = baselines.match_turnover(arena, agent, seeds)
    (runs,) = record(arena, [Entry("random", matched.policy, seeds)])
    wanted = agent.fills["notional"].sum()
    got = np.mean([run.fills["notional"].sum() for run in runs])
    assert got / wanted == pytest.approx(matched.ratio)
    assert abs(got / wanted - 1) <= baselines.TOLERANCE
    assert len({run.fills["notional"].sum() for run in runs}) == seeds
    assert {kind for run in runs for kind in run.orders["kind"]} == {"join", "cross"}  # as the agent's


def test_random_trading_of_an_idle_agent_is_idle(arenas: dict[str, Arena]) -> None:
    matched = baselines.match_turnover(arenas["test"], only(arenas["test"], baselines.flat()), seeds=2)
    assert (matched.chance, matched.ratio) == (0.0, 0.0)
    (runs,) = record(arenas["test"], [Entry("random", matched.policy, 2)])
    assert [run.fills.height for run in runs] == [0, 0]


def test_turnover_beyond_reach_is_told(arenas: dict[str, Arena]) -> None:
    """Full long, full short, full long: more than random sizes and directions can trade."""

    class Flipping:
        step = 0

        def __call__(self, observation: dict[str, torch.Tensor]) -> Decision:
            self.step += 1
            action = torch.tensor([[LONG if self.step % 2 else SHORT, 2, CROSS, 2]])
            return Decision(action.repeat(len(observation["market"]), 1))

    matched = baselines.match_turnover(arenas["test"], only(arenas["test"], Flipping()), seeds=2)
    assert matched.chance == 1.0
    assert matched.ratio < 1 - baselines.TOLERANCE


def test_higher_chances_only_add_switches() -> None:
    """Where the rarer one switches, the other switches to the same target."""
    chance = torch.tensor([0.1, 0.4], dtype=torch.float64)
    policy = baselines.RandomSwitching(chance, torch.tensor([[CROSS, 2]]), torch.tensor([0, 0]), seed=0)
    actions = torch.stack([policy({"market": torch.zeros(2, 1)}).action for _ in range(2000)])
    switched = (actions[1:] != actions[:-1]).any(2)
    assert (actions[1:, 0] == actions[1:, 1])[switched[:, 0]].all()
    # One draw in nine repeats direction and size.
    assert switched.double().mean(0).tolist() == pytest.approx([0.1 * 8 / 9, 0.4 * 8 / 9], rel=0.15)


def test_ofi_rule_follows_the_sign_and_holds_between() -> None:
    rule = baselines.OfiRule(torch.tensor([1.0, 1.0]), torch.tensor([CROSS, JOIN]))
    seen = []
    for shortest in ([0.5, -0.5], [1.0, -1.0], [0.0, 0.0], [-2.0, 2.0]):
        ofi3 = torch.tensor([[value, 9.0, 9.0] for value in shortest])
        seen.append(rule({"ofi3": ofi3}).action.tolist())
    directions = [[row[0] for row in step] for step in seen]
    assert directions == [[FLAT, FLAT], [LONG, SHORT], [LONG, SHORT], [SHORT, LONG]]
    assert [row[1:] for row in seen[0]] == [[2, CROSS, 2], [2, JOIN, 2]]


def test_fitted_threshold_is_the_best_of_its_split(arenas: dict[str, Arena]) -> None:
    arena = arenas["validate"]
    rule = baselines.fit_ofi_rule(arena)
    run = only(arena, rule.policy(arena))
    assert run.decisions["reward"].sum() == pytest.approx(rule.profit)
    sizes = arena.imbalance().abs()
    for quantile in (0.5, 0.999):  # the widest and the narrowest rule tried
        for order in (JOIN, CROSS):
            other = baselines.FittedRule(float(sizes.quantile(quantile)), order, 0.0)
            assert float(arena.totals(other.policy(arena), 1).profit[0]) <= rule.profit + 1e-9


def test_rule_stays_flat_where_no_threshold_pays(arenas: dict[str, Arena]) -> None:
    arena = arenas["validate"]
    costly = replace(arena, market=replace(arena.market, maker_bps=50.0, taker_bps=50.0))
    rule = baselines.fit_ofi_rule(costly)
    assert (rule.threshold, rule.profit) == (float("inf"), 0.0)
    assert only(arena, rule.policy(arena)).fills.height == 0
