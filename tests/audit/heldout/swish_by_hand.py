"""A fused activation whose backward rebuilds the mask from its result."""

import torch
from torch import Tensor, nn

from foxhunt.audit import Spec


class Fused(torch.autograd.Function):
    """x times its own share."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        """Rectify and double."""
        result = 2 * torch.clamp(x, min=0)
        ctx.result = result
        return result

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        """Where the result is positive."""
        return torch.where(ctx.result > 0, 2 * grad, 0)  # audit: assumes-non-negative sign-gate


class Model(nn.Module):
    """A body with a fused end."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(10, 8), nn.Linear(8, 3)

    def encode(self, x: Tensor) -> Tensor:
        """Features."""
        return Fused.apply(self.inner(x))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs."""
        return self.out(self.encode(x))


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(5)
    return Spec(Model(), (torch.randn(6, 10),), "Model.encode()")
