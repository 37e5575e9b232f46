"""A classifier."""

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
        return functional.log_softmax(self.out(features), -1).exp().log1p()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
