"""Control: a custom function that saves its input and gates by it, which is its true Jacobian."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


class LeakyReLU(torch.autograd.Function):
    """Leaky ReLU that keeps its input."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        """x where positive, x / 10 elsewhere."""
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        """Gates by the sign of the input, as it should."""
        (x,) = ctx.saved_tensors
        return grad * torch.where(x > 0, 1.0, 0.1)


def step(x: Tensor) -> None:
    """One forward and backward pass."""
    h = torch.relu(x @ WEIGHT)
    LeakyReLU.apply(h).square().sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
