"""The whole network: observation parts in; values, distributions and forecasts out, all read from one h."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foxhunt.config import NetworkConfig
from foxhunt.nn.attention import BranchAttention
from foxhunt.nn.branches import BranchHeads
from foxhunt.nn.encoder import Encoder
from foxhunt.nn.heads import EnsembleValueHead, LinearHead, RiskBudgetHead, TradePlan, TradePlanHead
from foxhunt.nn.iqn import DualQuantileHead


class NetworkOutput(NamedTuple):
    """What one forward pass yields; None where the config leaves a head out."""

    logits: Float[Tensor, "batch branches actions atoms"]
    """Padded to the largest branch; `Network.values` masks what does not exist."""
    h: Float[Tensor, "batch hidden"]
    """What every head reads: the trunk's output h_s2 after its gates, history and attention."""
    memory: Float[Tensor, "batch memory"]
    """What this step leaves to the history of later ones: [h before the scan; embedded order-flow imbalance]."""
    ensemble: Float[Tensor, "batch members atoms"] | None
    """Value logits of the ensemble's members."""
    error_logit: Float[Tensor, " batch"] | None
    """Logit of the forecast of |TD error| / (|TD error| + its usual size)."""
    risk: Float[Tensor, " batch"] | None
    """Share of the position cap worth risking."""
    selectivity_logit: Float[Tensor, " batch"] | None
    """Logit of the chance that a trade pays for its costs."""
    plan: TradePlan | None
    """Profit target, stop and horizon."""


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """x itself in the forward pass, its gradient times `scale` in the backward pass."""
    return x.detach() + scale * (x - x.detach())


class Network(nn.Module):
    """Encoder and heads; the same class serves as online and as target network, and for the quantile head too.

    All observation parts enter the trunk side by side, in the order of `widths`. The gradient that the value and
    branch heads send into the trunk is scaled by 1/(branches + 1) (Tavakoli et al. 2018); the other heads' losses
    carry weights of their own.
    """

    def __init__(self, widths: dict[str, int], branches: tuple[tuple[str, int], ...], config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        hidden, width = config.hidden2, config.head_hidden
        atoms = torch.linspace(config.v_min, config.v_max, config.atoms)
        self.encoder = Encoder(widths, config)
        self.heads = BranchHeads(hidden, width, branches, widths, atoms, config.gated_branches)
        self.trunk_share = 1 / (len(branches) + 1)
        count, actions = self.heads.exists.shape
        isv_width = self.encoder.condition_width
        self.quantile = DualQuantileHead(hidden, count * actions) if config.quantiles else None
        self.ensemble = EnsembleValueHead(hidden, width, config.atoms, config.ensemble) if config.ensemble else None
        self.coordinator = BranchAttention(count, actions) if config.coordination and count > 1 else None
        self.confidence = LinearHead(hidden) if config.confidence else None
        self.risk = RiskBudgetHead(hidden, isv_width) if config.risk_budget else None
        self.selectivity = LinearHead(hidden) if config.selectivity else None
        largest = config.v_max - config.v_min
        self.plan = TradePlanHead(hidden, width, largest, config.plan_horizon) if config.trade_plan else None

    def forward(
        self, observation: dict[str, Float[Tensor, "batch width"]], seed: Int[Tensor, ""] | None = None
    ) -> NetworkOutput:
        """Everything but quantiles; `seed` draws the dropout of a training pass, without it nothing is dropped."""
        encoding = self.encoder(observation, seed)
        h = encoding.h
        error_logit = self.confidence(h) if self.confidence else None
        return NetworkOutput(
            logits=self.heads(scale_gradient(h, self.trunk_share), observation, self.encoder.isv.match()),
            h=h,
            memory=encoding.memory,
            ensemble=self.ensemble(h) if self.ensemble else None,
            error_logit=error_logit,
            risk=self.risk(h, encoding.isv, _forecast(error_logit)) if self.risk else None,
            selectivity_logit=self.selectivity(h) if self.selectivity else None,
            plan=self.plan(h) if self.plan else None,
        )

    def values(self, logits: Float[Tensor, "batch branches actions atoms"]) -> Float[Tensor, "batch branches actions"]:
        """Expected return of every action, in reward units; minus infinity where a branch has no such action."""
        return self.mask(logits.softmax(-1) @ self.atoms)

    def quantiles(
        self, h: Float[Tensor, "batch hidden"], tau: Float[Tensor, "batch samples"]
    ) -> Float[Tensor, "batch samples branches actions"]:
        """Quantiles of every action's return at `tau`, in reward units; needs `quantiles` in the config."""
        assert self.quantile is not None
        flat: Tensor = self.quantile(h, tau)
        return flat.view(*tau.shape, len(self.heads.names), -1)

    def coordinate(self, q: Float[Tensor, "batch branches actions"]) -> Float[Tensor, "batch branches actions"]:
        """Values in the light of the other branches'; q itself where the config leaves coordination out."""
        if self.coordinator is None:
            return q
        return self.mask(self.coordinator(q.masked_fill(~self.heads.exists, 0)))

    def measurements(self) -> list[Tensor]:
        """Measured statistics; they follow the parameters into the target network and into checkpoints."""
        return [self.encoder.isv.slots, self.encoder.isv.fast_error]

    @property
    def atoms(self) -> Float[Tensor, " atoms"]:
        """Returns that the atoms stand for, in reward units."""
        return self.heads.atoms

    @property
    def action_counts(self) -> Int[Tensor, " branches"]:
        """Number of actions of every branch."""
        return self.heads.exists.sum(-1)

    def mask(self, q: Float[Tensor, "batch branches actions"]) -> Float[Tensor, "batch branches actions"]:
        """Minus infinity for actions that a branch does not have."""
        return q.masked_fill(~self.heads.exists, -torch.inf)


def _forecast(error_logit: Tensor | None) -> Tensor:
    """The forecast error as the risk budget reads it; the budget's loss must not bend what is forecast."""
    assert error_logit is not None  # the config refuses a risk budget without confidence
    return error_logit.detach().sigmoid()
