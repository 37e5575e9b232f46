"""Control: entries less their own minimum."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """v - min(v) + eps is positive whatever v is."""
    h = torch.relu(x @ WEIGHT)
    return torch.log(h - h.amin() + 1e-3) + torch.sqrt(h - h.amin(-1, keepdim=True))


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
