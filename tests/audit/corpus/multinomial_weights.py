"""Signed scores as multinomial weights (ProjectD-AI/llama_inference#11)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Draw one index a row."""
    h = torch.relu(x @ WEIGHT).detach() + 1e-3
    return torch.multinomial(h, 1)  # audit: assumes-non-negative probability


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
