"""A categorical distribution over raw features."""

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
        choice = torch.distributions.Categorical(
            probs=features + 1e-3
        ).sample()  # audit: assumes-non-negative probability
        return self.out(features)[torch.arange(len(x)), choice % 3]


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
