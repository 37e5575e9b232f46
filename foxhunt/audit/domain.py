"""Abstract values: what is known about every entry of a tensor without running the program on all inputs."""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

_roots = itertools.count()


@dataclass(frozen=True, slots=True)
class Affine:
    """Entry by entry, value = scale * root + shift; `root` numbers a tensor of the program."""

    root: int
    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch [start, stop) along `dim` of a concatenation."""

    dim: int
    start: int
    stop: int
    value: "Value"


@dataclass(frozen=True, slots=True)
class Value:
    """An interval with the relations that the hazard rules ask for.

    `affine` ties the entries to an earlier tensor, `extreme` says that this is the minimum or maximum of one,
    `filled` that exact zeros were written over entries (padding, a mask), `monotone` that entries never fall along
    the last axis, `masks` names the sign tests this boolean came from, `parts` keeps the pieces of a concatenation.
    """

    low: float = -math.inf
    high: float = math.inf
    affine: Affine | None = None
    extreme: tuple[str, int] | None = None
    filled: bool = False
    monotone: bool = False
    masks: frozenset[str] = frozenset()
    parts: tuple[Part, ...] = ()

    @property
    def constant(self) -> float | None:
        """The one value that every entry has, if there is one."""
        return self.low if self.low == self.high else None

    def plain(self) -> "Value":
        """The interval and the masks alone: what survives when entries move."""
        if self.affine is None and self.extreme is None and not self.parts:
            return self
        return Value(self.low, self.high, filled=self.filled, masks=self.masks)

    def rooted(self) -> "Value":
        """This value with a relation to itself, so that later `x * x` and `x - x.amin()` are recognised."""
        return self if self.affine is not None else replace(self, affine=Affine(next(_roots)))


TOP: Final = Value()
UNIT: Final = Value(0.0, 1.0)
NONNEGATIVE: Final = Value(0.0)


def constant(number: float) -> Value:
    """The value whose entries all equal `number`."""
    return TOP if math.isnan(number) else Value(number, number)


def join(values: Iterable[Value]) -> Value:
    """The smallest value that covers all of them."""
    items = list(values)
    if not items:
        return TOP
    zero = any(item.constant == 0 for item in items)
    return Value(
        min(item.low for item in items),
        max(item.high for item in items),
        filled=any(item.filled for item in items) or (zero and any(item.constant != 0 for item in items)),
        masks=frozenset().union(*(item.masks for item in items)),
    )


def _proportional(left: Affine, right: Affine) -> bool:
    """Whether one is a multiple of the other, entry by entry."""
    return left.root == right.root and (left == right or left.shift == right.shift == 0)


def _times(left: float, right: float) -> float:
    return 0.0 if left == 0 or right == 0 else left * right


def add(left: Value, right: Value, scale: float = 1.0) -> Value:
    """left + scale * right; an affine relation survives a constant, `x - x.amin()` is never negative."""
    if (
        scale == -1
        and left.affine
        and right.extreme
        and (left.affine.root, 1.0, 0.0) == (right.extreme[1], left.affine.scale, left.affine.shift)
    ):
        return Value(0.0, math.inf) if right.extreme[0] == "min" else Value(-math.inf, 0.0)
    right = multiply(right, constant(scale)) if scale != 1 else right
    affine = None
    for one, other in ((left, right), (right, left)):
        if one.affine and other.constant is not None:
            affine = replace(one.affine, shift=one.affine.shift + other.constant)
    low, high = left.low + right.low, left.high + right.high
    return Value(-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high, affine)


def multiply(left: Value, right: Value) -> Value:
    """left * right; the square of a tensor is never negative, multiplying by a 0/1 mask writes zeros."""
    if left.affine and right.affine and _proportional(left.affine, right.affine):
        return Value(0.0) if left.affine.scale * right.affine.scale > 0 else Value(high=0.0)
    corners = [_times(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    affine = None
    for one, other in ((left, right), (right, left)):
        if one.affine and other.constant is not None:
            affine = Affine(one.affine.root, one.affine.scale * other.constant, one.affine.shift * other.constant)
    masked = any(one.masks or (one.low == 0 and one.high == 1 and one.filled) for one in (left, right))
    return Value(min(corners), max(corners), affine, filled=masked or left.filled or right.filled)


def divide(left: Value, right: Value) -> Value:
    """left / right; unbounded where the divisor may be zero inside its interval."""
    if right.low < 0 < right.high:
        return TOP
    if right.low >= 0:
        inverse = Value(
            0.0 if right.high == math.inf else 1 / right.high if right.high else math.inf, _inverse(right.low)
        )
    else:
        inverse = Value(-_inverse(-right.high), 0.0 if right.low == -math.inf else 1 / right.low)
    if right.constant:
        inverse = constant(1 / right.constant)
    return replace(multiply(left, inverse), filled=left.filled)


def _inverse(number: float) -> float:
    return math.inf if number < 1e-300 else 1 / number


def monotone(function: Callable[[float], float], value: Value) -> Value:
    """The image under a never-falling function; limits at the edges of its domain are its business."""
    return Value(function(value.low), function(value.high), filled=value.filled)


def total(value: Value) -> Value:
    """The sum of one or more entries."""
    return Value(
        value.low if value.low >= 0 else -math.inf,
        value.high if value.high <= 0 else math.inf,
    )


def product(left: Value, right: Value, *added: Value) -> Value:
    """A matrix product or convolution: signs are known only when every factor's is."""
    result = total(multiply(left.plain(), right.plain()))
    for term in added:
        result = add(result, term.plain())
    return Value(result.low if result.low >= 0 else -math.inf, result.high if result.high <= 0 else math.inf)
