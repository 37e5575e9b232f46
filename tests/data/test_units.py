"""Ticks, lots and stamps: hand-worked values."""

from datetime import date, datetime

import numpy as np
import polars as pl
import pytest

from foxhunt.data.units import decimal_text, fallback_step, fixed_price, infer_step, off_grid, to_stamps
from foxhunt.errors import DataError


@pytest.mark.parametrize("tick", ["0.01", "0.25", "1", "0.0001", "0.015625", "0.00000001", "5", "0.05", "0.0025"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_tick_is_found_in_prices_of_either_precision(tick: str, kind: type) -> None:
    prices = np.random.default_rng(7).integers(10_000, 20_000, 3_000) * float(tick)
    assert infer_step(prices.astype(kind)) == tick


def test_one_wrong_print_in_two_thousand_does_not_refine_the_tick() -> None:
    prices = np.random.default_rng(7).integers(10_000, 20_000, 2_000) * 0.25
    prices[7] += 0.0123
    assert infer_step(prices) == "0.25"


def test_prices_without_a_grid_have_no_tick_and_a_fine_fallback() -> None:
    prices = np.random.default_rng(7).uniform(10, 99, 1_000)
    assert infer_step(prices) is None
    assert fallback_step(prices) == "0.00001", "six digits below the leading one of 54"
    assert infer_step([]) is None
    assert infer_step([float("nan"), 0.0, -1.0]) is None


def test_a_tick_is_at_most_a_tenth_of_the_price() -> None:
    assert infer_step([100.0, 200.0, 300.0]) == "20"


def test_decimal_text_has_no_exponent() -> None:
    from decimal import Decimal

    assert [decimal_text(Decimal(t)) for t in ("1E-8", "1E+2", "0.50", "25")] == ["0.00000001", "100", "0.5", "25"]


def test_prices_are_rounded_to_the_grid_never_floored() -> None:
    frame = pl.DataFrame({"price": [80.90999999999998, 80.91, 86.65999999999998], "_tick": [10_000_000] * 3})
    assert frame.select(fixed_price("price"))["price"].to_list() == [80_910_000_000, 80_910_000_000, 86_660_000_000]
    assert not frame.select(off_grid("price").any()).item()


def test_large_prices_stay_exact() -> None:
    frame = pl.DataFrame({"price": [999_999_999.99], "_tick": [10_000_000]})
    assert frame.select(fixed_price("price")).item() == 999_999_999_990_000_000


def test_off_grid_is_more_than_a_hundredth_of_a_tick() -> None:
    frame = pl.DataFrame({"price": [10.005, 10.0000999, 10.0001001], "_tick": [10_000_000] * 3})
    assert frame.select(off_grid("price"))["price"].to_list() == [True, False, True]


MIDNIGHT_SHANGHAI = 1_654_012_800_000_000_000
"""2022-06-01 00:00 in Shanghai is 2022-05-31 16:00 UTC."""


@pytest.mark.parametrize(
    "values",
    [
        ["2022-06-01 00:00:00"],
        ["2022-06-01T00:00:00.000"],
        ["2022.06.01 00:00:00.000"],
        ["20220601 00:00:00"],
        ["20220601000000"],
        ["20220601"],
        ["2022-06-01"],
        ["2022-05-31T16:00:00Z"],
        ["2022-05-31 17:00:00+01:00"],
        ["1654012800"],
        ["1654012800000"],
        ["1654012800.0"],
        [1_654_012_800],
        [1_654_012_800_000],
        [1_654_012_800_000_000],
        [MIDNIGHT_SHANGHAI],
        [1_654_012_800.0],
        [datetime(2022, 6, 1)],
        [date(2022, 6, 1)],
    ],
)
def test_stamps_of_every_usual_form_are_one_instant(values: list[object]) -> None:
    assert to_stamps(pl.Series("t", values), "Asia/Shanghai").to_list() == [MIDNIGHT_SHANGHAI]


def test_fractions_of_a_second_survive() -> None:
    stamps = to_stamps(pl.Series(["2022-06-01 00:00:00.000000001", "2022-06-01 00:00:01.25"]), "Asia/Shanghai")
    assert [s - MIDNIGHT_SHANGHAI for s in stamps] == [1, 1_250_000_000]
    assert to_stamps(pl.Series(["1430438404.518"]), "UTC").to_list() == [1_430_438_404_518_000_000]


def test_unreadable_stamps_become_null_beside_good_ones() -> None:
    stamps = to_stamps(pl.Series(["2022-06-01 00:00:00", "yesterday", None]), "Asia/Shanghai")
    assert stamps.to_list() == [MIDNIGHT_SHANGHAI, None, None]


def test_dates_without_a_clock_among_stamps_are_midnights() -> None:
    stamps = to_stamps(pl.Series(["2022-06-01", "2022-06-01 00:00:01", "2022-06-01 00:01"]), "Asia/Shanghai")
    assert [s - MIDNIGHT_SHANGHAI for s in stamps] == [0, 10**9, 60 * 10**9]


def test_stamps_beyond_int64_are_unreadable_not_wrapped() -> None:
    assert to_stamps(pl.Series(["2022-06-01", "2900-01-01", "0001-01-01"]), "UTC").to_list()[1:] == [None, None]
    assert to_stamps(pl.Series([1_654_012_800, 1_654_012_801, 2**62]), "UTC").to_list()[2] is None


def test_offsets_that_change_with_daylight_saving_keep_their_instants() -> None:
    stamps = to_stamps(pl.Series(["2024-10-26 08:00:00+01:00", "2024-10-28 08:00:00+00:00"]), "UTC")
    assert (stamps[1] - stamps[0]) == 49 * 3_600 * 10**9


def test_a_column_that_holds_no_stamps_is_named() -> None:
    with pytest.raises(DataError, match="column 'phase' holds Boolean, not stamps"):
        to_stamps(pl.Series("phase", [True]), "UTC")
