"""The inverse case: a value head that becomes non-negative cannot reach negative returns."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor, returns: Tensor) -> None:
    """Fit values to returns of both signs."""
    h = (x @ WEIGHT)[:, 0]
    functional.mse_loss(h, returns).backward()  # audit: assumes-non-negative unreachable


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8), torch.randn(16)), "step:h", assume="signed", becomes=">=0")
