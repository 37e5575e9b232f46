"""Dueling categorical heads, one a branch, over a shared trunk output h."""

import math
from typing import Final, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

CONTEXT: Final = {"magnitude": "direction", "order": "ofi3", "urgency": "ofi3"}
"""What a branch reads beside h: the values of another branch, or a part of the observation. Branches of other names
read h alone, as does a branch whose source is absent."""


class PackedLinear(nn.Module):
    """Sibling linear layers run as one batched product: [*, siblings, inputs] -> [*, siblings, outputs]."""

    def __init__(self, siblings: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(siblings, outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(siblings, outputs).uniform_(-bound, bound))

    def forward(self, x: Float[Tensor, "batch siblings inputs"]) -> Float[Tensor, "batch siblings outputs"]:
        """Apply sibling i to x[:, i]."""
        return torch.baddbmm(self.bias[:, None], x.transpose(0, 1), self.weight.transpose(1, 2)).transpose(0, 1)


class RmsMatch(nn.Module):
    """Brings a branch's values, in units of delta_z, to the RMS of h, both measured: no tuned constant.

    The two mean squares are exponential moving averages (a plain mean over the first 1/rate measurements, so that
    the start is unbiased), kept in buffers and therefore in checkpoints. They move only in `measure`.
    """

    mean_square: Tensor
    measurements: Tensor

    def __init__(self, rate: float = 0.01) -> None:
        super().__init__()
        self.rate = rate
        self.register_buffer("mean_square", torch.ones(2))
        self.register_buffer("measurements", torch.zeros(()))

    def forward(self, scaled_values: Float[Tensor, "batch actions"]) -> Float[Tensor, "batch actions"]:
        """Values / delta_z -> the same with the RMS of h."""
        square_h, square_values = self.mean_square.unbind()
        return scaled_values * (square_h / square_values.clamp(min=1e-12)).sqrt()

    @torch.no_grad()
    def measure(self, h: Float[Tensor, "batch hidden"], scaled_values: Float[Tensor, "batch actions"]) -> None:
        """Take one batch into the averages; no host sync."""
        self.measurements.add_(1)
        weight = (1 / self.measurements).clamp(min=self.rate)
        self.mean_square.lerp_(torch.stack([h.square().mean(), scaled_values.square().mean()]), weight)


class BranchHeads(nn.Module):
    """Branching dueling C51 (Tavakoli et al. 2018; Bellemare et al. 2017).

    Value ReLU(W_v1 h + b) -> atoms; a branch ReLU(W_b [h; x_b] + b) -> advantages [actions, atoms];
    logits = V + A_b - mean over actions of A_b. W_b [h; x_b] is computed as W_h h + W_x x_b, with the h half of all
    branches and of the value in one product.
    """

    atoms: Tensor
    exists: Tensor
    leader_mask: Tensor
    follower_mask: Tensor

    def __init__(
        self,
        inputs: int,
        hidden: int,
        branches: tuple[tuple[str, int], ...],
        widths: dict[str, int],
        atoms: Float[Tensor, " atoms"],
    ) -> None:
        super().__init__()
        names = [name for name, _ in branches]
        actions = torch.tensor([count for _, count in branches])
        self.shape = (int(actions.max()), len(atoms))
        self.delta_z = float((atoms[-1] - atoms[0]) / (len(atoms) - 1))
        self.register_buffer("atoms", atoms, persistent=False)
        self.register_buffer("exists", torch.arange(self.shape[0]) < actions[:, None], persistent=False)
        self.source_of = {i: CONTEXT[n] for i, n in enumerate(names) if CONTEXT.get(n) in {*widths, *names}}
        self.followers = [i for i, source in self.source_of.items() if source in names]
        self.leaders = [i for i in range(len(names)) if i not in self.followers]
        self.names, self.actions = names, actions.tolist()
        mask = self.exists[..., None].float()
        self.register_buffer("leader_mask", mask[self.leaders], persistent=False)
        self.register_buffer("follower_mask", mask[self.followers], persistent=False)

        self.inner = nn.Linear(inputs, (1 + len(names)) * hidden)
        self.value = nn.Linear(hidden, len(atoms))
        self.lead = PackedLinear(len(self.leaders), hidden, math.prod(self.shape))
        self.context = nn.ModuleDict()
        for i, source in self.source_of.items():
            width = widths[source] if source in widths else self.actions[names.index(source)]
            self.context[names[i]] = nn.Linear(width, hidden, bias=False)
        if self.followers:
            self.follow = PackedLinear(len(self.followers), hidden, math.prod(self.shape))
            self.match = nn.ModuleDict({names[i]: RmsMatch() for i in self.followers})

    def forward(
        self, h: Float[Tensor, "batch inputs"], observation: dict[str, Tensor]
    ) -> Float[Tensor, "batch branches actions atoms"]:
        """Logits, padded to the largest branch; `exists` tells which actions are real."""
        value_hidden, *hidden = self.inner(h).unflatten(-1, (1 + len(self.names), -1)).unbind(1)
        value = self.value(value_hidden.relu())
        for i in self.leaders:
            if i in self.source_of:
                hidden[i] = hidden[i] + self.context[self.names[i]](observation[self.source_of[i]])
        lead = self._dueling(self.lead(self._pack(hidden, self.leaders)), value, self.leader_mask)
        logits = dict(zip(self.leaders, lead, strict=True))
        if self.followers:
            for i in self.followers:
                # Values inform the follower; its loss must not bend what they mean, so no gradient returns here.
                source = logits[self.names.index(self.source_of[i])]
                matched = self.match[self.names[i]](self.scaled_values(i, source.detach()))
                hidden[i] = hidden[i] + self.context[self.names[i]](matched)
            follow = self._dueling(self.follow(self._pack(hidden, self.followers)), value, self.follower_mask)
            logits |= zip(self.followers, follow, strict=True)
        return torch.stack([logits[i] for i in range(len(self.names))], dim=1)

    def scaled_values(self, follower: int, logits: Float[Tensor, "batch actions atoms"]) -> Float[Tensor, "batch real"]:
        """Values / delta_z of the branch that a follower reads, real actions only."""
        count = self.actions[self.names.index(self.source_of[follower])]
        return logits[:, :count].softmax(-1) @ (self.atoms / self.delta_z)

    @torch.no_grad()
    def measure(self, h: Float[Tensor, "batch inputs"], logits: Float[Tensor, "batch branches actions atoms"]) -> None:
        """Update the measured RMS from one training batch; nothing to do when no branch reads another's values."""
        for i in self.followers:
            match = cast(RmsMatch, self.match[self.names[i]])
            match.measure(h, self.scaled_values(i, logits[:, self.names.index(self.source_of[i])]))

    @staticmethod
    def _pack(hidden: list[Tensor], members: list[int]) -> Tensor:
        return torch.stack([hidden[i] for i in members], dim=1).relu()

    def _dueling(self, packed: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        advantage = packed.reshape(*packed.shape[:2], *self.shape)
        mean = (advantage * mask).sum(2, keepdim=True) / mask.sum(1, keepdim=True)
        return (value[:, None, None] + advantage - mean).unbind(1)
