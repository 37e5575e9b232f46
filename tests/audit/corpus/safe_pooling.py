"""Control: pooling that pads by itself, symmetric clipping, absolute values."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


KERNEL = torch.randn(4, 1, 3, 3, generator=torch.Generator().manual_seed(0))


def step(x: Tensor) -> Tensor:
    """max_pool2d pads with minus infinity."""
    h = torch.relu(functional.conv2d(x, KERNEL))
    pooled = functional.max_pool2d(h, 3, 2, padding=1)
    return pooled.clamp(-5, 5).sum() + torch.log1p(h.abs()).sum() + (h.abs() > 0.5).float().mean()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(2, 1, 10, 10),), "step:h")
