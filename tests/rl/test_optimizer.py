"""The flat AdamW, clipping and parameter vector against torch's own."""

import pytest
import torch
from torch import nn

from foxhunt.rl.optimizer import AdamW, FlatParameters, clip_gradient


def model(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_equals_torch_adamw_over_a_schedule(weight_decay: float) -> None:
    ours, theirs = model(), model()
    flat = FlatParameters(ours)
    optimizer = AdamW(flat.vector, weight_decay)
    reference = torch.optim.AdamW(theirs.parameters(), lr=1.0, weight_decay=weight_decay)
    generator = torch.Generator().manual_seed(1)
    for step in range(200):
        rate = 1e-2 * (1 - step / 250)
        x = torch.randn(16, 5, dtype=torch.float64, generator=generator)
        reference.param_groups[0]["lr"] = rate
        reference.zero_grad()
        theirs(x).pow(4).mean().backward()
        reference.step()
        gradients = torch.autograd.grad(ours(x).pow(4).mean(), tuple(ours.parameters()))
        optimizer.step(nn.utils.parameters_to_vector(gradients), torch.tensor(rate, dtype=torch.float64))
    expected = nn.utils.parameters_to_vector(theirs.parameters())
    torch.testing.assert_close(flat.vector, expected, rtol=1e-11, atol=1e-13)


def test_first_step_by_hand() -> None:
    """Bias correction makes the first step `learning_rate` long, whatever the gradient's size."""
    parameters = torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64)
    AdamW(parameters, weight_decay=0.5).step(
        torch.tensor([1e3, -1e-3, 0.0], dtype=torch.float64), torch.tensor(0.1, dtype=torch.float64)
    )
    torch.testing.assert_close(parameters, torch.tensor([0.85, 1.05, 0.95], dtype=torch.float64), rtol=1e-4, atol=0)


@pytest.mark.parametrize("size", [0.01, 1.0, 50.0])
def test_clipping_equals_clip_grad_norm(size: float) -> None:
    module = model()
    for parameter in module.parameters():
        parameter.grad = size * torch.randn_like(parameter)
    flat = nn.utils.parameters_to_vector([parameter.grad for parameter in module.parameters()])
    clipped, norm = clip_gradient(flat, largest=2.0)
    expected = nn.utils.clip_grad_norm_(module.parameters(), 2.0)
    torch.testing.assert_close(norm, expected)
    torch.testing.assert_close(clipped, nn.utils.parameters_to_vector([p.grad for p in module.parameters()]))


def test_module_follows_its_vector_and_names_match() -> None:
    module = model()
    flat = FlatParameters(module)
    flat.vector.mul_(2).add_(1)
    pieces = flat.by_name(flat.vector)
    assert list(pieces) == [name for name, _ in module.named_parameters()]
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, pieces[name])
    module.load_state_dict(model(5).state_dict())
    assert torch.equal(flat.vector, nn.utils.parameters_to_vector(model(5).parameters()))


def test_state_round_trip() -> None:
    first, second = torch.ones(4), torch.ones(4)
    a, b = AdamW(first, 0.01), AdamW(second, 0.01)
    rate = torch.tensor(0.1)
    a.step(torch.tensor([1.0, -2.0, 3.0, 0.0]), rate)
    second.copy_(first)
    b.load_state_dict(a.state_dict())
    for optimizer in (a, b):
        optimizer.step(torch.tensor([0.5, 0.5, -1.0, 2.0]), rate)
    assert torch.equal(first, second)
