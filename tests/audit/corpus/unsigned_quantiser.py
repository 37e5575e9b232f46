"""An unsigned 8-bit quantiser, which a hard-swish overflows (the reason for LSQ+, Bhalgat et al. 2020)."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Quantise with a zero point of 0."""
    h = torch.relu(x @ WEIGHT)
    return torch.fake_quantize_per_tensor_affine(h, 0.02, 0, 0, 255)  # audit: assumes-non-negative unsigned-cast


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
