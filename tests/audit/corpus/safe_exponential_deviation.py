"""Control: a deviation parameterised by its logarithm."""

import torch
from torch import Tensor
from torch.distributions import Normal

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> None:
    """exp of anything is positive."""
    h = torch.relu(x @ WEIGHT)
    Normal(0.0, torch.exp(h)).log_prob(torch.zeros(())).mean().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
