"""From canonical frames to a `Tape`. The only part of the market that needs numpy and polars."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from foxhunt.config import TapeConfig
from foxhunt.data.schema import Instrument, level_columns
from foxhunt.errors import DataError
from foxhunt.market.book_events import Books, Trades, last_of_stamp, level_lives, read_books, read_trades
from foxhunt.market.clock import Rows, decision_rows, funding_due, local_clock, sessions
from foxhunt.market.features import FeatureInputs, compute_features, market_names, order_flow_imbalance
from foxhunt.market.tape import EARLY, FRESH, KEPT, TICK, VOLUME_BEFORE, Tape
from foxhunt.market.windows import Flow, carry_over, extremes, sort_trades, window_stamps

if TYPE_CHECKING:
    import polars as pl

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Part:
    """Tape columns of one instrument, before the instruments are joined."""

    rows: Rows
    execution_time: Integers
    funding: NDArray[np.float64]
    clock: Integers
    decision: Integers
    execution: Integers
    execution_from: NDArray[np.int8]
    decision_from: NDArray[np.int8]
    windows: Integers
    flow: Flow
    features: FeatureInputs


def build_tape(parts: Sequence[tuple["pl.DataFrame", "pl.DataFrame", Instrument]], config: TapeConfig) -> Tape:
    """Build a tape from (book, trades, instrument) frames, one triple an instrument.

    Raises `DataError` when an instrument's data holds no two decisions in a row, is unsorted or off the tick.
    """
    built = [_build_part(book, trades, instrument, config) for book, trades, instrument in parts]
    early = any(part.windows[:, EARLY, :, 1].any() or (part.flow.window == EARLY).any() for part in built)
    count = EARLY + 1 if early else EARLY
    offsets = np.cumsum([0] + [len(part.rows.time) for part in built])
    features = [compute_features(part.features, config) for part in built]

    def join(name: str) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([getattr(part, name) for part in built]))

    window_table = np.concatenate([part.windows[:, :count] for part in built])
    keys, volume, span = _traded([part.flow for part in built], offsets, count, window_table)
    return Tape(
        instruments=tuple(instrument for _, _, instrument in parts),
        config=config,
        segments=torch.from_numpy(
            np.concatenate([part.rows.segments + o for part, o in zip(built, offsets, strict=False)])
        ),
        instrument=torch.from_numpy(np.repeat(np.arange(len(built)), np.diff(offsets))),
        time=torch.from_numpy(np.concatenate([part.rows.time for part in built])),
        execution_time=join("execution_time"),
        clock=join("clock"),
        touch=join("decision")[:, :, TICK, 0].contiguous(),
        decision=join("decision"),
        execution=join("execution"),
        execution_from=join("execution_from"),
        decision_from=join("decision_from"),
        windows=torch.from_numpy(window_table),
        trade_keys=torch.from_numpy(keys),
        trade_volume=torch.from_numpy(volume),
        trade_ticks=span,
        market=torch.cat([f.market for f in features]),
        ofi=torch.cat([f.ofi for f in features]),
        ofi3=torch.cat([f.ofi3 for f in features]),
        market_names=market_names(config),
        funding=join("funding") if any(part.funding.any() for part in built) else None,
    )


def bars_as_book(bars: "pl.DataFrame", instrument: Instrument) -> "pl.DataFrame":
    """A book of one level from bars: one tick either side of the close, as much as the bar traded on each side.

    Nothing is known of what happened inside a bar, so only crossing orders fill dependably, at the next bar's close.
    A bar without volume offers nothing; bars that have no volume at all are refused with `DataError`.
    """
    import polars as pl

    from foxhunt.data.frames import conform

    if bars["volume"].is_null().all():
        raise DataError(f"{instrument.symbol}: bars without volume cannot be traded; import a book or bars with volume")
    bid, ask = level_columns("bid_px")[0], level_columns("ask_px")[0]
    return conform(
        "book",
        bars.select(
            "ts_event",
            "instrument",
            (pl.col("close") - instrument.tick).alias(bid),
            (pl.col("close") + instrument.tick).alias(ask),
            pl.col("volume").alias(level_columns("bid_sz")[0]),
            pl.col("volume").alias(level_columns("ask_sz")[0]),
        ),
    )


def _build_part(book: "pl.DataFrame", trade_frame: "pl.DataFrame", instrument: Instrument, config: TapeConfig) -> _Part:
    raw = read_books(book, instrument, config.levels)
    session, elapsed = sessions(raw.time, instrument)
    raw, session, elapsed = raw[session >= 0], session[session >= 0], elapsed[session >= 0]
    trades = read_trades(trade_frame, instrument)
    books = last_of_stamp(raw)
    tradable = np.flatnonzero(books.two_sided)
    tradable_session = session[np.searchsorted(raw.time, books.time[tradable], "left")]
    rows = decision_rows(books.time[tradable], tradable_session, config)
    if not len(rows.time):
        raise DataError(
            f"{instrument.symbol}: {len(tradable)} tradable books give no two decisions in a row; "
            f"try a shorter tape.every (now {config.every}) or a longer tape.stale_after (now {config.stale_after})"
        )
    decision, execution = tradable[rows.decision], tradable[rows.execution]
    lives = level_lives(books)
    now, reached, later = lives[decision], lives[execution], np.roll(lives[decision], -1, axis=0)
    decision_from = carry_over(now, np.roll(reached, 1, axis=0))
    decision_from[rows.segments[:, 0]] = 2 * config.levels
    execution_time = np.maximum(books.time[execution], rows.arrival)
    stamps = window_stamps(rows, execution_time)
    table = [
        extremes(books[tradable], lives[tradable], stamps[window], here, following)
        for window, here, following in ((KEPT, reached, later), (FRESH, reached, later), (EARLY, now, reached))
    ]
    return _Part(
        rows=rows,
        execution_time=execution_time,
        funding=funding_due(rows, instrument),
        clock=local_clock(rows.time, instrument.timezone)[1],
        decision=np.stack([books.tick[decision], books.size[decision]], 2),
        execution=np.stack([books.tick[execution], books.size[execution]], 2),
        execution_from=carry_over(reached, now),
        decision_from=decision_from,
        windows=np.stack(table, 1),
        flow=sort_trades(trades, stamps, (KEPT, FRESH, EARLY)),
        features=_feature_inputs(rows, raw, books, decision, elapsed, trades),
    )


def _feature_inputs(
    rows: Rows, raw: Books, books: Books, decision: Integers, elapsed: NDArray[np.float64], trades: Trades
) -> FeatureInputs:
    """Sums over everything stamped before each row, from which features take differences."""
    first = np.repeat(rows.segments[:, 0], np.diff(rows.segments, axis=1)[:, 0])
    opening = books.time[decision[first]]
    imbalance = order_flow_imbalance(torch.from_numpy(raw.tick), torch.from_numpy(raw.size)).numpy()
    imbalance_sums = np.concatenate([np.zeros((1, imbalance.shape[1]), np.int64), np.cumsum(imbalance, 0)])
    bought = np.concatenate([[0], np.cumsum(np.where(trades.side > 0, trades.size, 0))])
    sold = np.concatenate([[0], np.cumsum(np.where(trades.side < 0, trades.size, 0))])
    known_books, known_trades = (np.searchsorted(source.time, rows.time, "left") for source in (raw, trades))
    opening_books, opening_trades = (np.searchsorted(source.time, opening, "right") for source in (raw, trades))
    return FeatureInputs(
        book=torch.from_numpy(np.stack([books.tick[decision], books.size[decision]], 2)),
        first_row=torch.from_numpy(first),
        imbalance=torch.from_numpy(imbalance_sums[known_books]),
        imbalance_opening=torch.from_numpy(imbalance_sums[opening_books]),
        bought=torch.from_numpy(bought[known_trades]),
        bought_opening=torch.from_numpy(bought[opening_trades]),
        sold=torch.from_numpy(sold[known_trades]),
        sold_opening=torch.from_numpy(sold[opening_trades]),
        elapsed=torch.from_numpy(elapsed[known_books - 1]),
    )


def _traded(
    flows: list[Flow], offsets: Integers, count: int, table: Integers
) -> tuple[Integers, Integers, tuple[int, int]]:
    """Merge all trades into sorted keys with prefix sums of volume; writes VOLUME_BEFORE into the window table."""
    row = np.concatenate([f.row + o for f, o in zip(flows, offsets, strict=False)])
    window, order_side, tick, volume = (
        np.concatenate([getattr(f, name) for f in flows]) for name in ("window", "order_side", "tick", "volume")
    )
    kept = window < count
    row, window, order_side, tick, volume = (a[kept] for a in (row, window, order_side, tick, volume))
    low, high = (int(tick.min()), int(tick.max())) if len(tick) else (0, 0)
    span = high - low + 3
    group = (row * count + window) * 2 + order_side
    position = np.where(order_side == 0, tick - low + 1, high - tick + 1)
    keys, inverse = np.unique(group * span + position, return_inverse=True)
    keys = np.append(keys, np.iinfo(np.int64).max)
    sums = np.zeros(len(keys) + 1, np.int64)
    np.add.at(sums, inverse + 1, volume)
    np.cumsum(sums, out=sums)
    groups = np.arange(len(table) * count * 2)
    table[..., VOLUME_BEFORE] = sums[np.searchsorted(keys, groups * span, "left")].reshape(table.shape[:3])
    return keys, sums, (low, high)
