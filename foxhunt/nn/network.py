"""The whole network: observation parts in, one distribution of returns for every action of every branch out."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foxhunt.config import NetworkConfig
from foxhunt.nn.branches import BranchHeads
from foxhunt.nn.grn import make_trunk


class NetworkOutput(NamedTuple):
    """What one forward pass yields."""

    logits: Float[Tensor, "batch branches actions atoms"]
    """Padded to the largest branch; `Network.values` masks what does not exist."""
    h: Float[Tensor, "batch hidden"]
    """The trunk's output h_s2."""


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """x itself in the forward pass, its gradient times `scale` in the backward pass."""
    return x.detach() + scale * (x - x.detach())


class Network(nn.Module):
    """Trunk and heads; the same class serves as online and as target network.

    All observation parts enter the trunk side by side, in the order of `widths`. The gradient that the value and
    branch heads send into the trunk is scaled by 1/(branches + 1) (Tavakoli et al. 2018).
    """

    def __init__(self, widths: dict[str, int], branches: tuple[tuple[str, int], ...], config: NetworkConfig) -> None:
        super().__init__()
        self.parts = tuple(widths)
        self.trunk = make_trunk(config.trunk, sum(widths.values()), config.hidden1, config.hidden2)
        atoms = torch.linspace(config.v_min, config.v_max, config.atoms)
        self.heads = BranchHeads(config.hidden2, config.head_hidden, branches, widths, atoms)
        self.trunk_share = 1 / (len(branches) + 1)

    def forward(self, observation: dict[str, Float[Tensor, "batch width"]]) -> NetworkOutput:
        """Logits of every branch and h."""
        h = self.trunk(torch.cat([observation[part] for part in self.parts], dim=-1))
        return NetworkOutput(self.heads(scale_gradient(h, self.trunk_share), observation), h)

    def values(self, logits: Float[Tensor, "batch branches actions atoms"]) -> Float[Tensor, "batch branches actions"]:
        """Expected return of every action, in reward units; minus infinity where a branch has no such action."""
        return (logits.softmax(-1) @ self.atoms).masked_fill(~self.heads.exists, -torch.inf)

    def measure(self, output: NetworkOutput) -> None:
        """Update measured statistics (RMS of h and of the direction values) from one training batch."""
        self.heads.measure(output.h, output.logits)

    def measurements(self) -> list[Tensor]:
        """Measured statistics; they follow the parameters into the target network and into checkpoints."""
        persistent = self.state_dict().keys()
        return [buffer for name, buffer in self.named_buffers() if name in persistent]

    @property
    def atoms(self) -> Float[Tensor, " atoms"]:
        """Returns that the atoms stand for, in reward units."""
        return self.heads.atoms

    @property
    def action_counts(self) -> Int[Tensor, " branches"]:
        """Number of actions of every branch."""
        return self.heads.exists.sum(-1)
