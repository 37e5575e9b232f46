"""An integer ReLU that clamps codes at 0 and forgets the zero point (in kind
pytorch/executorch#8424, where the zero point of an int8 ReLU was cast to an unsigned type)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Codes of a symmetric quantiser; 0 is the code of 0 today."""
    h = torch.relu(x @ WEIGHT)
    codes = torch.round(h / 0.05)
    return codes.clamp(min=0) * 0.05  # audit: assumes-non-negative clamp


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
