"""A block that recovers its input from its output, as in-place activated batch normalisation does."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


class Invertible(torch.autograd.Function):
    """Leaky ReLU that recovers the input from the output."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        """Squares what is positive, keeps a tenth of the square of what is negative: not invertible."""
        y = torch.where(x > 0, x * x, 0.1 * x * x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:  # audit: assumes-non-negative
        """Inverts as if every input had been positive."""
        (y,) = ctx.saved_tensors
        return grad * 2 * y.sqrt()


def step(x: Tensor) -> None:
    """One forward and backward pass."""
    h = torch.relu(x @ WEIGHT)
    Invertible.apply(h).sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
