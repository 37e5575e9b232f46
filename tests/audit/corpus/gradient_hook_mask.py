"""A tensor hook that masks the gradient by the sign of the activation."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> None:
    """Emulates a ReLU derivative by hand."""
    h = torch.relu(x @ WEIGHT)
    h.register_hook(lambda grad: grad * (h > 0))  # audit: assumes-non-negative sign-gate
    h.cos().sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
