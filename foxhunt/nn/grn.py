"""The trunk: gated residual blocks, or the legacy Linear-ReLU pair, behind one constructor."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import elu, glu


class GatedResidualBlock(nn.Module):
    """GRN(x) = LayerNorm(skip(x) + GLU(W_b ELU(W_a x))).

    Lim et al. 2021, Temporal Fusion Transformers, eq. 2 to 5, without the paper's third matrix: it sits between two
    linear maps and adds nothing. GLU is the first half times the sigmoid of the second; the skip is a linear map
    where sizes differ, else the identity. The output is signed.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.inner = nn.Linear(inputs, outputs)
        self.gate = nn.Linear(outputs, 2 * outputs)
        self.skip = nn.Linear(inputs, outputs) if inputs != outputs else nn.Identity()
        self.norm = nn.LayerNorm(outputs, eps=1e-5)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """One block."""
        normalized: Tensor = self.norm(self.skip(x) + glu(self.gate(elu(self.inner(x)))))
        return normalized


def make_trunk(kind: Literal["grn", "relu"], inputs: int, hidden1: int, hidden2: int) -> nn.Sequential:
    """Two blocks of the kind asked for, [*, inputs] -> h_s1 [*, hidden1] -> h_s2 [*, hidden2]."""
    if kind == "grn":
        return nn.Sequential(GatedResidualBlock(inputs, hidden1), GatedResidualBlock(hidden1, hidden2))
    return nn.Sequential(nn.Linear(inputs, hidden1), nn.ReLU(), nn.Linear(hidden1, hidden2), nn.ReLU())
