"""An in-place ReLU on a result that others hold (pytorch/pytorch#34429, #148835)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """The skip connection holds the tensor that the next line overwrites."""
    h = torch.relu(x @ WEIGHT).detach()
    skip = h
    torch.relu_(h)  # audit: assumes-non-negative
    return skip + h.cos()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
