"""A checkpointed block with an in-place ReLU, which also runs when it is recomputed
(pytorch/pytorch#26546: gradients that such a block loses)."""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def block(x: Tensor) -> Tensor:
    """Runs twice: in the forward pass and again in the backward pass."""
    h = (x @ WEIGHT).abs()
    h.relu_()  # audit: assumes-non-negative clamp
    return h.sin()


def step(x: Tensor) -> None:
    """One forward and backward pass."""
    checkpoint(block, x.requires_grad_(), use_reentrant=False).sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "block:h")
