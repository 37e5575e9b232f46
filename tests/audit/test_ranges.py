"""Ranges are read as written, and samples lie in them."""

import math

import pytest
import torch

from foxhunt.audit import AuditError
from foxhunt.audit.ranges import Range


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (">=0", Range(0.0)),
        ("<=0", Range(high=0.0)),
        ("signed", Range()),
        ("signed,rms=1", Range(rms=1.0)),
        ("[0, 1]", Range(0.0, 1.0)),
        ("[-1,2.5],rms=0.5", Range(-1.0, 2.5, 0.5)),
        ("signed, zero-mean", Range(zero_mean=True)),
        (">=-1e-3,<=4", Range(-1e-3, 4.0)),
    ],
)
def test_a_range_is_read(text: str, expected: Range) -> None:
    assert Range.parse(text) == expected


def test_a_strict_bound_leaves_the_bound_out() -> None:
    assert Range.parse(">0").low == math.nextafter(0.0, 1.0)


@pytest.mark.parametrize("text", ["", "positive", ">=1,<=0", "rms=0", "[1,0]", "[0,1"])
def test_nonsense_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(AuditError, match="range"):
        Range.parse(text)


@pytest.mark.parametrize("text", [">=0", ">0", "<=0", "signed", "[0,1]", "[-2,-1]", ">=3", "signed,rms=4", ">=0,rms=2"])
def test_samples_lie_in_their_range(text: str) -> None:
    held = Range.parse(text)
    sample = held.sample(torch.zeros(64, 32), 1, rms=1.5)
    assert held.low <= float(sample.min())
    assert float(sample.max()) <= held.high
    assert held.holds(sample)
    if text in (">=0", "signed"):
        assert float(sample.square().mean().sqrt()) == pytest.approx(1.5, rel=1e-5)
    if held.rms:
        assert float(sample.square().mean().sqrt()) == pytest.approx(held.rms, rel=1e-5)


def test_a_sample_at_zero_has_the_exact_zeros_of_a_relu() -> None:
    sample = Range(0.0).sample(torch.zeros(1000), 1, rms=1.0)
    assert 0.4 < float((sample == 0).float().mean()) < 0.6


def test_zero_mean_rows_average_to_zero_and_the_negative_twin_is_negative() -> None:
    like = torch.zeros(8, 16, dtype=torch.float64)
    rows = Range.parse("signed,zero-mean").sample(like, 1, rms=1.0)
    torch.testing.assert_close(rows.mean(-1), torch.zeros(8, dtype=torch.float64), atol=1e-12, rtol=0)
    assert float(Range().sample(like, 1, rms=1.0, negative=True).max()) <= 0


def test_holding_asks_for_both_signs_and_the_rms() -> None:
    assert not Range().holds(torch.rand(100))
    assert not Range(rms=1.0).holds(3 * torch.randn(1000, generator=torch.Generator().manual_seed(0)))
    assert not Range(0.0).holds(torch.tensor([-1e-3, 1.0]))
