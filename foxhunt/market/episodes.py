"""Where episodes start: drawn without a generator, from a hash of seed, environment and episode number.

So a draw depends on nothing but those three: environments do not disturb one another, the state is one counter, and
drawing works inside a captured graph.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from foxhunt.market.tape import Tape


class Starts(NamedTuple):
    """Rows at which episodes may start, and the last row that each may reach."""

    row: Int[Tensor, " starts"]
    last: Int[Tensor, " starts"]


def training_starts(tape: Tape, steps: int) -> Starts:
    """Every row from which a whole episode of `steps` fits into its segment; of a shorter segment the first row."""
    rows, lasts = [], []
    for first, stop in tape.segments.tolist():
        row = torch.arange(first, max(stop - steps, first + 1))
        rows.append(row)
        lasts.append((row + steps).clamp(max=stop - 1))
    return Starts(torch.cat(rows).to(tape.device), torch.cat(lasts).to(tape.device))


def sweep_starts(tape: Tape) -> Starts:
    """The first row of every segment, to be played to the segment's end."""
    return Starts(tape.segments[:, 0].clone(), tape.segments[:, 1] - 1)


def draw(seed: Int[Tensor, ""], environment: Int[Tensor, " n"], episode: Int[Tensor, " n"], count: int) -> Tensor:
    """Index in [0, count) for an episode of an environment: SplitMix64 (Steele, Lea and Flood 2014) of the three."""
    return (_mix(_mix(_mix(seed) + environment) + episode) >> 1).bitwise_and(_LOW_63) % count


_LOW_63 = (1 << 63) - 1
_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed integer
_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9
_SECOND = -7723592293110705685  # 0x94D049BB133111EB


def _mix(value: Tensor) -> Tensor:
    """One SplitMix64 output; int64 arithmetic wraps around as the algorithm's unsigned arithmetic does."""
    value = value + _GOLDEN
    value = (value ^ _shift(value, 30)) * _FIRST
    value = (value ^ _shift(value, 27)) * _SECOND
    return value ^ _shift(value, 31)


def _shift(value: Tensor, bits: int) -> Tensor:
    """Right shift that fills with zeros; torch's own repeats the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
