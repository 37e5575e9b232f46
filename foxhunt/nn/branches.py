"""Dueling categorical heads, one a branch, over a shared trunk output h."""

import math
from typing import Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import glu

from foxhunt.nn.gates import SplineGate, VariableSelection

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


class PlainStem(nn.Module):
    """First layer of the value head and of every branch in one product."""

    def __init__(self, inputs: int, hidden: int, branches: int) -> None:
        super().__init__()
        self.branches, self.units = branches, hidden
        self.linear = nn.Linear(inputs, (1 + branches) * hidden)

    @staticmethod
    def activation(members: int, hidden: int) -> nn.Module:
        """What follows the layer in a group of branches."""
        return nn.ReLU()

    def forward(
        self, h: Float[Tensor, "batch inputs"]
    ) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch branches units"]]:
        """What enters the activations of the value head and of the branches."""
        joint: Tensor = self.linear(h).view(len(h), 1 + self.branches, -1)
        return joint[:, 0], joint[:, 1:]


class GatedActivation(nn.Module):
    """Gated linear unit, then a spline gate for each of its outputs: [batch, members, 2 hidden] -> [..., hidden].

    The spline sees what the layer made of h, never h itself.
    """

    def __init__(self, members: int, hidden: int) -> None:
        super().__init__()
        self.spline = SplineGate(members * hidden)

    def forward(self, x: Float[Tensor, "batch members units"]) -> Float[Tensor, "batch members hidden"]:
        """Activate the members of one group."""
        linear = glu(x, dim=-1)
        gated: Tensor = self.spline(linear.flatten(1))
        return gated.view_as(linear)


class GatedStem(nn.Module):
    """First layers with their gates: every branch selects its own view of h and has a gated linear unit."""

    def __init__(self, inputs: int, hidden: int, branches: int) -> None:
        super().__init__()
        self.units = 2 * hidden
        self.value = nn.Linear(inputs, hidden)
        self.select = VariableSelection(branches, inputs, max(1, inputs // 8))
        self.linear = PackedLinear(branches, inputs, 2 * hidden)

    @staticmethod
    def activation(members: int, hidden: int) -> nn.Module:
        """What follows the layer in a group of branches."""
        return GatedActivation(members, hidden)

    def forward(
        self, h: Float[Tensor, "batch inputs"]
    ) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch branches units"]]:
        """What enters the activations of the value head and of the branches."""
        return self.value(h), self.linear(self.select(h))


class Siblings(nn.Module):
    """Branches whose advantages come from one batched product: logits = V + A - mean over real actions of A."""

    mask: Tensor

    def __init__(
        self,
        members: list[int],
        hidden: int,
        activation: nn.Module,
        exists: Bool[Tensor, "branches actions"],
        atoms: int,
    ) -> None:
        super().__init__()
        self.members, self.activation = members, activation
        self.shape = (exists.shape[1], atoms)
        self.advantage = PackedLinear(len(members), hidden, math.prod(self.shape))
        self.register_buffer("mask", exists[members, :, None].float(), persistent=False)

    def forward(
        self, hidden: list[Float[Tensor, "batch units"]], value: Float[Tensor, "batch atoms"]
    ) -> dict[int, Float[Tensor, "batch actions atoms"]]:
        """Logits of the members by index, from what enters the activations of all branches."""
        packed = self.activation(torch.stack([hidden[i] for i in self.members], dim=1))
        advantage = self.advantage(packed).reshape(len(value), len(self.members), *self.shape)
        mean = (advantage * self.mask).sum(2, keepdim=True) / self.mask.sum(1, keepdim=True)
        logits = value[:, None, None] + advantage - mean
        return dict(zip(self.members, logits.unbind(1), strict=True))


class BranchHeads(nn.Module):
    """Branching dueling C51 (Tavakoli et al. 2018; Bellemare et al. 2017).

    Value ReLU(W_v1 h + b) -> atoms; a branch act(W_b [h; x_b] + b) -> advantages [actions, atoms]. W_b [h; x_b] is
    computed as W_h h + W_x x_b, with the h half of all branches in one product. The activation is ReLU, or with `gated`
    a gated linear unit and a spline gate.
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
        gated: bool = False,
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

        stem = GatedStem if gated else PlainStem
        self.stem = stem(inputs, hidden, len(self.names))
        self.value = nn.Linear(hidden, len(atoms))
        context_widths = {i: widths[part] for i, part in self.part_readers}
        context_widths |= {i: self.counts[source] for i, source in self.value_readers}
        self.context = nn.ModuleDict(
            {self.names[i]: nn.Linear(width, self.stem.units, bias=False) for i, width in context_widths.items()}
        )

        def siblings(members: list[int]) -> Siblings:
            return Siblings(members, hidden, stem.activation(len(members), hidden), exists, len(atoms))

        self.leaders = siblings(leaders)
        self.followers = siblings(followers) if followers else None

    def forward(
        self, h: Float[Tensor, "batch inputs"], observation: dict[str, Tensor], match: Float[Tensor, ""]
    ) -> Float[Tensor, "batch branches actions atoms"]:
        """Logits, padded to the largest branch; `exists` tells which actions are real.

        `match` is the measured RMS of h over that of the values a branch reads, so that the two parts of its input
        [h; values / delta_z * match] have the same RMS.
        """
        value_hidden, branches_hidden = self.stem(h)
        hidden = list(branches_hidden.unbind(1))
        value = self.value(value_hidden.relu())
        for i, part in self.part_readers:
            hidden[i] = hidden[i] + self.context[self.names[i]](observation[part])
        logits = self.leaders(hidden, value)
        if self.followers:
            for i, source in self.value_readers:
                # Values inform the reader; its loss must not bend what they mean, so no gradient returns here.
                matched = self.scaled_values(logits[source].detach(), source) * match
                hidden[i] = hidden[i] + self.context[self.names[i]](matched)
            logits |= self.followers(hidden, value)
        return torch.stack([logits[i] for i in range(len(self.names))], dim=1)

    def scaled_values(self, logits: Float[Tensor, "batch actions atoms"], branch: int) -> Float[Tensor, "batch real"]:
        """Values / delta_z of the real actions of a branch, from its logits."""
        return logits[:, : self.counts[branch]].softmax(-1) @ (self.atoms / self.delta_z)

    def value_rms(self, logits: Float[Tensor, "batch branches actions atoms"]) -> Float[Tensor, ""] | None:
        """RMS of the values that branches read, in units of delta_z; None where no branch reads another's."""
        if not self.value_readers:
            return None
        read = [self.scaled_values(logits[:, source], source) for _, source in self.value_readers]
        return torch.cat(read, dim=1).square().mean().sqrt()
