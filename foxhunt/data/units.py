"""Ticks, lots and stamps: from what files hold to integers, with the grid found in the data when nobody names it."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import polars as pl

from foxhunt.data.schema import PRICE_SCALE
from foxhunt.errors import DataError

OFF_GRID: Final = 0.01
"""A price further than this share of a tick from the grid is off it; float64 and float32 noise stays well below."""

_STEPS: Final = sorted(
    {Decimal(m).scaleb(e) for m in ("1", "2", "2.5", "5") for e in range(-9, 4)}
    | {Decimal(1) / 2**power for power in range(2, 9)},
    reverse=True,
)
_GRID_SHARE: Final = 0.999
"""Share of values that must lie on a grid: one wrong print in a thousand is dirt, not a finer tick."""
_FLOAT64: Final = 1e-11
_FLOAT32: Final = 1e-7

_STAMP_FORMATS: Final = (
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y.%m.%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y%m%d %H:%M:%S%.f",
    "%Y%m%d %H%M%S%.f",
    "%Y%m%d%H%M%S%.f",
    "%d.%m.%Y %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y%m%d %H:%M",
    "%Y-%m-%d",
    "%Y%m%d",
)
_ZONED_FORMATS: Final = ("%Y-%m-%d %H:%M:%S%.f%:z", "%Y-%m-%dT%H:%M:%S%.f%:z", "%Y-%m-%dT%H:%M:%S%.fZ")


def decimal_text(value: Decimal) -> str:
    """Plain notation without exponent or trailing zeros: 0.01, 25, 0.00000001."""
    text = format(value.normalize(), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def infer_step(values: Iterable[float], largest: float | None = None) -> str | None:
    """The coarsest step shared by at least 99.9 % of the values, None when no step fits (adjusted prices, say).

    Steps are 1, 2, 2.5 or 5 times a power of ten and binary fractions, up to `largest`, by default a tenth of the
    median: no market has a tick of more. Values that a file keeps as float32 are recognised by their noise.
    """
    sample, weight = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    kept = np.isfinite(sample) & (sample > 0)
    sample, weight = sample[kept], weight[kept]
    if not len(sample):
        return None
    median = float(np.median(sample))
    largest = median / 10 if largest is None else largest
    for precision in (_FLOAT64, _FLOAT32):
        slack = np.maximum(sample * precision, 1e-12)
        for step in _STEPS:
            size = float(step)
            if size > largest:
                continue
            if size < 10 * median * precision:
                break
            distance = np.abs(sample - np.round(sample / size) * size)
            on_grid = distance <= np.minimum(slack, size * OFF_GRID)
            if np.average(on_grid, weights=weight) >= _GRID_SHARE:
                return decimal_text(step)
    return None


def divisor_step(values: pl.Series) -> str:
    """The greatest common divisor of exact decimals (to 1e-9) as a step; 0.00000001 when there are none."""
    units = (values.drop_nulls().unique() * PRICE_SCALE).round()
    exact = units.filter((units > 0) & (units < 2**53)).cast(pl.Int64).to_numpy()
    return decimal_text(Decimal(int(np.gcd.reduce(exact))) / PRICE_SCALE) if len(exact) else "0.00000001"


def fallback_step(values: Iterable[float]) -> str:
    """A tick for prices without a grid: six digits below the leading one of the median, at least 1e-9."""
    sample = np.asarray(values, dtype=np.float64)
    sample = sample[np.isfinite(sample) & (sample > 0)]
    exponent = int(np.floor(np.log10(np.median(sample)))) - 6 if len(sample) else -6
    return decimal_text(Decimal(1).scaleb(max(exponent, -9)))


def fixed_price(column: str, tick: str = "_tick") -> pl.Expr:
    """A float price column as int64 1e-9 units on the tick grid, rounded, never floored; `tick` names an int column."""
    return ((pl.col(column) * PRICE_SCALE / pl.col(tick)).round().cast(pl.Int64, strict=False) * pl.col(tick)).alias(
        column
    )


def off_grid(column: str, tick: str = "_tick") -> pl.Expr:
    """True where a float price lies more than 1 % of a tick away from the grid."""
    ticks = pl.col(column) * PRICE_SCALE / pl.col(tick)
    return (ticks - ticks.round()).abs() > OFF_GRID


def check_timezone(name: str) -> str:
    """The name itself when it is an IANA time zone; raises `DataError` otherwise."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
        raise DataError(f"unknown time zone {name!r}; use a name such as Asia/Shanghai or UTC") from None
    return name


def to_stamps(values: pl.Series, timezone: str) -> pl.Series:
    """Stamps in any usual form as int64 ns UTC; what cannot be read becomes null.

    Datetimes and text without an offset are local to `timezone`; numbers are Unix time in s, ms, us or ns by magnitude.
    """
    if values.dtype == pl.String:
        values = _from_text(values)
    if values.dtype == pl.Date:
        values = values.cast(pl.Datetime("ns"))
    if isinstance(values.dtype, pl.Datetime):
        if values.dtype.time_zone is None:
            values = values.dt.replace_time_zone(timezone, ambiguous="earliest", non_existent="null")
        return values.dt.convert_time_zone("UTC").dt.epoch("ns").cast(pl.Int64)
    if not values.dtype.is_numeric():
        raise DataError(f"column {values.name!r} holds {values.dtype}, not stamps; name the stamp column in the map")
    return _from_numbers(values)


def _from_text(values: pl.Series) -> pl.Series:
    """Text as numbers, as datetimes with an offset, or as local ones: whichever reads most of the column."""
    text = values.str.strip_chars()
    # Eight or fourteen digits are a calendar date or a date and time, not a count of seconds.
    digits = text.str.contains(r"^\d+(\.\d+)?$") & ~text.str.contains(r"^(\d{8}|\d{14})$")
    if digits.any() and digits.fill_null(False).mean() > 0.5:  # type: ignore[operator]  # mean of a bool column
        whole = text.cast(pl.Int64, strict=False)
        return whole if whole.null_count() <= len(text) // 2 else text.cast(pl.Float64, strict=False)
    zoned = [_parse(text, form, "UTC") for form in _ZONED_FORMATS]
    naive = [_parse(text, form, None) for form in _STAMP_FORMATS]
    found = min((zoned, naive), key=lambda forms: min(parsed.null_count() for parsed in forms))
    # One form usually reads the whole column; what it leaves (dates without a clock, say) is tried with the others.
    found.sort(key=lambda parsed: parsed.null_count())
    return pl.select(pl.coalesce(found)).to_series().alias(values.name)


def _parse(text: pl.Series, form: str, zone: str | None) -> pl.Series:
    """Datetimes (ns) of one form; null where it does not fit or the instant lies outside int64 nanoseconds."""
    fine = text.str.to_datetime(form, time_unit="ns", time_zone=zone, strict=False)
    if fine.null_count() == len(fine):
        return fine
    # Polars wraps years after 2262 in nanoseconds; in microseconds they stay what they are.
    coarse = text.str.to_datetime(form, time_unit="us", time_zone=zone, strict=False).dt.epoch("us")
    return pl.select(pl.when(coarse.abs() < 2**63 // 1000).then(fine)).to_series()


def _from_numbers(values: pl.Series) -> pl.Series:
    """Unix time in the unit that puts the column's median between 1973 and 2286 (as nanoseconds)."""
    median = values.cast(pl.Float64).abs().median()
    magnitude = float(median) if isinstance(median, int | float) else 0.0
    scale = next((s for limit, s in ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3)) if magnitude < limit), 1)
    # What would overflow int64 is no stamp of this column's unit.
    values = values.to_frame("t").select(pl.when(pl.col("t").abs() <= 2**62 // scale).then("t")).to_series()
    if values.dtype.is_integer():
        return values.cast(pl.Int64) * scale
    # A float64 of seconds since 1970 resolves a quarter of a microsecond: rounding to whole ones removes its noise.
    fine = min(scale, 1000)
    return (values * (scale // fine)).round().cast(pl.Int64, strict=False) * fine
