"""A raw network output as the standard deviation (ml-research/NeSyXIL#2, pytorch/pytorch#49998)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Sample around zero."""
    h = torch.relu(x @ WEIGHT).detach()
    return torch.normal(torch.zeros_like(h), h)  # audit: assumes-non-negative deviation


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
