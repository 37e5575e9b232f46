"""A target network that is the online object."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec


class Critic(nn.Module):
    """One hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(8, 12), nn.Linear(12, 1)

    def forward(self, x: Tensor) -> Tensor:  # audit: assumes-non-negative shared-target
        """Value of a state."""
        h = torch.relu(self.hidden(x))
        return self.out(h)


ONLINE = Critic()
TARGET = ONLINE


def step(x: Tensor) -> Tensor:
    """Temporal difference."""
    return ONLINE(x) - TARGET(x + 1).detach()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "Critic.forward:h", models={"online": ONLINE, "target": TARGET})
