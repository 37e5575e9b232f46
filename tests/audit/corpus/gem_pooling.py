"""GeM pooling clamps before the power (filipradenovic/cnnimageretrieval-pytorch#73)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Generalised mean over the batch."""
    h = torch.relu(x @ WEIGHT)
    return h.clamp(min=1e-6).pow(3).mean(0).pow(1 / 3)  # audit: assumes-non-negative clamp


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
