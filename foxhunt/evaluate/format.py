"""How numbers and times are written, the same on the console and in the report."""

from datetime import datetime
from math import floor, log10
from zoneinfo import ZoneInfo


def money(value: float) -> str:
    """Two decimals and thousands separators; three significant digits where two decimals would say 0.00."""
    if value == 0 or abs(value) >= 0.01:
        return f"{value + 0.0:,.2f}"  # + 0.0 turns -0.0 into 0.0
    return f"{value:.{2 - floor(log10(abs(value)))}f}"


def span(low: float, high: float) -> str:
    """An interval of money; in whole units where it is wide."""
    if max(abs(low), abs(high)) >= 1000:
        return f"{low:,.0f} to {high:,.0f}"
    return f"{money(low)} to {money(high)}"


def percent(share: float | None) -> str:
    """A share as a percentage; more decimals where the share is small."""
    if share is None:
        return "-"
    return f"{share * 100:.3f} %" if 0.000_005 <= abs(share) < 0.001 else f"{share * 100:.1f} %"


def number(value: float | None, digits: int = 2) -> str:
    """A plain number, a dash for None; digits are dropped from large and whole numbers."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.{digits}f}"


def time_span(start_ns: int, stop_ns: int, timezone: str) -> str:
    """From when to when, in local time; the date is said again only when it changes."""
    zone = ZoneInfo(timezone)
    start, stop = (datetime.fromtimestamp(ns / 1e9, zone) for ns in (start_ns, stop_ns))
    end = f"{stop:%H:%M:%S}" if start.date() == stop.date() else f"{stop:%Y-%m-%d %H:%M:%S}"
    return f"{start:%Y-%m-%d %H:%M:%S} to {end} {timezone}"


def typeset(text: str) -> str:
    """A minus sign instead of a hyphen before a digit."""
    return "".join(
        "\u2212" if c == "-" and text[k + 1 : k + 2].isdigit() and (k == 0 or text[k - 1] in " (") else c
        for k, c in enumerate(text)
    )
