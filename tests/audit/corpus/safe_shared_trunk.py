"""Control: online and target run one and the same function."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def trunk(x: Tensor, weight: Tensor) -> Tensor:
    """The one producer."""
    return torch.relu(x @ weight)


def step(x: Tensor) -> None:
    """Temporal difference with a target copy of the weights."""
    with torch.no_grad():
        target = trunk(x + 1, WEIGHT.detach().clone()).mean(-1)
    (trunk(x, WEIGHT).mean(-1) - target).square().mean().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "trunk()")
