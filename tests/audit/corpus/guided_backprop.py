"""Guided backpropagation that hooks ReLU modules alone (utkuozbulak/pytorch-cnn-visualizations#89)."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec

NET = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 3))


def guide(net: nn.Module) -> None:
    """Let only positive gradients through the activations."""
    for module in net.modules():
        if type(module) is nn.ReLU:  # audit: assumes-non-negative activation-type
            module.register_full_backward_hook(lambda module, into, out: (into[0].clamp(min=0),))


def step(x: Tensor) -> None:
    """One guided pass."""
    guide(NET)
    NET(x.requires_grad_()).sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "1", models=NET)
