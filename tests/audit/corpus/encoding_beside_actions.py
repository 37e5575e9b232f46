"""A normalised encoding joined with raw actions of another scale."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor, actions: Tensor) -> Tensor:
    """Actions were scaled to the ReLU features."""
    h = torch.relu(x @ (20 * WEIGHT))
    return torch.cat([h, actions], -1)  # audit: needs-verification scale


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8), 30 * torch.randn(16, 2)), "step:h", becomes="signed,rms=1")
