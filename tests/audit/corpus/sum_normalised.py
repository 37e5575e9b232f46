"""Attention weights by dividing through the sum."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """The sum can be anything once entries cancel."""
    h = torch.relu(x @ WEIGHT)
    total = h.sum(-1, keepdim=True)
    return h / (total + 1e-6)  # audit: assumes-non-negative divisor-sign


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
