"""Walking forward: every split judges time after its own training, and together they judge everything once."""

from itertools import pairwise

import pytest

from foxhunt.config import SplitConfig, TapeConfig
from foxhunt.data.simulator import Simulation
from foxhunt.errors import ConfigError
from foxhunt.evaluate.splits import walk_forward
from foxhunt.market.split import split_tape
from foxhunt.market.tape_build import build_tape


def test_ranges_by_hand() -> None:
    assert walk_forward(2, train=0.5, validate=0.25, embargo="5s") == [
        SplitConfig("0.000000%/50.000000%", "50.000000%/75.000000%", "75.000000%/87.500000%", "5s"),
        SplitConfig("12.500000%/62.500000%", "62.500000%/87.500000%", "87.500000%/100.000000%", "5s"),
    ]
    assert walk_forward(2, train=0.5, validate=0.25, expanding=True)[1].train == "0.000000%/62.500000%"


@pytest.mark.parametrize("expanding", [False, True])
def test_tests_cover_the_rest_once_and_follow_their_training(simulation: Simulation, expanding: bool) -> None:
    tape = build_tape([(simulation.book, simulation.trades, simulation.instrument)], TapeConfig())
    parts = [split_tape(tape, split) for split in walk_forward(7, train=0.3, validate=0.1, expanding=expanding)]
    tested = [part["test"].inside().nonzero()[:, 0] for part in parts]
    assert tested[-1][-1] == tape.inside().nonzero()[-1, 0]
    for before, after in pairwise(tested):
        assert after[0] == before[-1] + 1
    for part in parts:
        ranges = [part[name].inside().nonzero()[:, 0] for name in ("train", "validate", "test")]
        assert all(first[-1] + 1 == second[0] for first, second in pairwise(ranges))


def test_shares_that_leave_no_test_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"train 0\.8 and validate 0\.2 leave nothing to test on"):
        walk_forward(3, train=0.8, validate=0.2)
    with pytest.raises(ConfigError, match="folds must be at least 1"):
        walk_forward(0)
