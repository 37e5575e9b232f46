"""Control: means, dot products, squares, distances."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


def step(x: Tensor) -> None:
    """No operation here has a domain."""
    h = torch.relu(x @ WEIGHT)
    loss = h.mean() + (h @ h.t()).mean() + h.square().sum().sqrt() + (h[1:] - h[:-1]).pow(2).mean()
    (loss + h.std() + h.abs().amax() + (h / (h.norm(dim=-1, keepdim=True) + 1e-6)).sum()).backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
