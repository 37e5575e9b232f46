"""A forward hook keeps activations that an in-place one overwrites (ViCCo-Group/thingsvision#44)."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec

KEPT: list[Tensor] = []


class Net(nn.Module):
    """Two layers; the second works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 12)
        self.first.register_forward_hook(lambda module, inputs, output: KEPT.append(output.detach()))

    def forward(self, x: Tensor) -> Tensor:
        """The hook keeps what `relu_` then overwrites."""
        h = self.first(x)
        h = h.relu_()  # audit: assumes-non-negative
        return h.cos()


NET = Net()


def step(x: Tensor) -> Tensor:
    """Run the network, then read what the hook kept."""
    return NET(x) + KEPT.pop().mean()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "first", models=NET)
