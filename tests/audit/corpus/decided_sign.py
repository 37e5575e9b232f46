"""The inverse case: trading on the sign of an output that has become non-negative."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Long where positive, short elsewhere."""
    h = (x @ WEIGHT)[:, 0]
    return torch.where(h > 0, 1.0, -1.0)  # audit: assumes-non-negative decided


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h", assume="signed", becomes=">0")
