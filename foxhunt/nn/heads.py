"""Heads beside the values: how sure, how much, whether at all, and with which plan. All read the trunk's output h."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foxhunt.nn.branches import PackedLinear


class LinearHead(nn.Module):
    """One linear map to one logit: the recursive confidence head and the selectivity head.

    Starts at zero weight, so its first probability is one half everywhere.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, h: Float[Tensor, "batch hidden"]) -> Float[Tensor, " batch"]:
        """Logit of the probability that the head stands for."""
        logit: Tensor = self.linear(h).squeeze(-1)
        return logit


class RiskBudgetHead(nn.Module):
    """Share of the position cap worth risking: `sigmoid(W_o ReLU(W [h; isv; predicted error] + b) + b_o)`."""

    def __init__(self, hidden: int, condition: int, width: int = 32) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden + condition + 1, width)
        self.out = nn.Linear(width, 1)

    def forward(
        self,
        h: Float[Tensor, "batch hidden"],
        isv: Float[Tensor, "batch condition"],
        predicted_error: Float[Tensor, " batch"],
    ) -> Float[Tensor, " batch"]:
        """Fraction in (0, 1)."""
        inner = torch.relu(self.inner(torch.cat((h, isv, predicted_error.unsqueeze(-1)), -1)))
        return torch.sigmoid(self.out(inner).squeeze(-1))


class TradePlan(NamedTuple):
    """What a trade is expected to see; targets and stops in reward units, horizon in decision steps."""

    target: Float[Tensor, " batch"]
    """Favourable excursion worth waiting for."""
    stop: Float[Tensor, " batch"]
    """Adverse excursion beyond which the trade is closed."""
    horizon: Float[Tensor, " batch"]
    """Steps until the favourable peak."""


class TradePlanHead(nn.Module):
    """Two linear layers, ReLU then sigmoid, scaled to the largest plan that can be made."""

    scale: Tensor

    def __init__(self, hidden: int, width: int, largest_excursion: float, largest_horizon: int) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden, width)
        self.out = nn.Linear(width, 3)
        scale = torch.tensor([largest_excursion, largest_excursion, float(largest_horizon)])
        self.register_buffer("scale", scale, persistent=False)

    def forward(self, h: Float[Tensor, "batch hidden"]) -> TradePlan:
        """Plan for a trade in the direction taken."""
        return TradePlan(*(torch.sigmoid(self.out(torch.relu(self.inner(h)))) * self.scale).unbind(-1))


class EnsembleValueHead(nn.Module):
    """Members with the value head's shape, `ReLU(h W_v1 + b) -> atoms`, each with its own weights."""

    def __init__(self, hidden: int, width: int, atoms: int, members: int) -> None:
        super().__init__()
        self.members = members
        self.inner = nn.Linear(hidden, members * width)
        self.out = PackedLinear(members, width, atoms)

    def forward(self, h: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch members atoms"]:
        """Value logits of every member."""
        inner: Tensor = torch.relu(self.inner(h))
        logits: Tensor = self.out(inner.view(len(h), self.members, -1))
        return logits
