"""Control: weights by softmax, drawn from."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """softmax of anything is a distribution."""
    h = torch.relu(x @ WEIGHT)
    weights = torch.softmax(h, -1)
    return torch.multinomial(weights.detach(), 2) + torch.log(weights + 1e-9).sum()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
