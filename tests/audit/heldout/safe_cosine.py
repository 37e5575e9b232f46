"""Cosine similarities to prototypes."""

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
        self.register_buffer("prototypes", torch.randn(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs."""
        features = self.body(x)
        return functional.cosine_similarity(features.unsqueeze(1), self.prototypes, dim=-1)


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
