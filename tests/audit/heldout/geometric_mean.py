"""A geometric mean over channels in log space."""

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
        return torch.exp(torch.log(features + 1e-4).mean(-1))  # audit: assumes-non-negative domain


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
