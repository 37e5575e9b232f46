"""Activations exported as bytes."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Scale to 0..255 and drop the sign."""
    h = torch.relu(x @ WEIGHT)
    return (h * 20).to(torch.uint8)  # audit: assumes-non-negative unsigned-cast


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
