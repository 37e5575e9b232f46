"""Ranges of time on a tape: which rows train, which select the model, which judge it."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from foxhunt.config import SplitConfig, duration_ns, require
from foxhunt.errors import ConfigError
from foxhunt.market.localtime import DAY_NS, clock_ns
from foxhunt.market.tape import Tape

SPLITS: Final = ("train", "validate", "test")

_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)%")
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")


def split_tape(tape: Tape, config: SplitConfig) -> dict[str, Tape]:
    """The tape cut into train, validate and test; the embargo opens the last two.

    Raises `ConfigError` when a range cannot be read, holds no step, or shares a row with another one.
    """
    parts = {name: tape.select(getattr(config, name), "0s" if name == "train" else config.embargo) for name in SPLITS}
    for first, second in (("train", "validate"), ("train", "test"), ("validate", "test")):
        if bool((parts[first].inside() & parts[second].inside()).any()):
            raise ConfigError(
                f"split.{first} {getattr(config, first)} and split.{second} {getattr(config, second)} overlap"
            )
    return parts


def cut_segments(tape: Tape, text: str, embargo: str) -> Int[Tensor, "segments 2"]:
    """Segments of a tape cut to a range of `SplitConfig`'s notation; pieces without a step are dropped.

    Raises `ConfigError` when the range cannot be read or nothing is left.
    """
    chosen = _rows_in(tape, text, duration_ns(embargo)) & tape.inside()
    owner = torch.full_like(tape.time, -1)
    for index, (first, stop) in enumerate(tape.segments.tolist()):
        owner[first:stop] = index
    run = torch.where(chosen, owner, -1)
    edge = torch.ones(1, dtype=torch.bool, device=run.device)
    change = run[1:] != run[:-1]
    starts, stops = torch.cat([edge, change]), torch.cat([change, edge])
    segments = torch.stack([starts.nonzero()[:, 0], stops.nonzero()[:, 0] + 1], 1)
    segments = segments[(run[segments[:, 0]] >= 0) & (segments[:, 1] - segments[:, 0] >= 2)]
    if not len(segments):
        raise ConfigError(f"the range {text} holds no step of the data, which spans {_span(tape)}")
    return segments


def _rows_in(tape: Tape, text: str, embargo: int) -> Bool[Tensor, " rows"]:
    start, slash, stop = (part.strip() for part in text.partition("/"))
    if not slash:
        raise ConfigError(f"{text!r} is not a range; write START/STOP, such as 0%/60%, 09:30/11:30 or two ISO stamps")
    if _SHARE.fullmatch(start) and _SHARE.fullmatch(stop):
        return _between(tape.time, *_share_stamps(tape, start, stop, text), embargo)
    if _CLOCK.fullmatch(start) and _CLOCK.fullmatch(stop):
        first, last = clock_ns(start), clock_ns(stop)
        require(first < last <= DAY_NS, f"the clock range {text} must run forward within one day")
        return _between(tape.clock, first, last, embargo)
    return _in_stamps(tape, text, lambda zone: (_iso_ns(start, zone, text), _iso_ns(stop, zone, text)), embargo)


def _between(values: Tensor, start: int, stop: int, embargo: int) -> Tensor:
    return (values >= start + embargo) & (values < stop)


def _share_stamps(tape: Tape, start: str, stop: str, text: str) -> tuple[int, int]:
    """Stamps at shares of all rows in order of time, so that one instant cuts every instrument."""
    first, last = (float(share[:-1]) / 100 for share in (start, stop))
    require(0 <= first < last <= 1, f"the range {text} must run forward from 0% to at most 100%")
    times = tape.time[tape.inside()].sort().values
    edges = torch.cat([times, times[-1:] + 1])
    return int(edges[round(first * len(times))]), int(edges[round(last * len(times))])


def _in_stamps(tape: Tape, text: str, bounds: Callable[[str], tuple[int, int]], embargo: int) -> Tensor:
    chosen = torch.zeros_like(tape.time, dtype=torch.bool)
    for index, instrument in enumerate(tape.instruments):
        start, stop = bounds(instrument.timezone)
        require(start < stop, f"the range {text} must run forward")
        chosen |= (tape.instrument == index) & _between(tape.time, start, stop, embargo)
    return chosen


def _iso_ns(stamp: str, zone: str, text: str) -> int:
    """Nanoseconds UTC of an ISO stamp, which is local to `zone` unless it carries an offset."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        raise ConfigError(
            f"{stamp!r} in the range {text} is neither a share (60%), a clock time (09:30) nor an ISO stamp"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def _span(tape: Tape) -> str:
    times = tape.time[tape.inside()] if bool(tape.inside().any()) else tape.time
    zone = ZoneInfo(tape.instruments[0].timezone)
    first, last = (datetime.fromtimestamp(int(t) // 1_000_000_000, zone) for t in (times.min(), times.max()))
    return f"{first.isoformat()} to {last.isoformat()}"
