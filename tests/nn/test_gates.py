"""Gates against scipy, hand-worked numbers and statistics."""

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline
from torch.autograd import gradcheck

from foxhunt.nn.gates import ConditionGate, RegimeDropout, SplineGate, VariableSelection, cubic_basis, uniform_draw


class TestVariableSelection:
    def test_starts_as_half_for_every_reader(self) -> None:
        h = torch.randn(5, 8)
        torch.testing.assert_close(VariableSelection(3, 8, 2)(h), (h / 2)[:, None].expand(5, 3, 8))

    def test_is_a_bottleneck_without_bias(self) -> None:
        """W_1 h = -3 - 2 = -5 for the first reader, 4 for the second."""
        gate = VariableSelection(2, 2, 1).double()
        with torch.no_grad():
            gate.down.weight.copy_(torch.tensor([[1.0, -2.0], [0.0, 4.0]]))
            gate.up.copy_(torch.tensor([[[0.5], [-1.0]], [[0.25], [0.0]]]))
        h = torch.tensor([[-3.0, 1.0]], dtype=torch.float64)
        first = [-3.0 / (1 + np.exp(2.5)), 1.0 / (1 + np.exp(-5.0))]
        second = [-3.0 / (1 + np.exp(-1.0)), 0.5]
        torch.testing.assert_close(gate(h), torch.tensor([[first, second]], dtype=torch.float64))


def test_condition_gate_starts_open_whatever_the_condition() -> None:
    h = torch.randn(4, 6)
    torch.testing.assert_close(ConditionGate(6, 3)(h, torch.randn(4, 3)), h * torch.sigmoid(torch.tensor(2.0)))


class TestSpline:
    @pytest.mark.parametrize(("low", "high", "cells"), [(-3.0, 3.0, 8), (0.0, 1.0, 1), (-1.0, 4.0, 5)])
    def test_basis_equals_scipy_design_matrix(self, low: float, high: float, cells: int) -> None:
        knots = low + (np.arange(cells + 7) - 3) * (high - low) / cells
        x = np.linspace(low, high, 201)
        expected = BSpline.design_matrix(x, knots, 3).toarray()
        cell, basis = cubic_basis(torch.from_numpy(x), low, high, cells)
        ours = torch.zeros(len(x), cells + 3, dtype=torch.float64)
        ours.scatter_(1, cell[:, None] + torch.arange(4), basis)
        np.testing.assert_allclose(ours.numpy(), expected, atol=1e-12)

    def test_basis_sums_to_one_and_clamps(self) -> None:
        cell, basis = cubic_basis(torch.tensor([-100.0, -3.0, 0.1, 3.0, 100.0]), -3.0, 3.0, 8)
        torch.testing.assert_close(basis.sum(-1), torch.ones(5))
        assert cell.tolist() == [0, 0, 4, 7, 7]

    def test_gate_starts_as_half(self) -> None:
        x = torch.randn(3, 5)
        torch.testing.assert_close(SplineGate(5)(x), x / 2)

    def test_each_feature_has_its_own_spline(self) -> None:
        gate = SplineGate(2, cells=4).double()
        with torch.no_grad():
            gate.coefficients[0] = 1.0
            gate.coefficients[1] = -2.0
        value = gate.spline(torch.tensor([[0.3, -1.7]], dtype=torch.float64))
        torch.testing.assert_close(value, torch.tensor([[1.0, -2.0]], dtype=torch.float64))

    def test_gradient_in_float64(self) -> None:
        torch.manual_seed(0)
        gate = SplineGate(3, cells=5).double()
        torch.nn.init.normal_(gate.coefficients)
        x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
        assert gradcheck(lambda x, c: torch.func.functional_call(gate, {"coefficients": c}, (x,)),
                         (x, gate.coefficients.detach().requires_grad_()))  # fmt: skip


class TestRegimeDropout:
    def test_drops_by_instability(self) -> None:
        dropout = RegimeDropout(0.4)
        h = torch.ones(4, 50_000)
        out = dropout(h, torch.tensor([0.0, 0.5, 1.0, 2.0]), torch.tensor(7))
        share = (out == 0).double().mean(1)
        assert share[:2].tolist() == pytest.approx([0.4, 0.2], abs=0.01)
        assert share[2:].tolist() == [0, 0]
        kept = out[0][out[0] != 0]
        torch.testing.assert_close(kept, torch.full_like(kept, 1 / 0.6))
        assert out[0].mean().item() == pytest.approx(1, abs=0.02)

    def test_mask_depends_on_the_seed_alone(self) -> None:
        dropout = RegimeDropout(0.5)
        h = torch.ones(8, 64)
        first, again, other = (dropout(h, torch.zeros(8), torch.tensor(seed)) for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_refuses_rate_one(self) -> None:
        with pytest.raises(ValueError, match=r"\[0, 1\)"):
            RegimeDropout(1.0)


def test_draws_are_uniform_and_uncorrelated_between_seeds() -> None:
    draws = torch.stack([uniform_draw(torch.tensor(seed), (100_000,)) for seed in (0, 1, 2, 1_000_000)])
    assert draws.min() >= 0
    assert draws.max() < 1
    histogram = torch.stack([torch.histc(row, 20, 0, 1) for row in draws])
    chi_squared = ((histogram - 5000) ** 2 / 5000).sum(1)
    assert chi_squared.max() < 45  # 99.9 % quantile at 19 degrees of freedom is 43.8
    correlation = torch.corrcoef(draws) - torch.eye(4)
    assert correlation.abs().max() < 0.015
    lagged = torch.corrcoef(torch.stack([draws[0, :-1], draws[0, 1:]]))[0, 1]
    assert abs(lagged) < 0.015
