"""A leaky ReLU with a negative slope whose backward looks at the sign of its output (pytorch/pytorch#31938)."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


class LeakyReLU(torch.autograd.Function):
    """Leaky ReLU that keeps its result only, as an in-place one must."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, slope: float) -> Tensor:
        """x where positive, slope * x elsewhere."""
        y = functional.leaky_relu(x, slope)
        ctx.save_for_backward(y)
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        """Takes the result's sign for the input's."""
        (y,) = ctx.saved_tensors
        return grad * torch.where(y > 0, 1.0, ctx.slope), None  # audit: assumes-non-negative


def step(x: Tensor) -> None:
    """One forward and backward pass."""
    h = torch.relu(x @ WEIGHT)
    y = LeakyReLU.apply(h, -2.0)
    (y * y.detach().cos()).sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
