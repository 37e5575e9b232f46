"""Max pooling after padding with zeros (pytorch/pytorch#41294)."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


KERNEL = torch.randn(4, 1, 3, 3, generator=torch.Generator().manual_seed(0))


def step(x: Tensor) -> Tensor:
    """Zero is the neutral element of the maximum for non-negative maps only."""
    h = torch.relu(functional.conv2d(x, KERNEL))
    padded = functional.pad(h, (1, 1, 1, 1))
    return functional.max_pool2d(padded, 3, 2)  # audit: assumes-non-negative zero-fill


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(2, 1, 10, 10),), "step:h")
