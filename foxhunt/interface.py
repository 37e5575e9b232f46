"""What the learner expects of an environment, whoever provides it.

The trading environment and the adaptor for Gymnasium environments both satisfy `VectorEnvironment`; nothing in
`rl` knows which one it drives.
"""

from typing import Any, NamedTuple, Protocol

from jaxtyping import Bool, Float, Int
from torch import Tensor

Observation = dict[str, Tensor]
"""Named float32 tensors [environments, width]. `market` is always there; the trading environment adds `portfolio`,
`ofi` (multi-level order-flow imbalance) and `ofi3` (best-level imbalance at three horizons)."""


class StepResult(NamedTuple):
    """What one vector step returns.

    Autoreset is Gymnasium's next-step mode: the step that ends an episode serves its true final observation; the
    step after ignores the action, serves the first observation of a new episode, reward 0 and both flags false.
    """

    observation: Observation
    reward: Float[Tensor, " environments"]
    """float64; money for the trading environment."""
    terminated: Bool[Tensor, " environments"]
    truncated: Bool[Tensor, " environments"]
    hold: "Hold | None" = None
    """What holding the largest position would have brought; None where there is no market."""


class Hold(NamedTuple):
    """A position of the full cap over one step, whatever was done: what forecasts of trades learn from."""

    move: Float[Tensor, " environments"]
    """Gain of holding the full cap long over the step, in the unit of the reward."""
    cost: Float[Tensor, " environments"]
    """What entering and leaving the full cap cost at the step's decision: spread and taker fees."""


class Decision(NamedTuple):
    """What a policy wants: one action a branch, and limits that the trading environment puts on the trade."""

    action: Int[Tensor, "environments branches"]
    limits: "Limits | None" = None
    """None sets no limits; environments other than the market's take none."""


class Limits(NamedTuple):
    """Limits of a decision in the market; None leaves one out."""

    risk: Float[Tensor, " environments"] | None = None
    """Share of the position cap that may be used, in [0, 1]."""
    target: Float[Tensor, " environments"] | None = None
    """Gain of a full position at which a trade entered now is closed, in reward units."""
    stop: Float[Tensor, " environments"] | None = None
    """Loss of a full position at which it is closed, in reward units."""
    horizon: Float[Tensor, " environments"] | None = None
    """Decisions after which it is closed."""


class VectorEnvironment(Protocol):
    """Many environments stepped at once, on one device."""

    environments: int
    branches: tuple[tuple[str, int], ...]
    """Name and number of actions of every action branch."""
    widths: dict[str, int]
    """Width of every observation part."""

    @property
    def reward_unit(self) -> Float[Tensor, " environments"]:
        """What a learner divides the rewards of the last step by, so that they are of order 1."""
        ...

    def reset(self, seed: int | None = None) -> Observation:
        """Start every environment afresh; with a seed, reproducibly."""
        ...

    def step(self, action: Int[Tensor, "environments branches"], limits: Limits | None = None) -> StepResult:
        """Advance every environment by one decision."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on bit-exactly: tensors and JSON-ready values, nested dicts allowed."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from `state_dict`."""
        ...
