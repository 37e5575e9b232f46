"""Control: sigmoid gates, residuals, dropout, history."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


GATE = torch.randn(12, 12, generator=torch.Generator().manual_seed(2))


def step(x: Tensor) -> None:
    """Everything here keeps the sign."""
    h = torch.relu(x @ WEIGHT)
    h = h * torch.sigmoid(h @ GATE)
    h = functional.dropout(h, 0.3)
    history = torch.zeros(3, *h.shape)
    history[-1] = h.detach()
    (h + 0.5 * history.mean(0)).square().sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
