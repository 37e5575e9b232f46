"""Means over seeds: Student's t against scipy, and a hand-worked interval."""

from math import inf

import pytest
from scipy.stats import t

from foxhunt.evaluate.seeds import Mean, mean_over_seeds, student_cdf, student_quantile


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 24, 99])
def test_student_equals_scipy(degrees: int) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(t.ppf(0.975, degrees), rel=1e-12)
    assert student_quantile(0.1, degrees) == pytest.approx(t.ppf(0.1, degrees), rel=1e-12)
    assert student_cdf(-1.3, degrees) == pytest.approx(t.cdf(-1.3, degrees), rel=1e-12)


def test_interval_by_hand() -> None:
    # Mean 2, standard deviation 1, three values: 4.302653 / sqrt(3).
    found = mean_over_seeds([1.0, 2.0, 3.0])
    assert (found.mean, found.low, found.high) == pytest.approx((2.0, 2 - 2.484138, 2 + 2.484138), abs=1e-6)
    assert found.sign == 0
    assert mean_over_seeds([10.0, 11.0, 12.0]).sign == 1
    assert mean_over_seeds([-10.0, -11.0, -12.0]).sign == -1


def test_one_seed_proves_nothing() -> None:
    assert mean_over_seeds([5.0]) == Mean(5.0, -inf, inf)
    assert mean_over_seeds([5.0]).sign == 0
