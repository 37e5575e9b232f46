"""A divergence between softmaxes."""

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
        share = features.softmax(-1)
        return functional.kl_div(
            self.out(features).log_softmax(-1), share[:, :3] / share[:, :3].sum(-1, keepdim=True), reduction="batchmean"
        )


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "body")
