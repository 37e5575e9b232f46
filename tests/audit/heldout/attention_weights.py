"""Attention weights normalised by their sum in a submodule."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec


class Pool(nn.Module):
    """Weighted mean over the batch."""

    def forward(self, values: Tensor) -> Tensor:
        """Rows weighted by their own size."""
        total = values.sum(0, keepdim=True)
        weights = values / total.add(1e-8)  # audit: assumes-non-negative divisor-sign
        return (weights * values).sum(0)


class Model(nn.Module):
    """A body and what reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 8), nn.ReLU())
        self.out = nn.Linear(8, 3)
        self.pool = Pool()

    def forward(self, x: Tensor) -> Tensor:
        """Outputs."""
        features = self.body(x)
        return self.out(self.pool(features))


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
