"""Limits on decisions by hand: the risk budget's cap and the bracket that closes a trade."""

import pytest
import torch

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.interface import Limits
from foxhunt.market.brackets import EXITS
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.scaling import FeatureScaler

from .frames import BookRow, tape_of

LONG_NOW = torch.tensor([[2, 2, 2, 0]])
SHORT_NOW = torch.tensor([[0, 2, 2, 0]])
FLAT_NOW = torch.tensor([[1, 0, 2, 0]])


def rising(mids: list[int]) -> list[BookRow]:
    """A book every half second around each mid, one second apart: bid mid - 1, ask mid + 1, deep."""
    return [(k / 2, [(mids[k // 2] - 1, 1000)], [(mids[k // 2] + 1, 1000)]) for k in range(2 * len(mids))]


def environment(mids: list[int]) -> TradingEnvironment:
    tape = tape_of(rising(mids), config=TapeConfig(levels=1, ofi_levels=1))
    market = MarketConfig(initial_cash=1000.0)
    fitted = FeatureScaler.fit(tape, market)
    # One reward unit is eight ticks of the full cap: 0.25 is two ticks, exactly.
    cap = TradingEnvironment(tape, market, scaler=fitted, sweep=True).state.cap
    scaler = FeatureScaler(fitted.symbols, fitted.center, fitted.scale, torch.full((2,), 8.0) * cap)
    return TradingEnvironment(tape, market, scaler=scaler, sweep=True)


def plan(target: float, stop: float, horizon: float) -> Limits:
    return Limits(None, *(torch.tensor([value]) for value in (target, stop, horizon)))


def play(env: TradingEnvironment, action: torch.Tensor, limits: Limits, steps: int) -> list[tuple[int, str]]:
    """Position after each step, and why a bracket closed it."""
    seen = []
    for _ in range(steps):
        env.step(action, limits)
        seen.append((int(env.state.account.position[0]), EXITS[int(env.events.bracket_exit[0])]))
    return seen


class TestRisk:
    @pytest.mark.parametrize(("risk", "lots"), [(1.0, 9), (0.5, 5), (0.3, 3), (0.0, 0)])
    def test_caps_the_position(self, risk: float, lots: int) -> None:
        """The cap is 10 lots of 100; leverage 1 pays 101 a lot, so the full cap ends at 9."""
        env = environment([100] * 6)
        assert int(env.state.cap[0]) == 10
        env.step(LONG_NOW, Limits(risk=torch.tensor([risk])))
        assert int(env.state.account.position[0]) == lots

    def test_a_smaller_budget_reduces_the_position_held(self) -> None:
        env = environment([100] * 6)
        env.step(LONG_NOW, Limits(risk=torch.tensor([0.8])))
        env.step(LONG_NOW, Limits(risk=torch.tensor([0.2])))
        assert int(env.state.account.position[0]) == 2
        assert int(env.events.cap[0]) == 2

    def test_no_limits_is_the_whole_cap(self) -> None:
        one, other = environment([100, 101, 103, 102, 104, 100]), environment([100, 101, 103, 102, 104, 100])
        for _ in range(4):
            mine = one.step(LONG_NOW)
            theirs = other.step(LONG_NOW, Limits(risk=torch.tensor([1.0])))
            assert torch.equal(mine.reward, theirs.reward)


class TestBracket:
    def test_target_closes_a_winner(self) -> None:
        """Bought at the decision on 100; the mid first stands 3 above it at the fourth decision: sold there."""
        env = environment([100, 101, 102, 103, 104, 105, 106])
        seen = play(env, LONG_NOW, plan(0.375, 9, 99), 4)
        assert [why for _, why in seen] == ["", "", "", "target"]
        assert [p > 0 for p, _ in seen] == [True, True, True, False]

    def test_stop_closes_a_loser(self) -> None:
        env = environment([100, 99, 98, 97, 96, 95, 94])
        seen = play(env, LONG_NOW, plan(9, 0.25, 99), 3)
        assert [why for _, why in seen] == ["", "", "stop"]
        assert seen[-1][0] == 0

    def test_shorts_mirror_longs(self) -> None:
        up, down = environment([100, 99, 98, 97, 96]), environment([100, 101, 102, 103, 104])
        assert [why for _, why in play(up, SHORT_NOW, plan(0.25, 9, 99), 3)] == ["", "", "target"]
        assert [why for _, why in play(down, SHORT_NOW, plan(9, 0.25, 99), 3)] == ["", "", "stop"]

    def test_horizon_closes_in_time(self) -> None:
        """A horizon of 2 closes with the second decision after the one that opened."""
        env = environment([100] * 8)
        assert [why for _, why in play(env, LONG_NOW, plan(9, 9, 2), 3)] == ["", "", "horizon"]

    def test_plan_of_the_opening_decision_stays(self) -> None:
        """Later decisions cannot move the target of a trade that is on."""
        env = environment([100, 101, 102, 103, 104, 105])
        env.step(LONG_NOW, plan(0.25, 9, 99))
        seen = play(env, LONG_NOW, plan(9, 9, 99), 2)
        assert [why for _, why in seen] == ["", "target"]

    def test_a_reversal_arms_a_new_bracket(self) -> None:
        env = environment([100, 101, 102, 101, 100, 99, 98])
        env.step(LONG_NOW, plan(9, 9, 99))
        env.step(LONG_NOW, plan(9, 9, 99))
        env.step(SHORT_NOW, plan(0.25, 9, 99))
        assert int(env.state.account.position[0]) < 0
        assert int(env.state.bracket.entry[0]) == 2 * 102
        assert [why for _, why in play(env, SHORT_NOW, plan(9, 9, 99), 2)] == ["", "target"]

    def test_flat_has_no_bracket(self) -> None:
        env = environment([100, 90, 80, 70, 60])
        assert play(env, FLAT_NOW, plan(0.1, 0.1, 1), 4) == [(0, "")] * 4

    def test_state_round_trip(self) -> None:
        mids = [100, 101, 102, 103, 104, 105]
        one, other = environment(mids), environment(mids)
        one.step(LONG_NOW, plan(0.375, 9, 99))
        other.load_state_dict(one.state_dict())
        assert play(one, LONG_NOW, plan(9, 9, 99), 3) == play(other, LONG_NOW, plan(9, 9, 99), 3)


def test_hold_is_what_the_full_cap_would_have_brought() -> None:
    """Ten lots from 100 to 103: 30; spread of 2 on ten lots: 20, without fees. Whatever was done."""
    env = environment([100, 103, 103, 103])
    hold = env.step(FLAT_NOW).hold
    assert hold.move.item() == 30
    assert hold.cost.item() == 20
