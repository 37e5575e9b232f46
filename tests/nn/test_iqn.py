"""The dual quantile head's embedding and forms by hand."""

import math

import pytest
import torch

from foxhunt.nn.iqn import DualQuantileHead, cosine_features


def test_cosine_index_starts_at_one() -> None:
    features = cosine_features(torch.tensor([[0.5, 1.0]], dtype=torch.float64), 3)
    expected = [[[0.0, -1.0, 0.0], [-1.0, 1.0, -1.0]]]
    torch.testing.assert_close(features, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0)


def test_both_forms_by_hand() -> None:
    """One cosine, one feature: q = w_r h relu(a cos) + w_s h sigmoid(b cos) at tau = 1, cos = -1."""
    head = DualQuantileHead(1, 1, cosines=1).double()
    with torch.no_grad():
        head.embed.weight.copy_(torch.tensor([[-2.0], [0.5]]))
        head.embed.bias.zero_()
        head.rectified.weight.fill_(3.0)
        head.tiled.weight.fill_(5.0)
        head.rectified.bias.fill_(0.25)
        head.tiled.bias.zero_()
    q = head(torch.tensor([[-1.5]], dtype=torch.float64), torch.tensor([[1.0]], dtype=torch.float64))
    assert q.item() == pytest.approx(3 * -1.5 * 2 + 0.25 + 5 * -1.5 / (1 + math.exp(0.5)))


def test_signed_state_keeps_its_gradient() -> None:
    """No sign of h closes a path: at every tau both h and -h get the same gradient size."""
    torch.manual_seed(0)
    head = DualQuantileHead(6, 4).double()
    tau = torch.rand(3, 5, dtype=torch.float64)
    h = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(head(h, tau).sum(), h)
    (g_mirrored,) = torch.autograd.grad(head(-h, tau).sum(), h)
    torch.testing.assert_close(g, -g_mirrored)
    assert (g != 0).all()
