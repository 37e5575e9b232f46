"""A maximum over neighbours with zeros at the borders."""

import torch
from torch import Tensor, nn
from torch.nn import functional

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
        wide = functional.pad(features, (1, 1))
        near = torch.stack((wide[:, :-2], wide[:, 1:-1], wide[:, 2:]))
        return self.out(near.amax(0))  # audit: assumes-non-negative zero-fill


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
