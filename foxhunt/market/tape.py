"""The tape: market data cut into decisions, as device tensors that thousands of environments replay at once.

A row is one decision. It stands at `time` t and knows only data stamped strictly before t. An order decided there
reaches the market at t + latency and acts on the *execution book*, the first tradable book after that, which always
comes before the next row. `docs/market.md` draws the time line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import TapeConfig
from foxhunt.data.schema import Instrument
from foxhunt.errors import DataError

if TYPE_CHECKING:
    from foxhunt.data.store import Dataset

BID: Final = 0
ASK: Final = 1
TICK: Final = 0
SIZE: Final = 1

KEPT: Final = 0
"""Window of an order that already rests: from the arrival of this row's order to the next row."""
FRESH: Final = 1
"""Window of an order that joins on this row's execution book: from just after that book to the next row."""
EARLY: Final = 2
"""Window of an order whose cancel is on its way: from this row to the arrival. Left out where it is always empty."""

EXTREME_TICK: Final = 0
"""Best opposite price shown in the window."""
EXTREME_SIZE: Final = 1
"""Largest size shown at that price; 0 when the window shows nothing."""
EXTREME_LEVEL: Final = 2
"""Where that level stands in this row's execution book (its decision book for the early window), nowhere if not."""
EXTREME_NEXT: Final = 3
"""Where it stands in the next book of the chain: the next row's decision book (this row's execution book for the early
window)."""
VOLUME_BEFORE: Final = 4
"""Prefix sum of traded volume in front of the window's first trade."""
WINDOW_FIELDS: Final = 5


@dataclass(frozen=True)
class Tape:
    """Decisions of several instruments and sessions, one after the other.

    Rows N, segments S, levels L a side, windows W (2, or 3 with the early one). Prices are integer ticks, sizes
    integer lots, stamps ns UTC. A missing level has size 0 and repeats the tick of the last level shown.
    """

    instruments: tuple[Instrument, ...]
    config: TapeConfig
    segments: Int[Tensor, "segments 2"]
    """Half-open row ranges that an episode never leaves; the last row of each is only marked, not traded from."""
    instrument: Int[Tensor, " rows"]
    """Index into `instruments`."""
    time: Int[Tensor, " rows"]
    execution_time: Int[Tensor, " rows"]
    """When new orders of the row meet the execution book."""
    clock: Int[Tensor, " rows"]
    """Local time of day at `time`, ns since midnight in the instrument's timezone."""
    touch: Int[Tensor, "rows 2"]
    """Best bid and ask tick at the decision."""
    decision: Int[Tensor, "rows 2 2 levels"]
    """Book known at the decision: [row, BID/ASK, TICK/SIZE, level]."""
    execution: Int[Tensor, "rows 2 2 levels"]
    """Book on which orders of the row act."""
    execution_from: Int[Tensor, "rows 2*levels+1"]
    """For each level of `execution` (bids, then asks), where the same displayed liquidity stood in `decision`;
    2 * levels for nowhere, which the last column always says."""
    decision_from: Int[Tensor, "rows 2*levels+1"]
    """For each level of `decision`, where it stood in the `execution` of the row before; as `execution_from`."""
    windows: Int[Tensor, "rows windows 2 5"]
    """What can fill a resting order: [row, window, buy/sell order, field]."""
    trade_keys: Int[Tensor, " trades+1"]
    """Sorted keys of (row, window, order side, price), see `fills.window_evidence`; the last one is beyond all keys."""
    trade_volume: Int[Tensor, " trades+2"]
    """Traded lots before each of `trade_keys`, and their total once more."""
    trade_ticks: tuple[int, int]
    """Lowest and highest traded tick, the span of the keys."""
    market: Float[Tensor, "rows features"]
    """Market features, unscaled; `market_names` tells the columns."""
    ofi: Float[Tensor, "rows levels*horizons"]
    """Multi-level order-flow imbalance over mean displayed size, level by level, three horizons each."""
    ofi3: Float[Tensor, "rows 3"]
    """Best-level order-flow imbalance at the three horizons."""
    market_names: tuple[str, ...]
    funding: Float[Tensor, " rows"] | None = None
    """Share of the position's value that a holder pays on reaching the row; None where no instrument has funding."""

    @property
    def rows(self) -> int:
        """Number of rows, in all segments and outside of them."""
        return self.time.shape[0]

    @property
    def levels(self) -> int:
        """Book levels a side."""
        return self.decision.shape[-1]

    @property
    def has_early(self) -> bool:
        """Whether orders can fill between a decision and the arrival of its orders."""
        return self.windows.shape[1] > EARLY

    @property
    def half_ticks(self) -> Int[Tensor, " rows"]:
        """Mid price at each decision in half ticks, so that it stays an integer."""
        return self.touch.sum(-1)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.time.device

    def inside(self) -> Bool[Tensor, " rows"]:
        """Rows that belong to a segment."""
        edges = torch.zeros(self.rows + 1, dtype=torch.int64, device=self.device)
        edges.index_add_(0, self.segments[:, 0], torch.ones_like(self.segments[:, 0]))
        edges.index_add_(0, self.segments[:, 1], -torch.ones_like(self.segments[:, 1]))
        return edges.cumsum(0)[:-1] > 0

    def segment_instruments(self) -> Int[Tensor, " segments"]:
        """Index into `instruments` of each segment."""
        return self.instrument[self.segments[:, 0]]

    def select(self, text: str, embargo: str = "0s") -> "Tape":
        """The same rows with segments cut to a range of `SplitConfig`'s notation.

        Raises `ConfigError` when the range cannot be read or holds no step.
        """
        from foxhunt.market.split import cut_segments

        return replace(self, segments=cut_segments(self, text, embargo))

    def to(self, device: torch.device | str) -> "Tape":
        """The tape on another device."""
        tensors = {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)}
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in tensors.items()}
        return replace(self, **moved)


def load_tape(dataset: "Dataset", symbols: Sequence[str] = (), config: TapeConfig | None = None) -> Tape:
    """Build the tape of a stored dataset; no symbols takes every instrument that has a book or bars.

    Raises `DataError` when an instrument has neither, or its data holds no two decisions in a row.
    """
    from foxhunt.market.tape_build import bars_as_book, build_tape

    config = config or TapeConfig()
    chosen = list(symbols) or [s for s in dataset.instruments if {"book", "bars"} & set(dataset.kinds(s))]
    if not chosen:
        raise DataError(f"{dataset.path} holds no book and no bars; import some with: foxhunt data import")
    parts = []
    for symbol in chosen:
        kinds, instrument = dataset.kinds(symbol), dataset.instruments.get(symbol)
        if instrument is None or not {"book", "bars"} & set(kinds):
            raise DataError(f"{dataset.path}: {symbol} has no book and no bars to trade on; choose another symbol")
        if "book" in kinds:
            book = dataset.frame("book", symbol)
        else:
            book = bars_as_book(dataset.frame("bars", symbol), instrument)
        parts.append((book, dataset.frame("trades", symbol), instrument))
    return build_tape(parts, config)
