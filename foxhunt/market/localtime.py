"""Clock times as nanoseconds."""

from typing import Final

DAY_NS: Final = 86_400_000_000_000


def clock_ns(text: str) -> int:
    """Nanoseconds since midnight of a clock time such as 09:30 or 14:57:30."""
    parts = [int(part) for part in text.split(":")]
    return sum(value * unit for value, unit in zip(parts, (3600, 60, 1), strict=False)) * 1_000_000_000
