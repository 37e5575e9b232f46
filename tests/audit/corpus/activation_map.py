"""A class activation map whose ReLU leaves nothing of negative maps (jacobgil/pytorch-grad-cam#42, #214)."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> Tensor:
    """Weights are a softmax, so the map keeps the features' sign."""
    h = torch.relu(x @ WEIGHT)
    weights = torch.softmax(x.new_ones(12), 0)
    cam = functional.relu((h * weights).sum(-1))  # audit: assumes-non-negative clamp
    return cam / (cam.max() + 1e-8)


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
