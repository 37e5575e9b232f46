"""What the agent sees of the market: causal features of each row, and their scaling.

Everything here is computed from data stamped strictly before the row's decision time.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.config import TapeConfig
from foxhunt.market.tape import ASK, BID, SIZE, TICK


@dataclass(frozen=True)
class FeatureInputs:
    """Books at the rows of one instrument, and sums over all earlier data from which windows are differences.

    `*_opening` is the sum at the first book of the row's segment: no window reaches back beyond it.
    """

    book: Int[Tensor, "rows 2 2 levels"]
    first_row: Int[Tensor, " rows"]
    """First row of the segment."""
    imbalance: Int[Tensor, "rows levels"]
    imbalance_opening: Int[Tensor, "rows levels"]
    bought: Int[Tensor, " rows"]
    bought_opening: Int[Tensor, " rows"]
    sold: Int[Tensor, " rows"]
    sold_opening: Int[Tensor, " rows"]
    elapsed: Float[Tensor, " rows"]
    """Share of the trading session (of the day, where trading never stops) that has passed."""


class Features(NamedTuple):
    """Unscaled float32 features; see `Tape`."""

    market: Float[Tensor, "rows features"]
    ofi: Float[Tensor, "rows levels*horizons"]
    ofi3: Float[Tensor, "rows 3"]


def market_names(config: TapeConfig) -> tuple[str, ...]:
    """Column names of the market features, in order."""
    short, long = config.volatility_windows
    return (
        *(f"return_{h}" for h in config.ofi_horizons),
        "spread",
        "microprice",
        *(f"imbalance_{level}" for level in _imbalance_levels(config)),
        "bid_depth",
        "ask_depth",
        "depth",
        f"volatility_{short}",
        f"volatility_{long}",
        "regime_stability",
        *(f"flow_{h}" for h in config.ofi_horizons),
        *(f"volume_{h}" for h in config.ofi_horizons),
        "elapsed",
    )


def bounded(name: str) -> bool:
    """Whether a market feature lies in [-1, 1] by construction and is therefore not scaled."""
    return name.startswith(("imbalance", "regime", "flow", "elapsed"))


def order_flow_imbalance(
    tick: Int[Tensor, "books 2 levels"], size: Int[Tensor, "books 2 levels"]
) -> Int[Tensor, "books levels"]:
    """Order-flow contribution of each book over the one before, level by level, in lots; the first book has none.

    Cont, Kukanov and Stoikov 2014, equation (1), at every level as in Xu, Gould and Howison 2018. An empty bid level
    stands at minus infinity and an empty ask level at plus infinity with size 0, so flow that vanishes or returns
    counts.
    """

    def side_flow(price: Tensor, quantity: Tensor) -> Tensor:
        """Flow that strengthens a side whose higher price is the better one."""
        shown = quantity > 0
        up = shown[1:] & (~shown[:-1] | (price[1:] >= price[:-1]))
        down = shown[:-1] & (~shown[1:] | (price[1:] <= price[:-1]))
        return torch.where(up, quantity[1:], 0) - torch.where(down, quantity[:-1], 0)

    flow = side_flow(tick[:, BID], size[:, BID]) - side_flow(-tick[:, ASK], size[:, ASK])
    return torch.cat([torch.zeros_like(size[:1, BID]), flow])


def compute_features(inputs: FeatureInputs, config: TapeConfig) -> Features:
    """Features of every row; windows are in rows and end where the segment begins.

    Returns are log returns of the mid in basis points, `volatility_*` the root mean square of one-step returns (no
    mean subtracted), `spread` and `microprice` (size-weighted mid minus mid) are in ticks, depths are log(1 + lots)
    (`depth` over all levels), `volume_*` is log(1 + traded lots), `flow_*` is (bought - sold) / (bought + sold).
    `regime_stability` is exp(-|log(short / long volatility)|). Order-flow imbalance is divided by the mean size
    displayed at the touch over the long window.
    """
    tick, size = inputs.book[:, :, TICK].double(), inputs.book[:, :, SIZE].double()
    mid = tick[:, :, 0].sum(1) / 2
    depth = size.sum(2)
    returns = [_log_return(mid, _back(inputs, h)) for h in config.ofi_horizons]
    short, long = (_volatility(mid, inputs, window) for window in config.volatility_windows)
    flows, volumes = zip(*(_trade_flow(inputs, h) for h in config.ofi_horizons), strict=True)
    columns = [
        *returns,
        tick[:, ASK, 0] - tick[:, BID, 0],
        (tick[:, BID, 0] * size[:, ASK, 0] + tick[:, ASK, 0] * size[:, BID, 0]) / size[:, :, 0].sum(1) - mid,
        *(_ratio(size[:, BID, :n].sum(1), size[:, ASK, :n].sum(1)) for n in _imbalance_levels(config)),
        size[:, BID, 0].log1p(),
        size[:, ASK, 0].log1p(),
        depth.sum(1).log1p(),
        short,
        long,
        torch.where((short > 0) & (long > 0), torch.minimum(short, long) / torch.maximum(short, long), short == long),
        *flows,
        *volumes,
        inputs.elapsed,
    ]
    touch = size[:, :, 0].mean(1)
    displayed = _window_mean(touch, inputs, config.volatility_windows[1])
    ofi = torch.stack([_difference(inputs, "imbalance", h) for h in config.ofi_horizons], 2) / displayed[:, None, None]
    return Features(
        market=torch.stack(columns, 1).float(),
        ofi=ofi[:, : config.ofi_levels].flatten(1).float(),
        ofi3=ofi[:, 0].float(),
    )


def _imbalance_levels(config: TapeConfig) -> list[int]:
    return [level for level in (1, 3, 5, 10) if level <= config.levels]


def _back(inputs: FeatureInputs, horizon: int) -> Tensor:
    """Row `horizon` steps before each row, or the segment's first."""
    return torch.maximum(torch.arange(len(inputs.first_row)) - horizon, inputs.first_row)


def _log_return(mid: Tensor, back: Tensor) -> Tensor:
    return 1e4 * (mid / mid[back]).log()


def _volatility(mid: Tensor, inputs: FeatureInputs, window: int) -> Tensor:
    """Root mean square of one-step returns in basis points over up to `window` steps; 0 on a segment's first row."""
    squares = _log_return(mid, _back(inputs, 1)).square()
    sums, back = squares.cumsum(0), _back(inputs, window)
    steps = torch.arange(len(mid)) - back
    # Prefix sums of squares never fall, but a difference of two can round to a tiny negative number.
    return ((sums - sums[back]) / steps.clamp(min=1)).clamp(min=0).sqrt()


def _window_mean(values: Tensor, inputs: FeatureInputs, window: int) -> Tensor:
    """Mean over the last `window` rows of the segment, this row included."""
    sums = values.cumsum(0)
    back = _back(inputs, window - 1)
    return (sums - sums[back] + values[back]) / (torch.arange(len(values)) - back + 1)


def _difference(inputs: FeatureInputs, name: str, horizon: int) -> Tensor:
    """What a running sum gained over the last `horizon` steps, at most since the segment opened."""
    sums: Tensor = getattr(inputs, name)
    opening: Tensor = getattr(inputs, f"{name}_opening")
    rows = torch.arange(len(sums))
    before = torch.where(
        (rows - horizon >= inputs.first_row).reshape(-1, *[1] * (sums.ndim - 1)), sums[_back(inputs, horizon)], opening
    )
    return (sums - before).double()


def _trade_flow(inputs: FeatureInputs, horizon: int) -> tuple[Tensor, Tensor]:
    """Signed share and log volume of trades over the last `horizon` steps."""
    bought, sold = _difference(inputs, "bought", horizon), _difference(inputs, "sold", horizon)
    return _ratio(bought, sold), (bought + sold).log1p()


def _ratio(more: Tensor, less: Tensor) -> Tensor:
    """(more - less) / (more + less), 0 where both are 0."""
    total = more + less
    return torch.where(total > 0, (more - less) / total.clamp(min=1), 0.0)
