"""Sampling by binary search over cumulated priorities."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """The cumulative sum must not fall."""
    h = torch.relu(x @ WEIGHT).detach().flatten()
    edges = h.cumsum(0)
    return torch.searchsorted(edges, torch.rand(5))  # audit: assumes-non-negative sorted


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
