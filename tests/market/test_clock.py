"""Sessions, segments and the rows inside them."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from foxhunt.config import TapeConfig
from foxhunt.data.schema import Instrument
from foxhunt.errors import DataError
from foxhunt.market.clock import decision_rows, local_clock, sessions

from .frames import ONE, SECOND, BookRow, tape_of

BOOK: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([(99, 5)], [(101, 5)])


def stamps(*seconds: float) -> np.ndarray:
    """Nanoseconds."""
    return np.array([round(s * SECOND) for s in seconds], np.int64)


def rows_of(seconds: list[float], config: TapeConfig) -> tuple[list[float], list[float], list[list[int]]]:
    """Decision instants and execution stamps in seconds, and segments; the last row of a segment executes nowhere."""
    tradable = stamps(*seconds)
    rows = decision_rows(tradable, np.zeros(len(tradable), np.int64), config)
    return ((rows.time - 1) / SECOND).tolist(), (tradable[rows.execution] / SECOND).tolist(), rows.segments.tolist()


def test_a_decision_every_second_acts_on_the_next_book() -> None:
    """Books at 0.4, 1.0, 1.5, 2.2, 3.9: the instant 1.0 knows the book of 1.0 and acts on that of 1.5."""
    time, execution, segments = rows_of([0.4, 1.0, 1.5, 2.2, 3.9], TapeConfig())
    assert time == [1.0, 2.0, 3.0]
    assert execution[:2] == [1.5, 2.2]
    assert segments == [[0, 3]]


def test_no_decision_while_the_last_order_waits_for_a_book() -> None:
    """Books every three seconds and a clock of one: only the instants that follow an execution count."""
    time, execution, _ = rows_of([0, 3, 6, 9, 12], TapeConfig())
    assert time == [0, 3, 6, 9, 12]
    assert execution[:4] == [3, 6, 9, 12]


def test_latency_reaches_a_later_book() -> None:
    """Decided at 1.0 + 1 ns, arrived at 1.5 + 1 ns: the book of 1.5 is too early, that of 1.8 counts."""
    time, execution, _ = rows_of([0.5, 1.2, 1.5, 1.8, 2.7, 3.5], TapeConfig(latency="500ms"))
    assert time[0] == 1
    assert execution[0] == 1.8


def test_event_clock() -> None:
    """Every second book is a decision, on the book after it."""
    time, execution, _ = rows_of([0, 0.1, 0.2, 5, 5.1, 6], TapeConfig(every="2ev"))
    assert time == [0.1, 5, 6]
    assert execution[:2] == [0.2, 5.1]


def test_stale_gaps_part_segments() -> None:
    """Eleven silent seconds under stale_after=10s end one segment and start another; ten do not."""
    books = [0, 1, 2, 3, 14, 15, 16, 26, 27]
    time, execution, segments = rows_of(books, TapeConfig(stale_after="10s"))
    assert segments == [[0, 4], [4, 9]]
    assert time == books
    # Nothing is executed across the gap.
    assert all(execution[i] == books[i + 1] for i in (0, 1, 2, 4, 5, 6, 7))


def test_a_session_end_parts_segments_and_its_books_do_not_meet() -> None:
    """A lunch break of a minute under a generous stale_after: the morning's last order finds no afternoon book."""
    shanghai = replace(ONE, timezone="Asia/Shanghai", sessions=(("09:30", "11:30"), ("13:00", "14:57")))
    noon = datetime(2022, 6, 1, 11, 29, 55, tzinfo=ZoneInfo("Asia/Shanghai")).timestamp()
    opening = datetime(2022, 6, 1, 13, 0, tzinfo=ZoneInfo("Asia/Shanghai")).timestamp()
    books: list[BookRow] = [(s, *BOOK) for s in [noon + i for i in range(8)] + [opening + i for i in range(5)]]
    tape = tape_of(books, instrument=shanghai, config=TapeConfig(stale_after="3h"))
    # 11:30:00 and later is outside: five books in the morning, all five in the afternoon.
    assert tape.segments.tolist() == [[0, 5], [5, 10]]
    assert (tape.clock[[0, 5]] // SECOND).tolist() == [11 * 3600 + 29 * 60 + 55, 13 * 3600]
    assert int(tape.time[4]) == round((noon + 4) * SECOND) + 1


def test_sessions_follow_local_time_through_daylight_saving() -> None:
    """New York opens at 14:30 UTC in winter and 13:30 UTC in summer; elapsed runs from 0 to 1."""
    new_york = Instrument("X", "1", timezone="America/New_York", sessions=(("09:30", "16:00"),))
    moments = [(2024, 3, 8, 14, 30), (2024, 3, 11, 13, 30), (2024, 3, 11, 13, 29), (2024, 3, 11, 16, 45)]
    times = np.array([round(datetime(*m, tzinfo=UTC).timestamp()) * SECOND for m in moments])
    number, elapsed = sessions(times, new_york)
    assert number[2] == -1
    assert number[1] - number[0] == 3
    assert elapsed[[0, 1, 3]].tolist() == [0, 0, 0.5]


def test_a_session_may_run_over_midnight() -> None:
    """18:00 to 17:00: Monday 23:00 and Tuesday 01:00 are one session, 17:30 is none."""
    futures = Instrument("X", "1", sessions=(("18:00", "17:00"),))
    times = np.array([round(datetime(2024, 1, d, h, m, tzinfo=UTC).timestamp()) * SECOND for d, h, m in
                      ((1, 23, 0), (2, 1, 0), (2, 17, 30), (2, 18, 0))])  # fmt: skip
    number, elapsed = sessions(times, futures)
    assert number[0] == number[1]
    assert number[2] == -1
    assert number[3] == number[0] + 1
    assert elapsed[:2].tolist() == pytest.approx([5 / 23, 7 / 23])


def test_local_clock_is_that_of_the_wall() -> None:
    """Half past two in the afternoon in Kolkata is 09:00 UTC."""
    time = np.array([round(datetime(2024, 5, 1, 9, 0, tzinfo=UTC).timestamp()) * SECOND])
    assert local_clock(time, "Asia/Kolkata")[1].tolist() == [(14 * 3600 + 1800) * SECOND]


def test_too_little_data_says_what_to_change() -> None:
    """One book gives no step."""
    with pytest.raises(DataError, match=r"ONE: 1 tradable books give no two decisions.*tape\.every.*tape\.stale_after"):
        tape_of([(0, *BOOK)])


def test_unsorted_and_off_tick_data_are_refused_by_row() -> None:
    """The tape builds on checked data and says so."""
    with pytest.raises(DataError, match="ONE book row 2: stamp before the row above"):
        tape_of([(1, *BOOK), (0, *BOOK)])
    half = replace(ONE, tick_size="2")
    with pytest.raises(DataError, match=r"ONE book row 1: price 99\.0 is not a multiple of the tick 2"):
        tape_of([(0, *BOOK), (1, *BOOK)], instrument=half)
