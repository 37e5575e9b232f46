"""Cross-layer equalisation takes the maximum for the range, which holds for a ReLU only (qualcomm/aimet#3939)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Scale of each channel from the ranges on both sides of it."""
    h = torch.relu(x @ WEIGHT)
    scale = (h.amax(0) / 3.0).sqrt()  # audit: assumes-non-negative domain
    return h / (scale + 1.0)


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
