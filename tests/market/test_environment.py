"""Episodes, resets, state and the device contract of the vector environment."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.errors import ConfigError
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.tape import Tape

from ..laws.test_accounting import actions
from .frames import tape_of, wild_market
from .play import CROSS, FULL, LONG, NORMAL, Player

MARKET = MarketConfig(initial_cash=5000, episode_steps=10)


@pytest.fixture(scope="module")
def tape() -> Tape:
    """A wild market of a few segments."""
    return tape_of(
        *wild_market(5, events=500), config=TapeConfig(levels=3, ofi_levels=2, latency="100ms", stale_after="5s")
    )


def still(rows: int) -> Tape:
    """A market that stands still, `rows` decisions long."""
    return tape_of([(float(s), [(99, 50)], [(101, 50)]) for s in range(rows)])


def test_the_step_after_an_end_only_starts_anew() -> None:
    """Next-step autoreset: after ten steps truncated; the next step ignores the action and serves a first row."""
    environment = TradingEnvironment(still(60), MARKET, 3)
    buy = torch.tensor([[LONG, FULL, CROSS, NORMAL]] * 3)
    ends = []
    for step in range(25):
        result = environment.step(buy)
        assert environment.events is not None
        ends.append(bool(result.truncated.all()))
        if step in (10, 21):
            assert not bool(environment.events.active.any())
            assert result.reward.tolist() == [0, 0, 0]
            assert environment.state.account.position.tolist() == [0, 0, 0]
            assert environment.state.account.cash.tolist() == [5000, 5000, 5000]
            assert float(result.observation["portfolio"].abs().sum()) == 0
        else:
            assert bool(environment.events.active.all())
            assert int(environment.state.account.position[0]) > 0
    assert [i for i, end in enumerate(ends) if end] == [9, 20]


def test_the_final_observation_is_the_one_of_the_last_row() -> None:
    """The step that ends an episode shows its own last state, position and all."""
    environment = TradingEnvironment(still(60), MARKET, 1)
    for _ in range(10):
        result = environment.step(torch.tensor([[LONG, FULL, CROSS, NORMAL]]))
    assert bool(result.truncated[0])
    assert float(result.observation["portfolio"][0, 0]) == pytest.approx(49 / 50)


def test_the_end_of_the_data_truncates_and_never_terminates() -> None:
    """A segment of five rows holds four steps, though an episode may last ten."""
    environment = TradingEnvironment(still(5), MARKET, 2)
    flags = [environment.step(torch.tensor([[LONG, FULL, CROSS, NORMAL]] * 2)) for _ in range(4)]
    assert [bool(f.truncated.all()) for f in flags] == [False, False, False, True]
    assert not any(bool(f.terminated.any()) for f in flags)


def test_a_sweep_plays_every_segment_once_and_stands_still(tape: Tape) -> None:
    """One account a segment; each ends at its segment's last row and earns nothing afterwards."""
    environment = TradingEnvironment(tape, MARKET, sweep=True)
    lengths = (tape.segments[:, 1] - tape.segments[:, 0] - 1).tolist()
    assert len(set(lengths)) > 1
    ended = [0] * len(lengths)
    for step, action in enumerate(actions(1, len(lengths), max(lengths) + 5), start=1):
        before = environment.finished.clone()
        worth = environment.state.worth.clone()
        result = environment.step(action)
        for i in result.truncated.nonzero()[:, 0].tolist() + result.terminated.nonzero()[:, 0].tolist():
            assert ended[i] == 0
            ended[i] = step
        assert torch.equal(environment.state.worth[before], worth[before])
        assert bool((result.reward[before] == 0).all())
    assert bool(environment.finished.all())
    assert ended == lengths


def test_training_starts_leave_room_for_an_episode() -> None:
    """From 60 rows: starts at rows 0 to 49, all of them, drawn evenly; never beyond."""
    environment = TradingEnvironment(still(60), MARKET, 5000)
    counts = torch.bincount(environment.state.row, minlength=60)
    assert int(counts[50:].sum()) == 0
    # 100 a row are expected; the chi-square statistic of 49 degrees of freedom exceeds 85 once in a thousand.
    assert float(((counts[:50] - 100) ** 2 / 100).sum()) < 85
    assert torch.equal(environment.state.last, environment.state.row + 10)


def test_episodes_depend_on_seed_environment_and_number_only() -> None:
    """The third environment starts at the same rows among 4 or 400, whatever the others do; seeds differ."""
    tape = still(300)
    few, many = (TradingEnvironment(tape, MARKET, count, seed=9) for count in (4, 400))
    for action in actions(0, 400, 35):
        few.step(action[:4])
        many.step(action)
        assert torch.equal(few.state.row, many.state.row[:4])
    other = TradingEnvironment(tape, MARKET, 400, seed=10)
    assert not torch.equal(many.reset(9)["market"], other.reset(10)["market"])
    assert float((many.state.row == other.state.row).float().mean()) < 0.05


def test_reset_with_a_seed_repeats_and_without_goes_on() -> None:
    """Same seed, same rows; no seed, new rows."""
    environment = TradingEnvironment(still(300), MARKET, 50)
    environment.reset(3)
    first = environment.state.row.clone()
    environment.reset()
    second = environment.state.row.clone()
    environment.reset(3)
    assert torch.equal(environment.state.row, first)
    assert not torch.equal(second, first)


def test_state_goes_on_bit_for_bit(tape: Tape) -> None:
    """Saved in mid-episode with orders in queues: the copy and the original part in nothing."""
    original = TradingEnvironment(tape, MARKET, 32, seed=1)
    plan = actions(2, 32, 60)
    for action in plan[:23]:
        original.step(action)
    assert int(original.state.order.remaining.sum()) > 0
    copy = TradingEnvironment(tape, MARKET, 32, seed=99)
    copy.load_state_dict(original.state_dict())
    for action in plan[23:]:
        a, b = original.step(action), copy.step(action)
        for name, value in a.observation.items():
            assert torch.equal(value, b.observation[name]), name
        assert torch.equal(a.reward, b.reward)
    for name, value in original.state_dict().items():
        assert torch.equal(value, copy.state_dict()[name]), name


def test_state_of_another_size_is_refused(tape: Tape) -> None:
    """32 accounts do not fit into 16."""
    state = TradingEnvironment(tape, MARKET, 32).state_dict()
    with pytest.raises(ConfigError, match=r"account\.position has shape \[32\], expected \[16\]"):
        TradingEnvironment(tape, MARKET, 16).load_state_dict(state)


class NoSync(TorchDispatchMode):
    """Refuses every operation that makes the host wait for the device or whose shape depends on values."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "masked_select", "item", "unique", "is_nonzero", "equal")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass everything else on."""
        assert func.__name__.split(".")[0] not in self.FORBIDDEN, func
        return func(*args, **(kwargs or {}))


def test_a_step_never_waits_for_the_device(tape: Tape) -> None:
    """No scalar is read back, no shape depends on values."""
    environment = TradingEnvironment(tape, MARKET, 8)
    with NoSync():
        for action in actions(3, 8, 15):
            environment.step(action)
    with pytest.raises(AssertionError), NoSync():
        environment.state.worth[0].item()


def test_a_step_is_one_graph(tape: Tape) -> None:
    """torch.compile takes the whole step without a break, and what it captured plays the same game."""
    eager, compiled = (TradingEnvironment(tape, MARKET, 8, seed=4) for _ in range(2))
    step = torch.compile(compiled.step, fullgraph=True, backend="aot_eager")
    for action in actions(4, 8, 15):
        a, b = eager.step(action), step(action)
        assert torch.equal(a.reward, b.reward)
        for name, value in a.observation.items():
            torch.testing.assert_close(value, b.observation[name], rtol=0, atol=0)


def test_observations_are_float32_of_the_stated_widths(tape: Tape) -> None:
    """Names, widths, types and bounds."""
    environment = TradingEnvironment(tape, MARKET, 8)
    observation = environment.reset(0)
    assert {name: part.shape[1] for name, part in observation.items()} == environment.widths
    assert set(observation) == {"market", "ofi", "ofi3", "portfolio", "regime"}
    for action in actions(6, 8, 40):
        for part in environment.step(action).observation.values():
            assert part.dtype == torch.float32
            assert float(part.abs().max()) <= 5


def test_portfolio_by_hand() -> None:
    """Bought 25 of a cap of 50 at 101, then a bid of 25 more behind 50 others: what the account shows."""
    books = [(float(s), [(99, 50)], [(101, 50)]) for s in range(6)]
    player = Player(tape_of(books), MarketConfig(initial_cash=5000, patience=(8, 3, 1)))
    player.step((LONG, 1, CROSS, NORMAL))
    result, _ = player.step((LONG, FULL, 0, NORMAL))
    unit = float(player.environment.reward_unit[0])
    assert unit == 1
    loss = -25.0
    unrealised = max(float(torch.tensor(loss / unit).asinh()), -5)
    expected = [0.5, unrealised, 1, 0.48, 1, 1 / 8, 0, 0]
    values = result.observation["portfolio"][0].tolist()
    assert player.remaining == 24  # 2475 of cash left: 24 lots at the mid of 100
    assert values == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"environments": None}, "environments must be at least 1"),
        ({"environments": 0}, "environments must be at least 1"),
        ({"environments": 99, "sweep": True}, "a sweep has one environment a segment"),
    ],
)
def test_impossible_sizes_are_refused(tape: Tape, arguments: dict[str, Any], message: str) -> None:
    """One line each."""
    with pytest.raises(ConfigError, match=message):
        TradingEnvironment(tape, MARKET, **arguments)


def test_too_little_cash_names_what_is_needed() -> None:
    """90 do not buy one lot at 100."""
    with pytest.raises(
        ConfigError, match=r"initial_cash 90 at leverage 1 cannot carry one order of ONE: .* 100\.00 USD"
    ):
        TradingEnvironment(still(5), MarketConfig(initial_cash=90), 2)
