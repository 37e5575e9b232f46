"""What heads forecast against what came of it, by hand."""

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foxhunt.evaluate.heads import (
    ENDS,
    Terms,
    bracket_exits,
    calibrate,
    error_outcomes,
    judge_heads,
    pay_outcomes,
    plan_ends,
    plan_outcome,
    risk_use,
)
from foxhunt.evaluate.record import HEADS, Backtest
from foxhunt.interface import Limits
from foxhunt.market.brackets import EXITS, Bracket, arm_bracket, check_bracket

from .market import account, backtest

SHORT, FLAT, LONG = range(3)
TERMS = Terms(n_step=2, discount=0.5, v_min=-100.0, v_max=100.0, usual_error=1.0, horizon=2)
MIDS = [100.0, 101.0, 103.0, 102.0, 100.0]


def said(positions: list[int] | None = None, **columns: list[float]) -> Backtest:
    """Four decisions whose network said `columns`; the cap is 4 lots, a round trip of it costs 4."""
    run = backtest([account()], [MIDS], [positions or [0] * 4])
    schema = dict(run.decisions.schema)
    changed = run.decisions.with_columns(
        pl.Series(name, values, dtype=schema[name], strict=False) for name, values in columns.items()
    )
    return Backtest(run.policy, run.branches, run.accounts, changed, run.orders, run.fills)


def test_calibration_by_hand() -> None:
    """Four forecasts of 0.1 of which one comes true miss by 0.15; one of 1.0 that does is right."""
    found = calibrate(np.array([0.1, 0.1, 0.1, 0.1, 1.0]), np.array([0.0, 0.0, 1.0, 0.0, 1.0]))
    assert found is not None
    assert found.error == pytest.approx(4 / 5 * 0.15)
    assert found.count == (0, 4, *[0] * 12, 1)
    assert found.forecast[1] == pytest.approx(0.1)
    assert found.outcome[1] == pytest.approx(0.25)
    assert (found.forecast[14], found.outcome[14]) == (1.0, 1.0)
    assert found.forecast[0] is None
    assert (found.samples, found.mean_forecast, found.mean_outcome) == (5, pytest.approx(0.28), pytest.approx(0.4))
    assert calibrate(np.zeros(0), np.zeros(0)) is None


@pytest.mark.parametrize(("v_max", "second"), [(100.0, 0.0), (4.0, 0.5 / 1.5)])
def test_realised_error_by_hand(v_max: float, second: float) -> None:
    """Targets 1 + 2/2 + 8/4 = 4 and 2 + 3/2 + 4/4 = 4.5 (clipped to 4 where the atoms end there)."""
    values = {"value_direction": [4, 4.5, 0, 0], "value_magnitude": [3, 4.5, 0, 0]}
    values |= {"value_order": [5, 4.5, 0, 0], "value_urgency": [2, 4.5, 0, 0]}
    run = said(reward=[1, 2, 3, 4], best_value=[0, 0, 8, 4], forecast_error=[0.3, 0.6, 0.9, 0.9], **values)
    terms = Terms(n_step=2, discount=0.5, v_min=-100.0, v_max=v_max, usual_error=1.0, horizon=2)
    forecast, share = error_outcomes(run, terms)
    assert forecast.tolist() == pytest.approx([0.3, 0.6])
    assert share.tolist() == pytest.approx([0.5, second])


def test_rewards_are_counted_in_the_account_s_unit() -> None:
    values = {f"value_{branch}": [0.0] * 4 for branch in ("direction", "magnitude", "order", "urgency")}
    run = said(reward=[10, 0, 0, 0], best_value=[0] * 4, forecast_error=[0.5] * 4, **values)
    accounts = (type(run.accounts[0])(**{**vars(run.accounts[0]), "reward_unit": 10.0}),)
    run = Backtest(run.policy, run.branches, accounts, run.decisions, run.orders, run.fills)
    assert error_outcomes(run, TERMS)[1].tolist() == pytest.approx([0.5, 0.0])


def test_whether_a_trade_paid_by_hand() -> None:
    """Long from 100 gains 4 * 3 and costs 4; short from 101 loses 4 * 1; the last two are flat or too late."""
    run = said(wanted=[LONG, SHORT, FLAT, LONG], selectivity=[0.7, 0.2, 0.5, 0.9])
    forecast, paid = pay_outcomes(run, horizon=2)
    assert forecast.tolist() == pytest.approx([0.7, 0.2])
    assert paid.tolist() == [1, 0]
    assert pay_outcomes(run, horizon=5)[0].tolist() == []


def test_a_gain_of_just_the_costs_does_not_pay() -> None:
    """Long from 100 to 101 gains 4, which is what entering and leaving cost."""
    run = said(wanted=[LONG, FLAT, FLAT, FLAT], selectivity=[0.5] * 4)
    assert pay_outcomes(run, horizon=1)[1].tolist() == [0]


def test_risk_used_by_hand() -> None:
    run = said(positions=[2, -1, 0, 4], risk_budget=[0.5, 0.3, 0.1, 1.0], allowed_lots=[2, 1, 0, 4])
    use = risk_use(run)
    assert use.budget == pytest.approx(1.9 / 4)
    assert use.allowed == pytest.approx(7 / 16)
    assert use.used == pytest.approx(7 / 16)


def test_plans_by_hand() -> None:
    """From 100 long: +4, +12. From 101 short: -8, -4. From 103 long: -4, -12."""
    run = said(
        wanted=[LONG, SHORT, LONG, LONG],
        plan_target=[12, 1, 1, 1],
        plan_stop=[1, 8, 5, 1],
        plan_horizon=[1.5, 2, 0.5, 2],
        bracket_exit=[None, "target", "target", "stop"],
    )
    found = plan_outcome(run, horizon=2)
    assert found is not None
    assert found.plans == 3
    assert found.ended == pytest.approx({"target": 1 / 3, "stop": 1 / 3, "horizon": 1 / 3})
    assert found.promised == pytest.approx({"target": 0.4, "stop": 0.2, "horizon": 0.5})
    # Peaks: after 2 of 1.5 decisions, after 2 of 2, after 1 of 0.5; the third's stop is reached after its horizon.
    assert found.kept == pytest.approx({"target": 1 / 3, "stop": 2 / 3, "horizon": 1 / 3})
    assert found.exits == {"target": 1, "stop": 0, "horizon": 0}


def test_a_closing_bracket_counts_once_and_accounts_stand_alone() -> None:
    exits = [None, "target", "target", None, "stop", "stop", "horizon"]
    frame = pl.DataFrame({"segment": [0, 0, 0, 0, 0, 1, 1], "bracket_exit": exits})
    assert bracket_exits(frame) == {"target": 1, "stop": 2, "horizon": 0}


@given(st.integers(0, 2**31 - 1))
def test_plans_end_as_brackets_do(seed: int) -> None:
    """Followed decision by decision with the environment's own brackets."""
    generator = np.random.default_rng(seed)
    steps, plans = 8, 5
    path = generator.integers(-3, 4, (steps, plans)).cumsum(0)
    target, stop = generator.integers(1, 6, (2, plans)).astype(float)
    horizon = generator.uniform(0.2, steps, plans)
    ones, nothing = torch.ones(plans, dtype=torch.long), torch.zeros(plans, dtype=torch.long)
    limits = Limits(target=torch.tensor(target), stop=torch.tensor(stop), horizon=torch.tensor(horizon))
    unarmed = Bracket(nothing, nothing, *[nothing.double()] * 3)
    bracket = arm_bracket(unarmed, ones, nothing, ones.double(), limits)
    ended = np.full(plans, -1)
    for gain in torch.from_numpy(path):
        exits = [EXITS[k] for k in check_bracket(bracket, gain)]
        ended = np.where(ended < 0, [ENDS.index(e) if e else -1 for e in exits], ended)
        bracket = arm_bracket(bracket, ones, gain, ones.double(), limits)
    assert plan_ends(path.astype(float), target, stop, horizon).tolist() == ended.tolist()


def test_only_heads_that_spoke_are_judged() -> None:
    silent = judge_heads(said(), TERMS)
    assert (silent.confidence, silent.selectivity, silent.risk, silent.plan, silent.unjudged) == (None,) * 4 + ((),)
    plan = {name: [1.0] * 4 for name in HEADS if name.startswith("plan_")}
    flat = judge_heads(said(wanted=[FLAT] * 4, selectivity=[0.5] * 4, **plan), TERMS)
    assert flat.unjudged == ("selectivity", "trade plans")
