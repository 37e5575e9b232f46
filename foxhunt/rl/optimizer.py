"""AdamW over one flat vector of parameters, made of plain tensor operations.

torch.optim's step breaks the graph of a fullgraph region, and its capturable form is refused on the CPU. Over one flat
vector the whole algorithm is a handful of operations that any device captures, the global gradient norm is one
reduction and a target sync one lerp.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class FlatParameters:
    """The parameters of a module as one vector; they become views of it, so that writing to it moves the module."""

    def __init__(self, module: nn.Module) -> None:
        self.vector = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
        nn.utils.vector_to_parameters(self.vector, module.parameters())
        self._names, self._shapes = zip(*((name, p.shape) for name, p in module.named_parameters()), strict=True)
        self._sizes = [shape.numel() for shape in self._shapes]

    def by_name(self, vector: Float[Tensor, " parameters"]) -> dict[str, Tensor]:
        """Any vector of the same layout cut into named parameters, for torch.func.functional_call."""
        pieces = zip(self._names, self._shapes, torch.split(vector, self._sizes), strict=True)
        return {name: piece.view(shape) for name, shape, piece in pieces}


def clip_gradient(
    gradient: Float[Tensor, " parameters"], largest: float
) -> tuple[Float[Tensor, " parameters"], Float[Tensor, ""]]:
    """The gradient with at most the norm given, and its norm before; the rule of torch.nn.utils.clip_grad_norm_."""
    norm = torch.linalg.vector_norm(gradient)
    return gradient * (largest / (norm + 1e-6)).clamp(max=1), norm


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); equals torch.optim.AdamW."""

    def __init__(
        self,
        parameters: Float[Tensor, " parameters"],
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        self.parameters = parameters
        self.weight_decay, self.betas, self.epsilon = weight_decay, betas, epsilon
        self.first, self.second = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.steps = torch.zeros((), dtype=torch.float64, device=parameters.device)

    def step(self, gradient: Float[Tensor, " parameters"], learning_rate: Float[Tensor, ""]) -> None:
        """Move the parameters once, in place."""
        beta1, beta2 = self.betas
        self.steps += 1
        self.first.lerp_(gradient, 1 - beta1)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        correction1 = 1 - beta1**self.steps
        correction2 = (1 - beta2**self.steps).sqrt()
        scale = self.second.sqrt().div_(correction2.to(self.second.dtype)).add_(self.epsilon)
        self.parameters.mul_(1 - learning_rate * self.weight_decay)
        self.parameters.sub_((learning_rate / correction1).to(scale.dtype) * (self.first / scale))

    def state_dict(self) -> dict[str, Any]:
        """Moments and number of steps."""
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from `state_dict`."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])
