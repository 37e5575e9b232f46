"""Control: a rate through softplus."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """softplus of anything is positive."""
    h = torch.relu(x @ WEIGHT)
    rate = functional.softplus(h)
    return (
        functional.poisson_nll_loss(rate, torch.ones_like(rate), log_input=False) + torch.poisson(rate.detach()).mean()
    )


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
