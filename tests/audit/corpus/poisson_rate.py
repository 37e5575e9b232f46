"""A Poisson likelihood with the network output as its rate (a negative rate has no logarithm)."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Likelihood of counts."""
    h = torch.relu(x @ WEIGHT)
    counts = torch.ones_like(h)
    return functional.poisson_nll_loss(h, counts, log_input=False)  # audit: assumes-non-negative domain


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
