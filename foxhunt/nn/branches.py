"""Dueling categorical heads, one a branch, over a shared trunk output h."""

import math
from typing import Final

import torch
from jaxtyping import Float
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
    """First layer of the value head and of every branch in one product, ReLU after it."""

    def __init__(self, inputs: int, hidden: int, branches: int, groups: list[int]) -> None:
        super().__init__()
        self.branches, self.units = branches, hidden
        self.linear = nn.Linear(inputs, (1 + branches) * hidden)
        self.activations = nn.ModuleList(nn.ReLU() for _ in groups)

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

    def __init__(self, inputs: int, hidden: int, branches: int, groups: list[int]) -> None:
        super().__init__()
        self.units = 2 * hidden
        self.value = nn.Linear(inputs, hidden)
        self.select = VariableSelection(branches, inputs, max(1, inputs // 8))
        self.linear = PackedLinear(branches, inputs, 2 * hidden)
        self.activations = nn.ModuleList(GatedActivation(members, hidden) for members in groups)

    def forward(
        self, h: Float[Tensor, "batch inputs"]
    ) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch branches units"]]:
        """What enters the activations of the value head and of the branches."""
        return self.value(h), self.linear(self.select(h))


class BranchHeads(nn.Module):
    """Branching dueling C51 (Tavakoli et al. 2018; Bellemare et al. 2017).

    Value ReLU(W_v1 h + b) -> atoms; a branch act(W_b [h; x_b] + b) -> advantages [actions, atoms];
    logits = V + A_b - mean over actions of A_b. W_b [h; x_b] is computed as W_h h + W_x x_b, with the h half of all
    branches in one product. The activation is ReLU, or with `gated` a gated linear unit and a spline gate.
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
        gated: bool = False,
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

        groups = [len(group) for group in (self.leaders, self.followers) if group]
        self.stem = (GatedStem if gated else PlainStem)(inputs, hidden, len(names), groups)
        self.value = nn.Linear(hidden, len(atoms))
        self.lead = PackedLinear(len(self.leaders), hidden, math.prod(self.shape))
        self.context = nn.ModuleDict()
        for i, source in self.source_of.items():
            width = widths[source] if source in widths else self.actions[names.index(source)]
            self.context[names[i]] = nn.Linear(width, self.stem.units, bias=False)
        if self.followers:
            self.follow = PackedLinear(len(self.followers), hidden, math.prod(self.shape))

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
        for i in self.leaders:
            if i in self.source_of:
                hidden[i] = hidden[i] + self.context[self.names[i]](observation[self.source_of[i]])
        lead = self._dueling(self.lead(self._activate(hidden, 0, self.leaders)), value, self.leader_mask)
        logits = dict(zip(self.leaders, lead, strict=True))
        if self.followers:
            for i in self.followers:
                # Values inform the follower; its loss must not bend what they mean, so no gradient returns here.
                source = logits[self.names.index(self.source_of[i])]
                matched = self.scaled_values(i, source.detach()) * match
                hidden[i] = hidden[i] + self.context[self.names[i]](matched)
            follow = self._dueling(self.follow(self._activate(hidden, 1, self.followers)), value, self.follower_mask)
            logits |= zip(self.followers, follow, strict=True)
        return torch.stack([logits[i] for i in range(len(self.names))], dim=1)

    def scaled_values(self, follower: int, logits: Float[Tensor, "batch actions atoms"]) -> Float[Tensor, "batch real"]:
        """Values / delta_z of the branch that a follower reads, real actions only."""
        count = self.actions[self.names.index(self.source_of[follower])]
        return logits[:, :count].softmax(-1) @ (self.atoms / self.delta_z)

    def value_rms(self, logits: Float[Tensor, "batch branches actions atoms"]) -> Float[Tensor, ""] | None:
        """RMS of the values that followers read, in units of delta_z; None where no branch reads another's."""
        if not self.followers:
            return None
        read = [self.scaled_values(i, logits[:, self.names.index(self.source_of[i])]) for i in self.followers]
        return torch.cat(read, dim=1).square().mean().sqrt()

    def _activate(self, hidden: list[Tensor], group: int, members: list[int]) -> Tensor:
        activated: Tensor = self.stem.activations[group](torch.stack([hidden[i] for i in members], dim=1))
        return activated

    def _dueling(self, packed: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        advantage = packed.reshape(*packed.shape[:2], *self.shape)
        mean = (advantage * mask).sum(2, keepdim=True) / mask.sum(1, keepdim=True)
        return (value[:, None, None] + advantage - mean).unbind(1)
