"""A kernel that skips zeros and so relies on many exact zeros."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Work on the non-zero entries only."""
    h = torch.relu(x @ WEIGHT).detach()
    rows, columns = torch.nonzero(h, as_tuple=True)  # audit: assumes-non-negative zero-test
    return h[rows, columns].square().sum()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
