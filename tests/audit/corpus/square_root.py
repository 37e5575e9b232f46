"""A square root called safe because a ReLU comes before it."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """The epsilon covers rounding, not negative values."""
    h = torch.relu(x @ WEIGHT)
    return torch.sqrt(h + 1e-5)  # audit: assumes-non-negative domain


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
