"""Inverse-transform sampling from a running sum."""

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
        ladder = features.cumsum(-1)
        point = torch.rand(len(x), 1) * ladder[:, -1:].detach()
        place = torch.searchsorted(ladder, point)  # audit: assumes-non-negative sorted
        return self.out(features).gather(1, place.clamp(0, 2))


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
