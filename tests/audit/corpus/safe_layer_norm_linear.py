"""Control: LayerNorm and a linear layer."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


HEAD = torch.randn(5, 12, generator=torch.Generator().manual_seed(2))


def step(x: Tensor) -> None:
    """Both take either sign."""
    h = torch.relu(x @ WEIGHT)
    functional.linear(functional.layer_norm(h, (12,)), HEAD).relu().square().mean().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
