"""The same through torch.distributions, which raises on a negative scale."""

import torch
from torch import Tensor
from torch.distributions import Normal

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Log-likelihood under the predicted scale."""
    h = torch.relu(x @ WEIGHT) + 1e-3
    return Normal(0.0, h).log_prob(x.new_zeros(())).sum()  # audit: assumes-non-negative


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
