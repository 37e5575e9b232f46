"""Gates: everything that scales features without mixing them, each a small module with its start written down."""

import math
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

_ORDER: Final = 4
"""Basis functions that are non-zero at any point of a cubic B-spline."""


class VariableSelection(nn.Module):
    """Bottleneck gates `h * sigmoid(W_2 W_1 h)`, one for each of several readers, without bias or inner nonlinearity.

    W_2 starts at zero, so the gates start at 0.5 everywhere.
    """

    def __init__(self, readers: int, width: int, rank: int) -> None:
        super().__init__()
        self.readers = readers
        self.down = nn.Linear(width, readers * rank, bias=False)
        self.up = nn.Parameter(torch.zeros(readers, width, rank))

    def forward(self, h: Float[Tensor, "batch width"]) -> Float[Tensor, "batch readers width"]:
        """h as each reader sees it."""
        bottleneck: Tensor = self.down(h)
        gate = bottleneck.view(len(h), self.readers, -1).transpose(0, 1) @ self.up.mT
        return h.unsqueeze(1) * torch.sigmoid(gate.transpose(0, 1))


class ConditionGate(nn.Module):
    """Per-feature gate `h * sigmoid(W condition + b)` driven by something other than h.

    The gate starts at sigmoid(2) = 0.88 for every condition: open, and still with a gradient.
    """

    def __init__(self, width: int, condition_width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(condition_width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, 2.0)

    def forward(
        self, h: Float[Tensor, "*batch width"], condition: Float[Tensor, "*batch condition"]
    ) -> Float[Tensor, "*batch width"]:
        """Scale h feature by feature."""
        return h * torch.sigmoid(self.linear(condition))


def cubic_basis(
    x: Float[Tensor, "*batch"], low: float, high: float, cells: int
) -> tuple[Int[Tensor, "*batch"], Float[Tensor, "*batch 4"]]:
    """Cell of each x on a uniform grid and the four cubic B-spline basis values that are non-zero there.

    Basis function `cell + k` has value k of the last axis; there are `cells + 3` functions in all, on the knots
    `low + (i - 3) * (high - low) / cells`. x outside [low, high] is clamped to it.
    Source: de Boor, A Practical Guide to Splines, ch. IX, uniform knots.
    """
    position = (x.clamp(low, high) - low) * (cells / (high - low))
    cell = position.detach().floor().clamp(max=cells - 1)
    u = position - cell
    v = 1 - u
    basis = torch.stack(
        (
            v * v * v,
            3 * u * u * u - 6 * u * u + 4,
            3 * v * v * v - 6 * v * v + 4,
            u * u * u,
        ),
        dim=-1,
    )
    return cell.long(), basis / 6


class SplineGate(nn.Module):
    """KAN gate `x * sigmoid(spline(x))`: one cubic B-spline on a uniform grid for each feature.

    Coefficients start at zero, so the gate starts at 0.5. Only the four basis functions that are non-zero at a point
    are evaluated. Source: Liu et al. 2024 (KAN), with the spline in the gate's exponent.
    """

    def __init__(self, width: int, cells: int = 8, low: float = -3.0, high: float = 3.0) -> None:
        super().__init__()
        self.cells, self.low, self.high = cells, low, high
        self.coefficients = nn.Parameter(torch.zeros(width, cells + _ORDER - 1))

    def spline(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Value of every feature's spline."""
        cell, basis = cubic_basis(x, self.low, self.high, self.cells)
        width, functions = self.coefficients.shape
        first = torch.arange(width, device=x.device) * functions + cell
        index = first.unsqueeze(-1) + torch.arange(_ORDER, device=x.device)
        return (self.coefficients.flatten()[index] * basis).sum(-1)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Gate every feature by its own spline."""
        return x * torch.sigmoid(self.spline(x))


def uniform_hash(key: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Uniform number in [0, 1) for each integer key: no state, so capturable, resumable, alike on every device.

    The finaliser of MurmurHash3 (Appleby), twice, on 32 bits; the upper 24 make the number.
    """
    x = key & 0xFFFFFFFF
    for _ in range(2):
        x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
        x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
        x = (x ^ (x >> 16)) + 0x9E3779B9 & 0xFFFFFFFF
    return (x >> 8).to(torch.float32) * 2.0**-24


def uniform_draw(seed: Int[Tensor, ""], shape: tuple[int, ...]) -> Float[Tensor, "..."]:
    """Uniform numbers in [0, 1) as a pure function of a seed tensor; draws of different seeds are unrelated."""
    index = torch.arange(math.prod(shape), device=seed.device)
    return uniform_hash(index + seed * 0x9E3779B1).reshape(shape)


class RegimeDropout(nn.Module):
    """Dropout that is strongest where the regime is unstable: p = p_max * (1 - stability), per sample.

    Keeps a feature where u >= p and scales what it keeps by 1 / (1 - p).
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"dropout rate must be in [0, 1), not {rate}")
        self.rate = rate

    def forward(
        self,
        h: Float[Tensor, "batch width"],
        stability: Float[Tensor, " batch"],
        seed: Int[Tensor, ""],
    ) -> Float[Tensor, "batch width"]:
        """Drop features of h; `stability` in [0, 1], `seed` a fresh int64 scalar tensor each step."""
        drop = (self.rate * (1 - stability.clamp(0, 1))).unsqueeze(-1)
        uniform = uniform_draw(seed, tuple(h.shape)).to(h.dtype)
        return torch.where(uniform >= drop, h / (1 - drop), 0)
