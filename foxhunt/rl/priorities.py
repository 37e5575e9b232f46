"""Prioritised draws (Schaul et al. 2016): masses, their prefix sums, and what a batch writes back."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

FLOOR = 1e-6
"""Added to every priority, so that a transition learned perfectly can still come back."""


class Priorities:
    """One mass for each slot, priority^exponent; a slot of mass 0 is never drawn.

    Masses and prefix sums are float64: in float32 the prefix sum of a million priorities stops growing by single
    ones, and part of the slots cannot be drawn any more.
    """

    def __init__(self, slots: int, exponent: float, seed: int, device: torch.device | str = "cpu") -> None:
        self.exponent = exponent
        self.mass = torch.zeros(slots, dtype=torch.float64, device=device)
        self.peak = torch.ones((), dtype=torch.float64, device=device)
        """Largest mass so far; new transitions start with it."""
        self.generator = torch.Generator(device).manual_seed(seed)

    def draw(self, count: int) -> Int[Tensor, " count"]:
        """Slots by stratified sampling: one from each of `count` equal parts of the total mass."""
        ends = self.mass.cumsum(0)
        part = torch.arange(count, device=ends.device)
        share = (part + self._uniform(count)) / count
        # Rounding may put the last share on the total itself, beyond the last slot with mass.
        below = torch.nextafter(ends[-1], torch.zeros_like(ends[-1]))
        return torch.searchsorted(ends, torch.minimum(share * ends[-1], below), right=True)

    @staticmethod
    def importance(mass: Float[Tensor, " count"], exponent: Float[Tensor, ""]) -> Float[Tensor, " count"]:
        """Importance weights (slots * probability)^-exponent divided by the batch's largest: float32, at most 1.

        `mass` is what each sample was drawn in proportion to. Dividing by the batch's maximum, not the buffer's: one
        slot of tiny priority would shrink every step.
        """
        return (mass / mass.min()).pow(-exponent).float()

    def write(self, slots: Int[Tensor, " count"], priority: Float[Tensor, " count"]) -> None:
        """Set new priorities; a slot drawn more than once is written once, with the largest of its values."""
        mass = (priority.double() + FLOOR).pow(self.exponent)
        self.mass.scatter_reduce_(0, slots, mass, "amax", include_self=False)
        self.peak.copy_(torch.maximum(self.peak, mass.max()))

    def state_dict(self) -> dict[str, Any]:
        """Masses, peak and random state."""
        return {"mass": self.mass, "peak": self.peak, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from `state_dict`."""
        self.mass.copy_(state["mass"])
        self.peak.copy_(state["peak"])
        self.generator.set_state(state["generator"].cpu())

    def _uniform(self, count: int) -> Float[Tensor, " count"]:
        return torch.rand(count, dtype=torch.float64, device=self.mass.device, generator=self.generator)
