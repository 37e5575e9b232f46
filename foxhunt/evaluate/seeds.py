"""Means over seeds, and how sure they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan, cos, inf, pi, sin, sqrt, tan
from statistics import fmean, stdev


@dataclass(frozen=True)
class Mean:
    """Mean over seeds with a 95 % interval by Student's t; the interval is infinite where there is one seed."""

    mean: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 when the whole interval is above zero, -1 when it is below, 0 when zero lies in it."""
        return int(self.low > 0) - int(self.high < 0)


def mean_over_seeds(values: Sequence[float]) -> Mean:
    """Mean and interval of independent values, at least one."""
    mean = fmean(values)
    if len(values) == 1:
        return Mean(mean, -inf, inf)
    reach = student_quantile(0.975, len(values) - 1) * stdev(values) / sqrt(len(values))
    return Mean(mean, mean - reach, mean + reach)


def student_quantile(chance: float, degrees: int) -> float:
    """The value that Student's t with whole `degrees` of freedom stays under with `chance`, by bisection on angle."""
    low, high = -pi / 2, pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, degrees) < chance else (low, middle)
    return sqrt(degrees) * tan((low + high) / 2)


def student_cdf(t: float, degrees: int) -> float:
    """Chance that Student's t stays under `t`."""
    return _student_cdf(atan(t / sqrt(degrees)), degrees)


def _student_cdf(angle: float, degrees: int) -> float:
    """The same for t = sqrt(degrees) tan(angle), as the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    odd = degrees % 2
    term, total = (cos(angle), 0.0) if odd else (1.0, 0.0)
    for k in range(odd, degrees - 1, 2):
        total += term
        term *= cos(angle) ** 2 * (k + 1) / (k + 2)
    if odd:
        return 0.5 + (angle + sin(angle) * total) / pi
    return 0.5 + sin(angle) * total / 2
