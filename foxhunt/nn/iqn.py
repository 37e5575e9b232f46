"""Implicit quantile network, dual form: the state meets the quantile by `h * ReLU(embed)` and by `h * sigmoid(embed)`.

Source: Dabney et al. 2018 (IQN). Pinned here: cosine index 1..n; both forms read the same h and the head
adds their linear maps.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def cosine_features(tau: Float[Tensor, "batch samples"], count: int) -> Float[Tensor, "batch samples count"]:
    """cos(pi * i * tau) for i = 1..count."""
    index = torch.arange(1, count + 1, device=tau.device, dtype=tau.dtype)
    return torch.cos(math.pi * index * tau.unsqueeze(-1))


class DualQuantileHead(nn.Module):
    """Quantiles of the return of every action of every branch at given tau.

    The rectified form is `h * ReLU(W_r cos + b_r)`, the tiled form `h * sigmoid(W_s cos + b_s)`; each has its own
    linear map to the actions, and the head adds the two.
    """

    def __init__(self, hidden: int, actions: int, cosines: int = 64) -> None:
        super().__init__()
        self.cosines = cosines
        self.embed = nn.Linear(cosines, 2 * hidden)
        self.rectified = nn.Linear(hidden, actions)
        self.tiled = nn.Linear(hidden, actions)

    def forward(
        self, h: Float[Tensor, "batch hidden"], tau: Float[Tensor, "batch samples"]
    ) -> Float[Tensor, "batch samples actions"]:
        """Quantile of each action's return at each tau."""
        rectified, tiled = self.embed(cosine_features(tau, self.cosines)).chunk(2, -1)
        state = h.unsqueeze(1)
        quantiles: Tensor = self.rectified(state * torch.relu(rectified)) + self.tiled(state * torch.sigmoid(tiled))
        return quantiles
