"""Ranges of a tensor, as a user writes them (`>=0`, `signed,rms=1`, `[0,1]`), and samples drawn from them."""

import math
import re
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from foxhunt.audit.errors import AuditError

TINY: Final = 5e-324
"""Smallest positive float: as a lower bound it says "strictly positive"."""

_NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|-?inf"
_BOUND: Final = re.compile(rf"(>=|<=|>|<)({_NUMBER})")
_INTERVAL: Final = re.compile(rf"\[({_NUMBER});({_NUMBER})\]")
_RMS: Final = re.compile(rf"rms=({_NUMBER})")
_HELP: Final = "write parts such as >=0, >0, <=0, signed, [0,1], rms=1, zero-mean, joined by commas"


@dataclass(frozen=True)
class Range:
    """What is known about every entry of a tensor.

    `low` and `high` bound the entries, `rms` is their root mean square where it is known, `zero_mean` says that
    every row averages to zero (a LayerNorm output without affine shift).
    """

    low: float = -math.inf
    high: float = math.inf
    rms: float | None = None
    zero_mean: bool = False

    @classmethod
    def parse(cls, text: str) -> "Range":
        """Read a range; raises `AuditError` on anything it does not understand."""
        low, high, rms, zero_mean = -math.inf, math.inf, None, False
        # An interval holds a comma itself, so it gets another separator before the parts are split.
        for part in re.sub(r"(\[[^],]*),([^]]*\])", r"\1;\2", text.replace(" ", "")).split(","):
            if match := _BOUND.fullmatch(part):
                value = float(match[2])
                if match[1][0] == ">":
                    low = max(low, math.nextafter(value, math.inf) if match[1] == ">" else value)
                else:
                    high = min(high, math.nextafter(value, -math.inf) if match[1] == "<" else value)
            elif match := _INTERVAL.fullmatch(part):
                low, high = max(low, float(match[1])), min(high, float(match[2]))
            elif match := _RMS.fullmatch(part):
                rms = float(match[1])
            elif part == "zero-mean":
                zero_mean = True
            elif part != "signed":
                raise AuditError(f"range {text!r}: {part!r} is not understood; {_HELP}")
        if low >= high or (rms is not None and not rms > 0):
            raise AuditError(f"range {text!r} is empty; {_HELP}")
        return cls(low, high, rms, zero_mean)

    @property
    def signed(self) -> bool:
        """Whether both signs are allowed."""
        return self.low < 0 < self.high

    def holds(self, tensor: Tensor) -> bool:
        """Whether the tensor could be a draw: within the bounds, both signs where both are allowed, RMS within x1.5."""
        if not tensor.is_floating_point() or tensor.numel() == 0:
            return True
        low, high = (float(value) for value in torch.aminmax(tensor.detach()))
        if low < self.low or high > self.high or (self.signed and tensor.numel() > 8 and low * high >= 0):
            return False
        measured = float(tensor.detach().double().square().mean().sqrt())
        return self.rms is None or 2 / 3 <= measured / self.rms <= 1.5

    def sample(self, like: Tensor, seed: int, rms: float, negative: bool = False) -> Tensor:
        """Draw a tensor of the shape and dtype of `like`.

        Bounded ranges are uniform, half-lines are rectified normals (with the exact zeros of a ReLU where 0 is the
        bound), everything else is normal; their RMS is the range's or else `rms`. `negative` turns a signed draw
        into its all-negative twin, which shows what a sum or a maximum hides.
        """
        generator = torch.Generator().manual_seed(seed)
        if math.isfinite(self.low) and math.isfinite(self.high):
            noise = torch.rand(like.shape, generator=generator, dtype=torch.float64)
            return (self.low + (self.high - self.low) * noise).to(like.dtype)
        noise = torch.randn(like.shape, generator=generator, dtype=torch.float64)
        if math.isfinite(self.low):
            noise = self.low + noise.clamp(min=0.0 if self.low == 0 else 1e-3)
        elif math.isfinite(self.high):
            noise = self.high - noise.clamp(min=0.0 if self.high == 0 else 1e-3)
        elif self.zero_mean and noise.dim() and noise.shape[-1] > 1:
            noise = noise - noise.mean(-1, keepdim=True)
        elif negative:
            noise = -noise.abs()
        if (self.low in (-math.inf, 0.0)) and (self.high in (math.inf, 0.0)):
            wanted = self.rms or rms or 1.0
            noise = noise * wanted / noise.square().mean().sqrt().clamp(min=1e-12)
        return noise.to(like.dtype)
