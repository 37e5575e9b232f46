"""The decision clock: sessions, segments without gaps, and the rows inside them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foxhunt.config import TapeConfig, duration_ns, event_count
from foxhunt.data.schema import Instrument
from foxhunt.market.localtime import DAY_NS, clock_ns

Stamps = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Decisions of one instrument: stamps, and positions of their books among the tradable books."""

    time: Stamps
    arrival: Stamps
    decision: NDArray[np.int64]
    """Last tradable book before `time`."""
    execution: NDArray[np.int64]
    """First tradable book after `arrival`; the decision's own book on the last row of a segment, which has none."""
    segments: NDArray[np.int64]
    """[segments, 2] half-open ranges of rows."""


def local_clock(stamps: Stamps, timezone: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Local day number and ns since local midnight of UTC stamps, daylight saving included."""
    import polars as pl

    local = pl.Series(stamps).cast(pl.Datetime("ns", "UTC")).dt.convert_time_zone(timezone).dt.replace_time_zone(None)
    local_ns = local.dt.epoch("ns").to_numpy()
    return local_ns // DAY_NS, local_ns % DAY_NS


def sessions(stamps: Stamps, instrument: Instrument) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Session of each stamp (-1 outside of all) and the share of it that has passed.

    Sessions are numbered through the days. Without a schedule trading never stops: one session, and the share is that
    of the local day. A session may run over midnight (18:00 to 17:00).
    """
    day, clock = local_clock(stamps, instrument.timezone)
    if not instrument.sessions:
        return np.zeros(len(stamps), np.int64), clock / DAY_NS
    number = np.full(len(stamps), -1, np.int64)
    elapsed = np.zeros(len(stamps))
    for index, (start_text, stop_text) in enumerate(instrument.sessions):
        start, stop = clock_ns(start_text), clock_ns(stop_text)
        length = (stop - start) % DAY_NS or DAY_NS
        since = (clock - start) % DAY_NS
        member = since < length
        opened = day - (clock < start)
        number[member] = (opened * len(instrument.sessions) + index)[member]
        elapsed[member] = since[member] / length
    return number, elapsed


def decision_rows(tradable: Stamps, session: NDArray[np.int64], config: TapeConfig) -> Rows:
    """Lay the decision clock over the stamps of tradable books (ascending, distinct, inside sessions).

    Segments end with the session and at gaps longer than `stale_after`. A decision stands 1 ns after an instant of the
    clock, so that data stamped at that instant are known. An instant is skipped while the order of the decision before
    it still waits for its execution book: no decision is taken twice on the same order's fate.
    """
    gap = (np.diff(tradable) > duration_ns(config.stale_after)) | (np.diff(session) != 0)
    starts = np.flatnonzero(np.concatenate([[True], gap])) if len(tradable) else np.zeros(0, np.int64)
    stops = np.append(starts[1:], len(tradable))
    latency = duration_ns(config.latency)
    instants: list[Stamps] = []
    segments: list[tuple[int, int, int]] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        chosen = _pace(_instants(tradable[start:stop], config), tradable[start:stop], latency)
        if len(chosen) >= 2:
            first = segments[-1][1] if segments else 0
            segments.append((first, first + len(chosen), stop))
            instants.append(chosen)
    if not segments:
        nothing = np.zeros(0, np.int64)
        return Rows(nothing, nothing, nothing, nothing, np.zeros((0, 2), np.int64))
    time = np.concatenate(instants) + 1
    decision = np.searchsorted(tradable, time, "left") - 1
    execution = np.searchsorted(tradable, time + latency, "right")
    for _, last, stop in segments:
        if execution[last - 1] >= stop:
            execution[last - 1] = decision[last - 1]
    return Rows(time, time + latency, decision, execution, np.array([s[:2] for s in segments], np.int64))


def _instants(stamps: Stamps, config: TapeConfig) -> Stamps:
    """Instants of the clock within one segment, first and last stamp included."""
    if (events := event_count(config.every)) is not None:
        return stamps[events - 1 :: events]
    every = duration_ns(config.every)
    first = -(-int(stamps[0]) // every)
    return np.arange(first, int(stamps[-1]) // every + 1, dtype=np.int64) * every


def _pace(instants: Stamps, stamps: Stamps, latency: int) -> Stamps:
    """Instants that follow the execution of the instant before."""
    execution = np.searchsorted(stamps, instants + 1 + latency, "right")
    reach = np.append(stamps, np.iinfo(np.int64).max)[execution]
    following = np.searchsorted(instants, reach, "left").tolist()
    chosen, index = [], 0
    while index < len(instants):
        chosen.append(index)
        index = following[index]
    return instants[chosen]
