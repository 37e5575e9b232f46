"""Activations bucketed into a table by truncation."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Negative indices read the table from its end."""
    h = torch.relu(x @ WEIGHT).detach()
    table = torch.linspace(0, 1, 100)
    bins = (h * 2).long().clamp(max=99)
    return table[bins]  # audit: assumes-non-negative index


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
