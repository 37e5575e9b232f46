"""A geometric mean."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Mean, then logarithm."""
    h = torch.relu(x @ WEIGHT)
    mean = h.mean(-1) + 1e-6
    return torch.log(mean)  # audit: assumes-non-negative domain


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
