"""Max over a sequence whose padding is filled with zeros."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor, padding: Tensor) -> Tensor:
    """Padding should lose the maximum, and wins it against negative entries."""
    h = torch.relu(x @ WEIGHT)
    filled = h.masked_fill(padding, 0.0)
    return filled.amax(1)  # audit: assumes-non-negative zero-fill


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(4, 6, 8), torch.arange(6)[None, :, None].expand(4, 6, 1) > 3), "step:h")
