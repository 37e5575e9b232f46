"""Both attentions start as the identity and compute what they say."""

import math

import pytest
import torch
from torch.nn import functional

from foxhunt.nn.attention import BranchAttention, FeatureAttention


class TestFeatureAttention:
    def test_starts_as_layer_norm(self) -> None:
        h = torch.randn(7, 12) * 3 - 1
        torch.testing.assert_close(FeatureAttention(12, 4)(h), functional.layer_norm(h, (12,)))

    def test_one_scalar_gate_a_head(self) -> None:
        """Two heads of width 1: the gate of each is the sigmoid of its own query times key."""
        block = FeatureAttention(2, 2).double()
        with torch.no_grad():
            block.qkv.weight.copy_(torch.cat([torch.eye(2), 2 * torch.eye(2), 3 * torch.eye(2)]))
            block.qkv.bias.zero_()
            block.out.weight.copy_(torch.eye(2))
        h = torch.tensor([[1.0, -0.5]], dtype=torch.float64)
        gates = [1 / (1 + math.exp(-2.0)), 1 / (1 + math.exp(-0.5))]
        before_norm = torch.tensor([[1 + gates[0] * 3, -0.5 + gates[1] * -1.5]], dtype=torch.float64)
        torch.testing.assert_close(block(h), functional.layer_norm(before_norm, (2,)))

    def test_refuses_heads_that_do_not_divide(self) -> None:
        with pytest.raises(ValueError, match="multiple of 5"):
            FeatureAttention(12, 5)


class TestBranchAttention:
    def test_starts_as_identity(self) -> None:
        q = torch.randn(3, 4, 3)
        torch.testing.assert_close(BranchAttention(4, 3)(q), q)

    def test_coordinates_branches(self) -> None:
        """After a step away from its start, one branch's values depend on another branch's."""
        torch.manual_seed(0)
        block = BranchAttention(4, 3).double()
        torch.nn.init.normal_(block.out.weight)
        q = torch.randn(1, 4, 3, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(block, q).reshape(12, 12)
        assert jacobian[:3, 3:].abs().max() > 1e-3

    def test_learns_a_joint_correction(self) -> None:
        """Branch 0 is to gain branch 1's mean value; without looking across, the loss stays at its start."""
        torch.manual_seed(1)
        block = BranchAttention(2, 3)
        optimizer = torch.optim.Adam(block.parameters(), 1e-2)
        losses = []
        for _ in range(600):
            q = torch.randn(128, 2, 3)
            target = q.clone()
            target[:, 0, 0] += q[:, 1].mean(-1)
            loss = functional.mse_loss(block(q), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(1 / 18, rel=0.5)
        assert losses[-1] < losses[0] / 2
