"""Only active units pass."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Scale the active ones."""
    h = torch.relu(x @ WEIGHT)
    return h * (h > 0) * 2.0  # audit: assumes-non-negative sign-mask


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
