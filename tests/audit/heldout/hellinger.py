"""A Hellinger distance to a buffer of prototypes, in a helper."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec


def hellinger(one: Tensor, other: Tensor) -> Tensor:
    """Distance between two weightings."""
    return (one.clamp_min(0).sqrt() - other.sqrt()).square().sum(-1)  # audit: assumes-non-negative clamp


class Model(nn.Module):
    """A body and what reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 8), nn.ReLU())
        self.out = nn.Linear(8, 3)
        self.register_buffer("prototypes", torch.rand(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs."""
        features = self.body(x)
        return hellinger(features.unsqueeze(1), self.prototypes)


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
