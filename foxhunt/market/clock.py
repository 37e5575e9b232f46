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
    """Data stamped before it are known; the decision itself is taken `data_latency` later."""
    arrival: Stamps
    """When the decision's orders reach the market."""
    decision: NDArray[np.int64]
    """Last tradable book before `time`."""
    execution: NDArray[np.int64]
    """Book that the orders meet: the first tradable one after `arrival`, or the last up to it where the config's
    `execution` is "known". Without meaning on the last row of a segment, where it may be the decision's own book."""
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
    clock, so that data stamped at that instant are known; with data latency d its stamp is d earlier, and everything
    that it rests on is as old. An instant is skipped while the order of the decision before it is still on its way or
    waits for its execution book: no decision is taken twice on the same order's fate.
    """
    gap = (np.diff(tradable) > duration_ns(config.stale_after)) | (np.diff(session) != 0)
    starts = np.flatnonzero(np.concatenate([[True], gap])) if len(tradable) else np.zeros(0, np.int64)
    stops = np.append(starts[1:], len(tradable))
    delay = duration_ns(config.data_latency) + duration_ns(config.latency)
    known = config.execution == "known"
    instants: list[Stamps] = []
    segments: list[tuple[int, int, int]] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        chosen = _pace(_instants(tradable[start:stop], config), tradable[start:stop], delay, known)
        if len(chosen) >= 2:
            first = segments[-1][1] if segments else 0
            segments.append((first, first + len(chosen), stop))
            instants.append(chosen)
    if not segments:
        nothing = np.zeros(0, np.int64)
        return Rows(nothing, nothing, nothing, nothing, np.zeros((0, 2), np.int64))
    time = np.concatenate(instants) + 1
    decision = np.searchsorted(tradable, time, "left") - 1
    execution = np.searchsorted(tradable, time + delay, "right") - known
    for _, last, stop in segments:
        if execution[last - 1] >= stop:
            execution[last - 1] = decision[last - 1]
    return Rows(time, time + delay, decision, execution, np.array([s[:2] for s in segments], np.int64))


def funding_due(rows: Rows, instrument: Instrument) -> NDArray[np.float64]:
    """Share of the position's value that funding takes on the way to each row from the row before in its segment.

    Funding is due at every multiple of `funding_every` in UTC; a segment's first row owes nothing.
    """
    every = duration_ns(instrument.funding_every)
    passed = (rows.time - 1) // every
    count = np.diff(passed, prepend=passed[:1])
    count[rows.segments[:, 0]] = 0
    return np.asarray(count * (instrument.funding_bps * 1e-4))


def _instants(stamps: Stamps, config: TapeConfig) -> Stamps:
    """Instants of the clock within one segment, first and last stamp included."""
    if (events := event_count(config.every)) is not None:
        return stamps[events - 1 :: events]
    every, age = duration_ns(config.every), duration_ns(config.data_latency)
    first, last = -(-(int(stamps[0]) + age) // every), (int(stamps[-1]) + age) // every
    return np.arange(first, last + 1, dtype=np.int64) * every - age


def _pace(instants: Stamps, stamps: Stamps, delay: int, known: bool) -> Stamps:
    """Instants that follow the execution of the instant before."""
    reach = instants + 1 + delay
    if not known:
        reach = np.append(stamps, np.iinfo(np.int64).max)[np.searchsorted(stamps, reach, "right")]
    following = np.searchsorted(instants, reach, "left").tolist()
    chosen, index = [], 0
    while index < len(instants):
        chosen.append(index)
        index = following[index]
    return instants[chosen]
