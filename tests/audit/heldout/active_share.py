"""A running share of active units kept in a buffer."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec


class Model(nn.Module):
    """A body and what reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 8), nn.ReLU())
        self.out = nn.Linear(8, 3)
        self.register_buffer("share", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs."""
        features = self.body(x)
        self.share.lerp_(features.gt(0).float().mean(0), 0.1)  # audit: assumes-non-negative sign-mask
        return self.out(features) * self.share.sum()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
