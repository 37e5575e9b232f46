"""A scale parameter straight from the features."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec


class Model(nn.Module):
    """A body and what reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 8), nn.ReLU())
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs."""
        features = self.body(x)
        scale = features.mean(-1, keepdim=True) + 0.01
        noise = torch.normal(torch.zeros_like(scale), scale)  # audit: assumes-non-negative deviation
        return self.out(features) + noise


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
