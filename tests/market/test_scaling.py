"""Feature statistics and the unit of reward."""

from dataclasses import replace

import pytest
import torch

from foxhunt.config import MarketConfig, TapeConfig
from foxhunt.errors import ConfigError
from foxhunt.market.scaling import CLIP, FeatureScaler, one_step_gain, raw_features
from foxhunt.market.tape import Tape
from foxhunt.market.tape_build import build_tape

from .frames import ONE, book_frame, tape_of, trade_frame, wild_market

MARKET = MarketConfig(initial_cash=1000)
CONFIG = TapeConfig(levels=3, ofi_levels=2, volatility_windows=(3, 9), stale_after="60s")


def walk(*middle: int) -> Tape:
    """A decision a second on books around these mids, spreads 2."""
    return tape_of([(float(s), [(m - 1, 5)], [(m + 1, 5)]) for s, m in enumerate(middle)])


def test_unit_of_reward_by_hand() -> None:
    """1000 of cash: 10 lots at 100, 9 at 101 and 110, 10 at 99: gains of 10, 81 and -99; root mean square."""
    tape = walk(100, 101, 110, 99, 99)
    expected = ((10**2 + (9 * 9) ** 2 + (9 * 11) ** 2 + 0) / 4) ** 0.5
    assert float(one_step_gain(tape, MARKET)[0]) == pytest.approx(expected)


def test_unit_of_reward_leaves_gaps_out() -> None:
    """A jump of 50 between two segments is nobody's gain; a market that never moves has unit 1."""
    still = [(float(s), [(99, 5)], [(101, 5)]) for s in range(3)]
    jumped = [(100.0 + s, [(149, 5)], [(151, 5)]) for s in range(3)]
    assert float(one_step_gain(tape_of([*still, *jumped]), MARKET)[0]) == 1


def test_robust_statistics_of_training_rows_only() -> None:
    """Median and interquartile range over 1.349 of the rows in segments, against torch's own quantiles."""
    tape = tape_of(*wild_market(11, events=600), config=CONFIG)
    train = tape.select("0%/60%")
    scaler = FeatureScaler.fit(train, MARKET)
    values = raw_features(tape)[train.inside()]
    column = tape.market_names.index("volume_5")
    low, middle, high = values[:, column].quantile(torch.tensor([0.25, 0.5, 0.75]))
    assert float(high) > float(low)
    assert float(scaler.center[0, column]) == float(middle)
    assert float(scaler.scale[0, column]) == pytest.approx(float(high - low) / 1.3489795, rel=1e-5)
    scaled = scaler.transform(tape)
    assert scaled.shape == raw_features(tape).shape
    expected = ((raw_features(tape)[:, column] - middle) / scaler.scale[0, column]).clamp(-CLIP, CLIP)
    assert torch.equal(scaled[:, column], expected)


def test_features_without_spread_are_scaled_by_deviation_or_left() -> None:
    """Three quarters equal: standard deviation. All equal: centred, scale 1. Bounded: untouched."""
    tape = tape_of([(float(s), [(99, 5)], [(101 + (s == 7), 5)]) for s in range(16)])
    scaler = FeatureScaler.fit(tape, MARKET)
    names = tape.market_names
    spread = tape.market[:, names.index("spread")]
    assert float(scaler.scale[0, names.index("spread")]) == pytest.approx(float(spread.std(correction=0)))
    assert float(scaler.scale[0, names.index("bid_depth")]) == 1
    assert float(scaler.center[0, names.index("bid_depth")]) == pytest.approx(float(torch.tensor(6.0).log()))
    assert float(scaler.center[0, names.index("elapsed")]) == 0


def pair_of_instruments(names: tuple[str, ...]) -> Tape:
    """Instruments whose sizes differ thousandfold."""
    parts = []
    for scale, symbol in enumerate(names):
        books, trades = wild_market(scale, events=200)
        larger = [(s, *([(t, n * 1000**scale) for t, n in side] for side in sides)) for s, *sides in books]
        parts.append((book_frame(larger, symbol), trade_frame(trades, symbol), replace(ONE, symbol=symbol)))  # type: ignore[arg-type]
    return build_tape(parts, CONFIG)


def test_every_instrument_has_its_own_statistics_and_strangers_the_pooled_ones() -> None:
    """A tape with the instruments in another order, and one that the scaler never saw."""
    tape = pair_of_instruments(("A", "B"))
    scaler = FeatureScaler.fit(tape, MARKET)
    depth = tape.market_names.index("depth")
    assert float(scaler.center[1, depth] - scaler.center[0, depth]) > 5
    other = pair_of_instruments(("B", "C"))
    assert scaler.index(other).tolist() == [1, 2]
    assert scaler.reward_units(other).tolist() == [float(scaler.reward_unit[1]), float(scaler.reward_unit[2])]
    assert float(scaler.reward_unit[2]) == pytest.approx(float(scaler.reward_unit[:2].mean()))


def test_state_round_trip_is_exact() -> None:
    """state_dict and back give the same features, bit for bit."""
    tape = pair_of_instruments(("A", "B"))
    scaler = FeatureScaler.fit(tape, MARKET)
    again = FeatureScaler.from_state_dict(scaler.state_dict())
    assert torch.equal(again.transform(tape), scaler.transform(tape))
    assert again.symbols == scaler.symbols


def test_another_set_of_features_is_refused() -> None:
    """A scaler of two OFI levels meets a tape of one."""
    books, trades = wild_market(0)
    scaler = FeatureScaler.fit(tape_of(books, trades, config=CONFIG), MARKET)
    with pytest.raises(ConfigError, match="build both with the same tape settings"):
        scaler.transform(tape_of(books, trades, config=replace(CONFIG, ofi_levels=1)))
