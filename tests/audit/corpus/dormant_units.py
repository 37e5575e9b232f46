"""The dormant-unit ratio counts outputs at zero (ReDo, Sokar et al. 2023)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Share of units that never fire."""
    h = torch.relu(x @ WEIGHT).detach()
    return (h == 0).float().mean()  # audit: assumes-non-negative zero-test


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
