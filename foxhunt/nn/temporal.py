"""What came before: a history of `[h; ofi]`, a selective scan over it, and the enrichment of h by its last output.

The scan is Mamba-2's (Dao and Gu 2024) with a scalar decay for each head. Only the last output is read, so the closed
form serves: no sequence of states is ever built.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional


def scan_last(
    x: Float[Tensor, "batch time heads width"],
    step: Float[Tensor, "batch time heads"],
    decay: Float[Tensor, " heads"],
    inputs: Float[Tensor, "batch time state"],
    output: Float[Tensor, "batch state"],
) -> Float[Tensor, "batch heads width"]:
    """Last output of the recurrence S_t = exp(decay * step_t) S_{t-1} + step_t inputs_t x_t^T, y = output . S_K.

    Closed form: y_K = sum_t (output . inputs_t) exp(decay * sum_{s>t} step_s) step_t x_t. `decay` is negative.
    """
    later = step.flip(1).cumsum(1).flip(1) - step
    weight = torch.exp(decay * later) * step
    affinity = torch.einsum("bn,btn->bt", output, inputs)
    return torch.einsum("bth,bthp->bhp", weight * affinity.unsqueeze(-1), x)


def insert(
    history: Float[Tensor, "batch past width"], h: Float[Tensor, "batch hidden"], ofi: Float[Tensor, "batch ofi"]
) -> Float[Tensor, "batch time width"]:
    """Append the present `[h; ofi]` to the past ones."""
    return torch.cat((history, torch.cat((h, ofi), -1).unsqueeze(1)), 1)


class Temporal(nn.Module):
    """`h + tw * ctx`: ctx is the scan's last output projected to h's width, tw a learned weight for each feature.

    The temporal route lets the internal state vector set how fast the past fades; it reads the state's embedding,
    never h. `tw` starts at zero, so the block starts as the identity.
    """

    def __init__(self, hidden: int, ofi: int, condition: int, heads: int = 4, state: int = 16) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(f"hidden {hidden} is not a multiple of {heads} heads")
        self.heads, self.state = heads, state
        width = hidden + ofi
        self.project = nn.Linear(width, hidden + heads + state)
        self.read = nn.Linear(width, state)
        self.route = nn.Linear(condition, heads)
        self.decay_log = nn.Parameter(torch.zeros(heads))
        self.out = nn.Linear(hidden, hidden)
        self.weight = nn.Parameter(torch.zeros(hidden))

    def forward(
        self,
        h: Float[Tensor, "batch hidden"],
        ofi: Float[Tensor, "batch ofi"],
        history: Float[Tensor, "batch past width"],
        valid: Bool[Tensor, "batch past"],
        condition: Float[Tensor, "batch condition"],
    ) -> Float[Tensor, "batch hidden"]:
        """Enrich h; steps of the history that are not `valid` (before the episode began) count for nothing."""
        sequence = insert(history, h, ofi)
        x, step, inputs = self.project(sequence).split((h.shape[-1], self.heads, self.state), -1)
        # An invalid step neither writes nor lets anything fade.
        there = functional.pad(valid, (0, 1), value=True).unsqueeze(-1)
        step = functional.softplus(step + self.route(condition).unsqueeze(1)) * there
        output = self.read(sequence[:, -1])
        context = scan_last(x.unflatten(-1, (self.heads, -1)), step, -self.decay_log.exp(), inputs, output)
        enriched: Tensor = h + self.weight * self.out(context.flatten(1))
        return enriched
