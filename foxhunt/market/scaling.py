"""Feature statistics and the unit of reward, fitted on training rows only."""

from dataclasses import dataclass
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.errors import ConfigError
from foxhunt.market.account import position_cap
from foxhunt.market.features import bounded
from foxhunt.market.fees import instrument_terms
from foxhunt.market.tape import Tape

CLIP: Final = 5.0
"""Scaled features are clipped to plus or minus this."""

_NORMAL_IQR: Final = 1.3489795003921634
"""Interquartile range of the standard normal distribution."""


@dataclass(frozen=True)
class FeatureScaler:
    """Centre and scale of every feature, and the unit of reward, for each instrument of the training tape.

    An instrument that the training tape lacks takes the last row of each table: statistics pooled over all of them.
    """

    symbols: tuple[str, ...]
    center: Float[Tensor, "instruments+1 width"]
    scale: Float[Tensor, "instruments+1 width"]
    reward_unit: Float[Tensor, " instruments+1"]
    """Money: standard deviation of the one-step gain of holding the full cap."""

    @classmethod
    def fit(cls, tape: Tape, market: MarketConfig) -> "FeatureScaler":
        """Fit on the rows inside the tape's segments: pass the training split.

        Robust statistics, median and interquartile range; where the middle half of a feature is constant its standard
        deviation serves, and a feature that never changes is only centred. Features bounded by construction stay as
        they are. Raises `ConfigError` on a tape without segments.
        """
        inside = tape.inside()
        if not bool(inside.any()):
            raise ConfigError("cannot fit a scaler on a tape without segments")
        values = raw_features(tape)
        fixed = torch.tensor([bounded(n) for n in tape.market_names], device=values.device)
        units = one_step_gain(tape, market)
        center, scale, reward_unit = [], [], []
        for index in (*range(len(tape.instruments)), None):
            chosen = inside if index is None else inside & (tape.instrument == index)
            middle, spread = _robust(values[chosen if bool(chosen.any()) else inside])
            middle[: len(fixed)][fixed] = 0.0
            spread[: len(fixed)][fixed] = 1.0
            center.append(middle)
            scale.append(spread)
            reward_unit.append(units.mean() if index is None else units[index])
        symbols = tuple(instrument.symbol for instrument in tape.instruments)
        return cls(symbols, torch.stack(center), torch.stack(scale), torch.stack(reward_unit))

    def index(self, tape: Tape) -> Int[Tensor, " instruments"]:
        """Row of the tables for each instrument of a tape."""
        known = {symbol: row for row, symbol in enumerate(self.symbols)}
        rows = [known.get(instrument.symbol, len(self.symbols)) for instrument in tape.instruments]
        return torch.tensor(rows, device=tape.device)

    def transform(self, tape: Tape) -> Float[Tensor, "rows width"]:
        """Scaled and clipped features of every row: market, ofi, ofi3 side by side.

        Raises `ConfigError` when the tape's features are not those of the training tape.
        """
        values = raw_features(tape)
        if values.shape[1] != self.center.shape[1]:
            raise ConfigError(
                f"the tape has {values.shape[1]} features, the scaler was fitted on {self.center.shape[1]}; "
                "build both with the same tape settings"
            )
        rows = self.index(tape)[tape.instrument]
        center, scale = self.center.to(tape.device), self.scale.to(tape.device)
        return ((values - center[rows]) / scale[rows]).clamp_(-CLIP, CLIP)

    def reward_units(self, tape: Tape) -> Float[Tensor, " instruments"]:
        """Unit of reward, in money, for each instrument of a tape."""
        return self.reward_unit.to(tape.device)[self.index(tape)]

    def state_dict(self) -> dict[str, Any]:
        """Tensors and JSON-ready values."""
        return {
            "symbols": list(self.symbols),
            "center": self.center,
            "scale": self.scale,
            "reward_unit": self.reward_unit,
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "FeatureScaler":
        """Rebuild from `state_dict`."""
        return cls(tuple(state["symbols"]), state["center"], state["scale"], state["reward_unit"])


def raw_features(tape: Tape) -> Float[Tensor, "rows width"]:
    """Unscaled features side by side: market, ofi, ofi3."""
    return torch.cat([tape.market, tape.ofi, tape.ofi3], 1)


def regime(tape: Tape) -> Float[Tensor, "rows 2"]:
    """What each row tells of its regime: short over long volatility, at most `CLIP`, and stability in [0, 1]."""
    at = {name: column for column, name in enumerate(tape.market_names)}
    short, long = (tape.market[:, column] for name, column in at.items() if name.startswith("volatility_"))
    ratio = torch.where(long > 0, short / long.clamp(min=1e-12), 1.0).clamp(max=CLIP)
    return torch.stack([ratio, tape.market[:, at["regime_stability"]]], 1)


def one_step_gain(tape: Tape, market: MarketConfig) -> Float[Tensor, " instruments"]:
    """Standard deviation (about zero) of the money that the full cap gains in one step, for each instrument.

    Over steps inside the tape's segments; an instrument without any takes the mean of the others, and a market that
    never moves has unit 1.
    """
    terms = instrument_terms(tape.instruments, market, tape.device).take(tape.instrument)
    mids = tape.half_ticks
    inside = tape.inside()
    last = torch.zeros_like(inside).index_fill_(0, tape.segments[:, 1] - 1, True)
    step = (inside & ~last)[:-1]
    money = position_cap(mids, terms, market)[:-1] * terms.tick_value[:-1] * mids.diff() / 2
    count = torch.zeros(len(tape.instruments), dtype=torch.float64, device=tape.device)
    squares = count.clone()
    owner = tape.instrument[:-1][step]
    count.index_add_(0, owner, torch.ones_like(money[step]))
    squares.index_add_(0, owner, money[step].square())
    gain = (squares / count.clamp(min=1)).sqrt()
    known = gain > 0
    typical = gain[known].mean() if bool(known.any()) else torch.ones((), dtype=torch.float64, device=tape.device)
    return torch.where(known, gain, typical)


def _robust(values: Tensor) -> tuple[Tensor, Tensor]:
    """Median, and interquartile range as a standard deviation, of every column; see `FeatureScaler.fit`."""
    shares = torch.tensor([0.25, 0.5, 0.75], device=values.device)
    low, middle, high = torch.stack([column.quantile(shares) for column in values.unbind(1)], 1)
    deviation = values.std(0, correction=0)
    spread = torch.where(high > low, (high - low) / _NORMAL_IQR, deviation)
    return middle, torch.where(spread > 0, spread, 1.0)
