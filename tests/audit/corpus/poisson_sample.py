"""Counts drawn with the network output as their rate."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Draw counts."""
    h = torch.relu(x @ WEIGHT).detach()
    return torch.poisson(h)  # audit: assumes-non-negative probability


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
