"""AdamW over one flat vector of parameters, made of plain tensor operations.

torch.optim's step breaks the graph of a fullgraph region, and its capturable form is refused on the CPU. Over one flat
vector the whole algorithm is a handful of operations that any device captures, the global gradient norm is one
reduction and a target sync one lerp.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


def flatten_parameters(module: nn.Module) -> Float[Tensor, " parameters"]:
    """Move the parameters of a module into one vector that they become views of; writing to it moves the module."""
    flat = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    nn.utils.vector_to_parameters(flat, module.parameters())
    return flat


def named_views(module: nn.Module, flat: Float[Tensor, " parameters"]) -> dict[str, Tensor]:
    """The module's parameters as pieces of `flat`, by name."""

    def pieces() -> Iterator[tuple[str, Tensor]]:
        sizes = [parameter.numel() for parameter in module.parameters()]
        for (name, parameter), piece in zip(module.named_parameters(), torch.split(flat, sizes), strict=True):
            yield name, piece.view(parameter.shape)

    return dict(pieces())


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
