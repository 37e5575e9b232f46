"""The loss of one update: every head's share of it, from one forward pass."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foxhunt.config import LearnerConfig
from foxhunt.nn.gates import uniform_draw, uniform_hash
from foxhunt.nn.isv import Slot
from foxhunt.nn.network import Network, NetworkOutput
from foxhunt.rl import auxiliary, branching, categorical, losses
from foxhunt.rl.measure import measure
from foxhunt.rl.outcome import judged_mean
from foxhunt.rl.quantile import quantile_huber
from foxhunt.rl.replay import Batch
from foxhunt.rl.targets import Targets

TARGET_LEVEL, STOP_LEVEL, HORIZON_LEVEL = 0.6, 0.8, 0.5
"""Quantiles of favourable excursion, adverse excursion and time to the peak that a trade plan states."""


class Findings(NamedTuple):
    """What an update found on its way to the loss."""

    q: Float[Tensor, "batch branches"]
    """Values of the actions taken."""
    td_error: Float[Tensor, " batch"]
    """Sum over branches of |target - q|."""
    measured: dict[Slot, Float[Tensor, ""]]
    """Measures for the internal state vector."""
    losses: dict[str, Float[Tensor, ""]]
    """Every head's loss before its weight."""


class Objective(nn.Module):
    """Network and losses as one module, so that one functional call differentiates all of it."""

    def __init__(self, network: Network, config: LearnerConfig) -> None:
        super().__init__()
        self.network, self.config = network, config
        c = config
        self.weights = {
            "categorical": 1.0,
            "quantile": c.quantile_weight,
            "ensemble": c.ensemble_weight,
            "coordination": c.coordination_weight,
            **dict.fromkeys(("confidence", "risk", "selectivity", "plan"), c.forecast_weight),
            "predictive": c.predictive_coding,
        }

    def forward(self, batch: Batch, targets: Targets, seed: Int[Tensor, ""]) -> tuple[Tensor, Findings]:
        """Loss and findings; `seed` draws dropout and tau."""
        network = self.network
        output = network(batch.observation, seed)
        taken = branching.take_actions(output.logits, batch.action)
        q = categorical.mean(taken, network.atoms)
        td_error = losses.branching_td_error(q, targets.probabilities @ network.atoms).detach()
        parts = {"categorical": losses.branching_c51_loss(taken, targets.probabilities, batch.weight)}
        parts |= self._value_losses(batch, targets, output, seed + 1)
        parts |= self._forecast_losses(batch, output, td_error / q.shape[1])
        if self.config.predictive_coding:
            assert batch.consecutive is not None
            first, second = output.h[::2], output.h[1::2]
            parts["predictive"] = auxiliary.predictive_coding(first, second, batch.consecutive)
        loss = torch.stack([self.weights[name] * part for name, part in parts.items()]).sum()
        return loss, Findings(q, td_error, measure(network, batch, targets, output, q, td_error), parts)

    def _value_losses(
        self, batch: Batch, targets: Targets, output: NetworkOutput, seed: Int[Tensor, ""]
    ) -> dict[str, Tensor]:
        network, weight, parts = self.network, batch.weight, {}
        if targets.samples is not None:
            tau = uniform_draw(seed, (len(weight), network.config.quantiles)).to(weight.dtype)
            online = branching.take_quantiles(network.quantiles(output.h, tau), batch.action)
            branches = online.shape[-1]
            each = quantile_huber(
                online.transpose(1, 2).flatten(0, 1),
                targets.samples.repeat_interleave(branches, 0),
                tau.repeat_interleave(branches, 0),
            )
            parts["quantile"] = (weight * each.view(-1, branches).mean(1)).mean()
        if output.ensemble is not None:
            members = output.ensemble.shape[1]
            key = batch.slot.unsqueeze(1) * members + torch.arange(members, device=weight.device)
            # Half of the transitions for each member, the same ones whenever they are drawn.
            mask = uniform_hash(key) < 0.5
            error = categorical.cross_entropy(output.ensemble, targets.probabilities.unsqueeze(1))
            parts["ensemble"] = (weight.unsqueeze(1) * mask * error).mean()
        if targets.coordinated is not None:
            q = network.coordinate(network.values(output.logits).detach())
            chosen = q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
            error = (targets.coordinated.unsqueeze(1) - chosen).square().mean(1)
            parts["coordination"] = 0.5 * (weight * error).mean()
        return parts

    def _forecast_losses(self, batch: Batch, output: NetworkOutput, td_error: Tensor) -> dict[str, Tensor]:
        weight, trade, parts = batch.weight, batch.trade, {}
        if output.error_logit is not None:
            usual = self.network.encoder.isv.slots[Slot.TD_ERROR].clamp(min=1e-6)
            share = auxiliary.error_share(td_error, usual)
            parts["confidence"] = auxiliary.probability_loss(output.error_logit, share).mean()
        if trade is None:
            return parts
        if output.risk is not None:
            growth = trade.growth(self.network.config.plan_horizon)
            parts["risk"] = judged_mean(auxiliary.kelly_loss(output.risk, growth), trade, weight)
        if output.selectivity_logit is not None:
            pays = auxiliary.probability_loss(output.selectivity_logit, trade.pays)
            parts["selectivity"] = judged_mean(pays, trade, weight)
        if (plan := output.plan) is not None:
            each = (
                auxiliary.pinball(plan.target, trade.favourable, TARGET_LEVEL)
                + auxiliary.pinball(plan.stop, trade.adverse, STOP_LEVEL)
                + auxiliary.pinball(plan.horizon, trade.peak, HORIZON_LEVEL) / self.network.config.plan_horizon
            )
            parts["plan"] = judged_mean(each, trade, weight)
        return parts
