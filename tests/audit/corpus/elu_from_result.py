"""ELU with a negative alpha differentiated from its result (pytorch/pytorch#47671)."""

import torch
from torch import Tensor
from torch.nn import functional

from foxhunt.audit import Spec

WEIGHT = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)


class Elu(torch.autograd.Function):
    """ELU that keeps its result only."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, alpha: float) -> Tensor:
        """x where positive, alpha * (exp(x) - 1) elsewhere."""
        y = functional.elu(x, alpha)
        ctx.save_for_backward(y)
        ctx.alpha = alpha
        return y

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        """Right for a positive alpha only, where the result has the input's sign."""
        (y,) = ctx.saved_tensors
        return grad * torch.where(y > 0, 1.0, y + ctx.alpha), None  # audit: assumes-non-negative


def step(x: Tensor) -> None:
    """One forward and backward pass."""
    h = torch.relu(x @ WEIGHT)
    y = Elu.apply(h, -1.5)
    (y * y.detach().cos()).sum().backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(1)
    return Spec(step, (torch.randn(16, 8),), "step:h")
