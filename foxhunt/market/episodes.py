"""Where episodes start: drawn without a generator, from a hash of seed, environment and episode number.

So a draw depends on nothing but those three: environments do not disturb one another, the state is one counter, and
drawing works inside a captured graph.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.errors import ConfigError
from foxhunt.market.account import position_cap
from foxhunt.market.fees import instrument_terms
from foxhunt.market.tape import Tape


class Starts(NamedTuple):
    """Rows at which episodes may start."""

    row: Int[Tensor, " starts"]
    last: Int[Tensor, " starts"]
    """Row at which the episode is cut."""
    cap: Int[Tensor, " starts"]
    """Largest position, in lots."""


def training_starts(tape: Tape, market: MarketConfig) -> Starts:
    """Every row from which a whole episode fits into its segment; of a segment shorter than that the first row."""
    rows, lasts = [], []
    for first, stop in tape.segments.tolist():
        row = torch.arange(first, max(stop - market.episode_steps, first + 1))
        rows.append(row)
        lasts.append((row + market.episode_steps).clamp(max=stop - 1))
    return _starts(tape, market, torch.cat(rows).to(tape.device), torch.cat(lasts).to(tape.device))


def sweep_starts(tape: Tape, market: MarketConfig) -> Starts:
    """The first row of every segment, to be played to the segment's end."""
    return _starts(tape, market, tape.segments[:, 0].clone(), tape.segments[:, 1] - 1)


def _starts(tape: Tape, market: MarketConfig, row: Tensor, last: Tensor) -> Starts:
    """Raises `ConfigError` where the account cannot carry one order of an instrument."""
    terms = instrument_terms(tape.instruments, market, tape.device).take(tape.instrument[row])
    half_ticks = tape.touch[row].sum(1)
    cap = position_cap(half_ticks, terms, market)
    if bool((cap < 1).any()):
        cost = half_ticks.abs() * (terms.tick_value / 2) * terms.order_lots / market.leverage
        dearest = int(cost.masked_fill(cap > 0, 0).argmax())
        instrument = tape.instruments[int(tape.instrument[row[dearest]])]
        raise ConfigError(
            f"market.initial_cash {market.initial_cash:g} at leverage {market.leverage:g} cannot carry one order of "
            f"{instrument.symbol}: that needs {float(cost[dearest]):.2f} {instrument.currency}"
        )
    return Starts(row, last, cap)


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
