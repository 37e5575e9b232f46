"""Nothing at or before a moment depends on data stamped at that moment or later."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.scaling import FeatureScaler, raw_features
from foxhunt.market.tape import Tape

from ..market.frames import ONE, SECOND, BookRow, TradeRow, tape_of, wild_market
from .test_accounting import actions

MARKET = MarketConfig(initial_cash=3000, episode_steps=40)


def tampered(
    books: list[BookRow], trades: list[TradeRow], stamp: int, seed: int
) -> tuple[list[BookRow], list[TradeRow]]:
    """The same past, and another market from the stamp on: other prices, sizes and times."""
    other_books, other_trades = wild_market(seed + 777)
    shift = stamp / SECOND
    return (
        [b for b in books if round(b[0] * SECOND) < stamp] + [(s + shift, *rest) for s, *rest in other_books],
        [t for t in trades if round(t[0] * SECOND) < stamp] + [(s + shift, *rest) for s, *rest in other_trades],
    )  # type: ignore[return-value]


def pair(seed: int, config: TapeConfig) -> tuple[Tape, Tape, int]:
    """A tape, its twin with another future, and the last row before which they must agree."""
    books, trades = wild_market(seed)
    tape = tape_of(books, trades, ONE, config)
    row = int(np.random.default_rng(seed).integers(2, tape.rows - 1))
    return tape, tape_of(*tampered(books, trades, int(tape.time[row]), seed), ONE, config), row


CONFIGS = st.sampled_from(
    [
        TapeConfig(
            levels=3,
            ofi_levels=3,
            every=every,
            latency=latency,
            data_latency=age,
            execution=execution,
            volatility_windows=(3, 9),
        )
        for every, latency, age, execution in (
            ("1s", "0ms", "0ms", "next"),
            ("500ms", "250ms", "0ms", "next"),
            ("2ev", "0ms", "0ms", "next"),
            ("1s", "100ms", "300ms", "known"),
        )
    ]
)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000), config=CONFIGS)
def test_features_know_only_the_past(seed: int, config: TapeConfig) -> None:
    """Features, books and stamps of every row up to t are the same, bit for bit, whatever happens from t on."""
    tape, twin, row = pair(seed, config)
    assert torch.equal(tape.time[: row + 1], twin.time[: row + 1])
    assert torch.equal(raw_features(tape)[: row + 1], raw_features(twin)[: row + 1])
    assert torch.equal(tape.decision[: row + 1], twin.decision[: row + 1])
    later = slice(row + 1, min(tape.rows, twin.rows))
    assert not torch.equal(tape.decision[later], twin.decision[later])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000), config=CONFIGS)
def test_scaler_knows_only_training_rows(seed: int, config: TapeConfig) -> None:
    """Fitted on rows up to t, statistics and the unit of reward do not change with what comes after."""
    tape, twin, row = pair(seed, config)
    fitted = []
    for source in (tape, twin):
        segments = source.segments.clamp(max=row + 1)
        segments = segments[segments[:, 1] - segments[:, 0] >= 2]
        if not len(segments):
            return
        train = Tape(**{**vars(source), "segments": segments})
        fitted.append(FeatureScaler.fit(train, MARKET))
    for name in ("center", "scale", "reward_unit"):
        assert torch.equal(getattr(fitted[0], name), getattr(fitted[1], name))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000), config=CONFIGS)
def test_observations_fills_and_rewards_know_only_the_past(seed: int, config: TapeConfig) -> None:
    """Played with the same actions, everything served at rows up to t is the same."""
    tape, twin, row = pair(seed, config)
    first, stop = next(s for s in tape.segments.tolist() if s[1] > row or s[1] == tape.rows)
    scaler = FeatureScaler.fit(tape, MARKET)
    players = []
    for source in (tape, twin):
        segment = Tape(**{**vars(source), "segments": torch.tensor([[first, min(stop, source.rows)]])})
        players.append(TradingEnvironment(segment, MARKET, scaler=scaler, sweep=True))
    observations = [player.reset() for player in players]
    for action in actions(seed, 1, max(row - first, 0)):
        for name, value in observations[0].items():
            assert torch.equal(value, observations[1][name]), name
        results = [player.step(action) for player in players]
        assert torch.equal(results[0].reward, results[1].reward)
        events = [player.events for player in players]
        assert events[0] is not None
        assert events[1] is not None
        # The row that ends at t has filled on books before t only; its flags may differ, as the twin's data may go on.
        for name in ("taker_lots", "maker_lots", "early_lots", "cash", "position"):
            assert torch.equal(getattr(events[0], name), getattr(events[1], name)), name
        observations = [result.observation for result in results]
    for name, value in observations[0].items():
        assert torch.equal(value, observations[1][name]), name
