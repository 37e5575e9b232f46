"""A quantised copy of a block that hard-codes its own activation."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def encode(x: Tensor) -> Tensor:
    """The block that is going to change."""
    return torch.relu(x @ WEIGHT)


def encode_quantised(x: Tensor) -> Tensor:
    """Its low-precision copy."""
    codes = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)
    return torch.relu(codes @ WEIGHT)  # audit: assumes-non-negative duplicate-producer


def step(x: Tensor) -> Tensor:
    """Both paths, as a calibration run has them."""
    return encode(x) - encode_quantised(x)


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), ("encode()", "encode_quantised()"))
