"""Power normalisation of a descriptor (signed square root without the sign)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Compress with a power of one half."""
    h = torch.relu(x @ WEIGHT)
    return h**0.5  # audit: assumes-non-negative domain


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
