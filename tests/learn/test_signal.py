"""The default preset earns most of what a planted signal offers, and nothing where there is no signal."""

from pathlib import Path

import pytest

from foxhunt.bench.signal import judge


@pytest.mark.learn_long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_most_of_the_oracles_profit_is_earned(seed: int, tmp_path: Path) -> None:
    row = judge(seed, signal=0.8, hours=48, preset="default", folder=tmp_path, workers=1)
    assert row["oracle"] > 10_000
    assert row["share_of_oracle"] >= 0.8
    assert row["agent_low"] > 0


@pytest.mark.learn_long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_without_signal_the_agent_cannot_be_told_from_flat(seed: int, tmp_path: Path) -> None:
    row = judge(seed, signal=0.0, hours=48, preset="default", folder=tmp_path, workers=1)
    assert row["agent_low"] <= 0 <= row["agent_high"]
