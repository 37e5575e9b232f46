"""DeepLift- and LRP-like rules keyed on the type of a module (meta-pytorch/captum#1082)."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec

NET = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 3))


def relevance(module: nn.Module, grad: Tensor, output: Tensor) -> Tensor:
    """The rescale rule for ReLU, the gradient for everything else."""
    if isinstance(module, nn.ReLU):  # audit: assumes-non-negative activation-type
        return grad * output
    return grad


def step(x: Tensor) -> Tensor:
    """Walk the network backwards through its rules."""
    y = NET(x)
    grad = torch.ones_like(y) @ NET[2].weight
    return relevance(NET[1], grad, grad.detach())


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "1", models=NET)
