"""Choosing actions from values."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.interface import Observation
from foxhunt.nn.network import Network


def greedy(q_t: Float[Tensor, "batch branches actions"]) -> Int[Tensor, "batch branches"]:
    """Best action of every branch; values of actions that do not exist are minus infinity."""
    return q_t.argmax(-1)


def uniform(counts: Int[Tensor, " branches"], batch: int, generator: torch.Generator) -> Int[Tensor, "batch branches"]:
    """Random actions, independent over branches and environments."""
    draw = torch.rand(batch, len(counts), dtype=torch.float64, device=counts.device, generator=generator)
    return (draw * counts).long()


def epsilon_greedy(
    q_t: Float[Tensor, "batch branches actions"],
    counts: Int[Tensor, " branches"],
    epsilon: Float[Tensor, ""],
    generator: torch.Generator,
) -> Int[Tensor, "batch branches"]:
    """Greedy, but random with chance epsilon, drawn afresh for every branch of every environment."""
    random = uniform(counts, len(q_t), generator)
    explore = torch.rand(random.shape, device=q_t.device, generator=generator) < epsilon
    return torch.where(explore, random, greedy(q_t))


class GreedyPolicy:
    """A network that acts: observation -> best action of every branch."""

    def __init__(self, network: Network) -> None:
        self.network = network

    @torch.no_grad()
    def __call__(self, observation: Observation) -> Int[Tensor, "batch branches"]:
        return greedy(self.network.values(self.network(observation).logits))
