"""Cutting a tape by time."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from foxhunt.config import SplitConfig, TapeConfig
from foxhunt.errors import ConfigError
from foxhunt.market.split import split_tape
from foxhunt.market.tape import Tape
from foxhunt.market.tape_build import build_tape

from .frames import ONE, SECOND, BookRow, book_frame, tape_of, trade_frame

ZONE = ZoneInfo("Asia/Shanghai")
SHANGHAI = replace(ONE, timezone="Asia/Shanghai")
HOUR = TapeConfig(every="1m", stale_after="90s")


def minutes(day: int, hour: int, count: int) -> list[BookRow]:
    """One book a minute from an hour of a day of June 2022 on, Shanghai time."""
    start = datetime(2022, 6, day, hour, tzinfo=ZONE).timestamp()
    return [(start + 60 * m, [(99, 5)], [(101, 5)]) for m in range(count)]


def clock_span(tape: Tape) -> list[tuple[str, str]]:
    """First and last instant of every segment, local."""

    def text(row: int) -> str:
        return datetime.fromtimestamp(int(tape.time[row]) // SECOND, ZONE).strftime("%d %H:%M")

    return [(text(first), text(stop - 1)) for first, stop in tape.segments.tolist()]


@pytest.fixture(scope="module")
def two_days() -> Tape:
    """10:00 to 11:59 and 13:00 to 13:59 on two days."""
    books = [b for day in (1, 2) for b in (*minutes(day, 10, 120), *minutes(day, 13, 60))]
    return tape_of(books, instrument=SHANGHAI, config=HOUR)


def test_shares_of_the_rows(two_days: Tape) -> None:
    """360 rows: a quarter is 90, within the first morning; the next quarter ends with the first day."""
    assert clock_span(two_days.select("0%/25%")) == [("01 10:00", "01 11:29")]
    assert clock_span(two_days.select("25%/50%")) == [("01 11:30", "01 11:59"), ("01 13:00", "01 13:59")]
    parts = [two_days.select(f"{a}%/{b}%") for a, b in ((0, 33.3), (33.3, 66.6), (66.6, 100))]
    assert sum(int(p.inside().sum()) for p in parts) == 360


def test_shares_cut_every_instrument_at_one_instant() -> None:
    """The second instrument starts an hour later; no row of it that trains is later than one that tests."""
    early, late = minutes(1, 10, 120), minutes(1, 11, 120)
    parts = [
        (book_frame(books, symbol), trade_frame((), symbol), replace(SHANGHAI, symbol=symbol))
        for symbol, books in (("A", early), ("B", late))
    ]
    tape = build_tape(parts, HOUR)
    train, test = tape.select("0%/50%"), tape.select("50%/100%")
    assert int(tape.time[train.inside()].max()) < int(tape.time[test.inside()].min())
    assert int(train.inside().sum()) == 120


def test_clock_times_hold_on_every_day(two_days: Tape) -> None:
    """Half-open: the decision of 11:00 belongs to the range that starts there."""
    assert clock_span(two_days.select("10:30/11:00")) == [("01 10:30", "01 10:59"), ("02 10:30", "02 10:59")]
    assert clock_span(two_days.select("11:00/13:10"))[:2] == [("01 11:00", "01 11:59"), ("01 13:00", "01 13:09")]


def test_iso_stamps_are_local_unless_they_say_otherwise(two_days: Tape) -> None:
    """10:30 in Shanghai is 02:30 UTC."""
    local = two_days.select("2022-06-01T10:30/2022-06-01T11:00")
    assert clock_span(local) == [("01 10:30", "01 10:59")]
    assert two_days.select("2022-06-01T02:30+00:00/2022-06-01T03:00+00:00").segments.tolist() == local.segments.tolist()


def test_embargo_opens_the_later_parts(two_days: Tape) -> None:
    """Five minutes left out at the start of validate and test, on every day; train is whole."""
    config = SplitConfig("10:00/11:00", "11:00/12:00", "13:00/14:00", embargo="5m")
    parts = split_tape(two_days, config)
    assert clock_span(parts["train"])[0] == ("01 10:00", "01 10:59")
    assert clock_span(parts["validate"]) == [("01 11:05", "01 11:59"), ("02 11:05", "02 11:59")]
    assert clock_span(parts["test"])[1] == ("02 13:05", "02 13:59")


def test_parts_share_rows_but_no_segment(two_days: Tape) -> None:
    """Cutting copies nothing."""
    part = two_days.select("10:30/11:00")
    assert part.decision.data_ptr() == two_days.decision.data_ptr()
    assert part.select("10:40/10:50").segments.tolist() == two_days.select("10:40/10:50").segments.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("60%", "is not a range; write START/STOP"),
        ("60%/40%", "must run forward from 0% to at most 100%"),
        ("0%/120%", "must run forward from 0% to at most 100%"),
        ("11:00/10:00", "must run forward within one day"),
        ("2022-06-02T00:00/2022-06-01T00:00", "must run forward"),
        ("noon/11:00", "'noon' in the range noon/11:00 is neither a share"),
        ("15:00/16:00", "holds no step of the data, which spans 2022-06-01T10:00:00"),
        ("0%/0.1%", "holds no step of the data"),
    ],
)
def test_ranges_that_cannot_be_meant_are_refused(two_days: Tape, text: str, message: str) -> None:
    """One line that names the range."""
    with pytest.raises(ConfigError, match=message):
        two_days.select(text)


def test_overlapping_parts_are_refused(two_days: Tape) -> None:
    """Judging on rows that trained is no judgement."""
    with pytest.raises(ConfigError, match=r"split\.train 0%/60% and split\.test 50%/100% overlap"):
        split_tape(two_days, SplitConfig("0%/60%", "60%/70%", "50%/100%"))
