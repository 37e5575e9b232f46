"""Dueling categorical heads, one a branch, over a shared trunk output h."""

import math
from typing import Final, cast

import torch
from jaxtyping import Bool, Float
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


class Siblings(nn.Module):
    """Branches whose advantages come from one batched product: logits = V + A - mean over real actions of A."""

    mask: Tensor

    def __init__(self, members: list[int], hidden: int, exists: Bool[Tensor, "branches actions"], atoms: int) -> None:
        super().__init__()
        self.members = members
        self.shape = (exists.shape[1], atoms)
        self.advantage = PackedLinear(len(members), hidden, math.prod(self.shape))
        self.register_buffer("mask", exists[members, :, None].float(), persistent=False)

    def forward(
        self, hidden: list[Float[Tensor, "batch hidden"]], value: Float[Tensor, "batch atoms"]
    ) -> dict[int, Float[Tensor, "batch actions atoms"]]:
        """Logits of the members by index, from the hidden features of all branches."""
        packed = torch.stack([hidden[i] for i in self.members], dim=1).relu()
        advantage = self.advantage(packed).reshape(len(value), len(self.members), *self.shape)
        mean = (advantage * self.mask).sum(2, keepdim=True) / self.mask.sum(1, keepdim=True)
        logits = value[:, None, None] + advantage - mean
        return dict(zip(self.members, logits.unbind(1), strict=True))


class BranchHeads(nn.Module):
    """Branching dueling C51 (Tavakoli et al. 2018; Bellemare et al. 2017).

    Value ReLU(W_v1 h + b) -> atoms; a branch ReLU(W_b [h; x_b] + b) -> advantages [actions, atoms]. W_b [h; x_b] is
    computed as W_h h + W_x x_b, with the h half of all branches and of the value in one product.
    """

    atoms: Tensor
    exists: Tensor

    def __init__(
        self,
        inputs: int,
        hidden: int,
        branches: tuple[tuple[str, int], ...],
        widths: dict[str, int],
        atoms: Float[Tensor, " atoms"],
    ) -> None:
        super().__init__()
        self.names = [name for name, _ in branches]
        self.counts = [count for _, count in branches]
        self.delta_z = float((atoms[-1] - atoms[0]) / (len(atoms) - 1))
        exists = torch.arange(max(self.counts)) < torch.tensor(self.counts)[:, None]
        self.register_buffer("atoms", atoms, persistent=False)
        self.register_buffer("exists", exists, persistent=False)
        sources = {i: CONTEXT[name] for i, name in enumerate(self.names) if name in CONTEXT}
        self.part_readers = [(i, part) for i, part in sources.items() if part in widths]
        self.value_readers = [(i, self.names.index(name)) for i, name in sources.items() if name in self.names]
        followers = [i for i, _ in self.value_readers]
        leaders = [i for i in range(len(self.names)) if i not in followers]

        self.inner = nn.Linear(inputs, (1 + len(self.names)) * hidden)
        self.value = nn.Linear(hidden, len(atoms))
        context_widths = {i: widths[part] for i, part in self.part_readers}
        context_widths |= {i: self.counts[source] for i, source in self.value_readers}
        self.context = nn.ModuleDict(
            {self.names[i]: nn.Linear(width, hidden, bias=False) for i, width in context_widths.items()}
        )
        self.match = nn.ModuleDict({self.names[i]: RmsMatch() for i in followers})
        self.leaders = Siblings(leaders, hidden, exists, len(atoms))
        self.followers = Siblings(followers, hidden, exists, len(atoms)) if followers else None

    def forward(
        self, h: Float[Tensor, "batch inputs"], observation: dict[str, Tensor]
    ) -> Float[Tensor, "batch branches actions atoms"]:
        """Logits, padded to the largest branch; `exists` tells which actions are real."""
        inner = self.inner(h).unflatten(-1, (1 + len(self.names), -1))
        value = self.value(inner[:, 0].relu())
        hidden = list(inner[:, 1:].unbind(1))
        for i, part in self.part_readers:
            hidden[i] = hidden[i] + self.context[self.names[i]](observation[part])
        logits = self.leaders(hidden, value)
        if self.followers:
            for i, source in self.value_readers:
                # Values inform the reader; its loss must not bend what they mean, so no gradient returns here.
                matched = self.match[self.names[i]](self.scaled_values(logits[source].detach(), source))
                hidden[i] = hidden[i] + self.context[self.names[i]](matched)
            logits |= self.followers(hidden, value)
        return torch.stack([logits[i] for i in range(len(self.names))], dim=1)

    def scaled_values(self, logits: Float[Tensor, "batch actions atoms"], branch: int) -> Float[Tensor, "batch real"]:
        """Values / delta_z of the real actions of a branch, from its logits."""
        return logits[:, : self.counts[branch]].softmax(-1) @ (self.atoms / self.delta_z)

    @torch.no_grad()
    def measure(self, h: Float[Tensor, "batch inputs"], logits: Float[Tensor, "batch branches actions atoms"]) -> None:
        """Update the measured RMS from one training batch; nothing to do when no branch reads another's values."""
        for i, source in self.value_readers:
            match = cast(RmsMatch, self.match[self.names[i]])
            match.measure(h, self.scaled_values(logits[:, source], source))
