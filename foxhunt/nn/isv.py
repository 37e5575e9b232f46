"""The internal state vector: twelve measured numbers about the learner and the regime, kept as moving averages."""

from enum import IntEnum

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Slot(IntEnum):
    """What each slot measures."""

    H_RMS = 0
    """RMS of the trunk's output h."""
    VALUE_RMS = 1
    """RMS of the direction branch's values in units of delta_z."""
    TD_ERROR = 2
    """Mean |TD error| a branch, reward units."""
    TD_TREND = 3
    """Fast over slow average of the TD error; above 1 while errors grow."""
    GRADIENT_NORM = 4
    """Natural logarithm of the gradient norm before clipping."""
    TARGET_DRIFT = 5
    """Mean |online - target| of the values, reward units."""
    ENSEMBLE_SPREAD = 6
    """Standard deviation of the value over ensemble members, reward units."""
    ENTROPY = 7
    """Entropy of the return distribution over log(atoms)."""
    REWARD_VOLATILITY = 8
    """RMS of multi-step rewards, reward units."""
    VOLATILITY_RATIO = 9
    """Realised over long-run volatility of the environment at hand."""
    STABILITY = 10
    """Regime stability of the environment at hand, 1 calm to 0."""
    HEALTH = 11
    """Explained variance of values against the returns they learn from, in [0, 1]."""


SLOTS = len(Slot)
REGIME = 2
"""Width of the observation part `regime`: volatility ratio and stability, measured by the environment."""


class InternalState(nn.Module):
    """The measured slots, persisted with the network; `measure` is the only thing that moves them.

    The averages are plain means over the first 1/rate measurements, so that their start is unbiased. The two slots of
    the regime come with each observation; where there is none they read as a calm, average regime.
    """

    slots: Tensor
    fast_error: Tensor
    measurements: Tensor

    def __init__(self, rate: float = 0.01, fast_rate: float = 0.1) -> None:
        super().__init__()
        self.rate, self.fast_rate = rate, fast_rate
        slots = torch.zeros(SLOTS)
        slots[[Slot.H_RMS, Slot.VALUE_RMS, Slot.TD_TREND, Slot.VOLATILITY_RATIO, Slot.STABILITY]] = 1.0
        self.register_buffer("slots", slots)
        # One-element vectors: dynamo takes float64 scalars on the CPU for constants.
        self.register_buffer("fast_error", torch.zeros(1))
        self.register_buffer("measurements", torch.zeros(1))

    @torch.no_grad()
    def measure(self, measured: dict[Slot, Float[Tensor, ""]]) -> None:
        """Take one update's measurements into the averages; slots not given stay. No host sync."""
        count = self.measurements + 1
        self.measurements.copy_(count)
        slow, fast = ((1 / count).clamp(min=rate) for rate in (self.rate, self.fast_rate))
        slots, error = self.slots.clone(), self.fast_error
        for slot, value in measured.items():
            slots[slot].lerp_(value.to(slots.dtype), slow[0])
        if Slot.TD_ERROR in measured:
            error = error.lerp(measured[Slot.TD_ERROR].to(slots.dtype), fast)
            slots[Slot.TD_TREND].copy_(error[0] / slots[Slot.TD_ERROR].clamp(min=1e-12))
        self.slots.copy_(slots)
        self.fast_error.copy_(error)

    def match(self) -> Float[Tensor, ""]:
        """RMS of h over RMS of the scaled direction values: brings the latter to the former's size."""
        ratio: Tensor = self.slots[Slot.H_RMS] / self.slots[Slot.VALUE_RMS].clamp(min=1e-6)
        return ratio

    def forward(self, observation: dict[str, Tensor]) -> Float[Tensor, "batch slots"]:
        """The vector as each sample sees it: shared slots, and the regime of its own environment."""
        some = next(iter(observation.values()))
        vector = self.slots.expand(len(some), SLOTS)
        if "regime" not in observation:
            return vector
        before, after = vector[:, : Slot.VOLATILITY_RATIO], vector[:, Slot.STABILITY + 1 :]
        return torch.cat((before, observation["regime"], after), -1)


class StateEmbedding(nn.Module):
    """ELU(W f(isv) + b) with f(x) = sign(x) log(1 + |x|), so that no slot's unit dominates."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(SLOTS, width)

    def forward(self, isv: Float[Tensor, "batch slots"]) -> Float[Tensor, "batch width"]:
        """What gates and routes read."""
        return nn.functional.elu(self.linear(isv.sign() * isv.abs().log1p()))
