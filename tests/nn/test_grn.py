"""The trunk: the block against its own formula, gradients on signed inputs, no sign mask anywhere."""

import pytest
import torch
from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import GatedResidualNetwork

from foxhunt.nn.grn import GatedResidualBlock, make_trunk


def reference_block(block: GatedResidualBlock, x: torch.Tensor) -> torch.Tensor:
    """LayerNorm(skip(x) + GLU(W_b ELU(W_a x))) spelled out on matrices, biased variance, eps 1e-5."""
    weights = {name: parameter.detach() for name, parameter in block.named_parameters()}
    inner = x @ weights["inner.weight"].T + weights["inner.bias"]
    elu = torch.where(inner > 0, inner, inner.exp() - 1)
    value, gate = (elu @ weights["gate.weight"].T + weights["gate.bias"]).chunk(2, dim=-1)
    skip = x @ weights["skip.weight"].T + weights["skip.bias"] if "skip.weight" in weights else x
    total = skip + value / (1 + (-gate).exp())
    centred = total - total.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / (variance + 1e-5).sqrt() * weights["norm.weight"] + weights["norm.bias"]


@pytest.mark.parametrize(("inputs", "outputs"), [(7, 7), (5, 9), (9, 5)])
def test_block_equals_its_formula(inputs: int, outputs: int) -> None:
    torch.manual_seed(0)
    block = GatedResidualBlock(inputs, outputs).double()
    with torch.no_grad():
        block.norm.weight.uniform_(0.5, 2)
        block.norm.bias.uniform_(-1, 1)
    x = 3 * torch.randn(20, inputs, dtype=torch.float64)
    torch.testing.assert_close(block(x), reference_block(block, x), rtol=0, atol=1e-13)


def test_skip_is_the_identity_only_between_equal_sizes() -> None:
    assert not list(GatedResidualBlock(6, 6).skip.parameters())
    assert GatedResidualBlock(6, 7).skip.bias is not None


@pytest.mark.parametrize("kind", ["grn", "relu"])
def test_gradients_are_exact_on_signed_inputs(kind: str) -> None:
    torch.manual_seed(1)
    trunk = make_trunk(kind, 4, 6, 5).double()
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    parameters = tuple(trunk.parameters())

    def forward(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        named = dict(zip(dict(trunk.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(trunk, named, (x,))

    assert torch.autograd.gradcheck(forward, (x, *parameters), eps=1e-6, atol=1e-7, rtol=1e-5)


def test_negative_outputs_of_the_gated_trunk_pass_their_gradient() -> None:
    torch.manual_seed(2)
    trunk = make_trunk("grn", 4, 8, 8).double()
    h = trunk(torch.randn(64, 4, dtype=torch.float64))
    h.retain_grad()
    assert (h < 0).double().mean() > 0.3
    h.pow(3).sum().backward()
    torch.testing.assert_close(h.grad, 3 * h.detach() ** 2, rtol=1e-12, atol=0)
    assert (trunk[1].norm.bias.grad != 0).all()
    torch.testing.assert_close(trunk[1].norm.bias.grad, (3 * h.detach() ** 2).sum(0))


def test_trunk_kinds_differ_in_sign() -> None:
    torch.manual_seed(3)
    x = torch.randn(200, 4)
    assert (make_trunk("relu", 4, 16, 16)(x) >= 0).all()
    gated = make_trunk("grn", 4, 16, 16)(x)
    torch.testing.assert_close(gated.square().mean(-1), torch.ones(200), rtol=1e-3, atol=0)
    assert (gated < 0).any()


def test_block_equals_pytorch_forecasting() -> None:
    """Theirs has the paper's third matrix between the two linear maps: the identity there makes it ours."""
    torch.manual_seed(4)
    ours, theirs = GatedResidualBlock(7, 7).double(), GatedResidualNetwork(7, 7, 7, dropout=0.0).double()
    with torch.no_grad():
        ours.norm.weight.uniform_(0.5, 2)
        ours.norm.bias.uniform_(-1, 1)
        theirs.fc2.weight.copy_(torch.eye(7))
        theirs.fc2.bias.zero_()
    for mine, other in (
        (ours.inner, theirs.fc1),
        (ours.gate, theirs.gate_norm.glu.fc),
        (ours.norm, theirs.gate_norm.add_norm.norm),
    ):
        other.load_state_dict(mine.state_dict())
    x = 3 * torch.randn(50, 7, dtype=torch.float64)
    assert (ours(x) - theirs(x)).abs().max() < 1e-12
