"""A fused layer whose hand-written backward masks by the sign of its result."""

import torch
from torch import Tensor

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


class Layer(torch.autograd.Function):
    """Linear layer and ReLU in one."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, weight: Tensor) -> Tensor:
        """relu(x @ weight)"""
        y = torch.relu(x @ weight)
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Masks by the result's sign."""
        x, weight, y = ctx.saved_tensors
        grad = grad * (y > 0)  # audit: assumes-non-negative sign-gate
        return grad @ weight.t(), x.t() @ grad


def step(x: Tensor) -> None:
    """One forward and backward pass."""
    h = Layer.apply(x, WEIGHT)
    h.square().sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
