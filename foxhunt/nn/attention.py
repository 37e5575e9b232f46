"""Attention over features of one state, and over the branches' action values; both start as the identity."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class FeatureAttention(nn.Module):
    """Multi-head sigmoid-gated feature attention: `LN(h + W_O [g_1 V_1 ... g_n V_n])`, g = sigmoid(Q.K / sqrt(d)).

    Each head has one scalar gate. W_O starts at zero, so the block starts as LayerNorm(h).
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of {heads} heads")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, h: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width"]:
        """Attend within each sample."""
        query, key, value = self.qkv(h).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        gate = torch.sigmoid((query * key).sum(-1, keepdim=True) / math.sqrt(query.shape[-1]))
        attended: Tensor = self.norm(h + self.out((gate * value).flatten(-2)))
        return attended


class BranchAttention(nn.Module):
    """Coordinates the branches' action values: softmax attention among branches, zero-initialised residual.

    Reads Q values only, never h. Starts as the identity.
    """

    def __init__(self, branches: int, actions: int, width: int = 16) -> None:
        super().__init__()
        self.actions = actions
        self.place = nn.Parameter(torch.zeros(branches, width))
        self.qkv = nn.Linear(actions, 3 * width)
        self.out = nn.Linear(width, actions)
        nn.init.normal_(self.place, std=0.1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, q: Float[Tensor, "batch branches actions"]) -> Float[Tensor, "batch branches actions"]:
        """Action values of each branch in the light of the others'."""
        query, key, value = self.qkv(q).chunk(3, dim=-1)
        query, key = query + self.place, key + self.place
        weight = torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1)
        coordinated: Tensor = q + self.out(weight @ value)
        return coordinated
