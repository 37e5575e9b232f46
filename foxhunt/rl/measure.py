"""Measures of one update for the internal state vector."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.nn.isv import Slot
from foxhunt.nn.network import Network
from foxhunt.rl.objective import Findings
from foxhunt.rl.replay import Batch
from foxhunt.rl.targets import Targets


@torch.no_grad()
def measure(
    network: Network, batch: Batch, targets: Targets, found: Findings, gradient_norm: Float[Tensor, ""]
) -> dict[Slot, Tensor]:
    """What the update saw of its own values, errors, gradient and rewards; reads, never writes."""
    output, atoms = found.output, network.atoms
    law = output.logits.softmax(-1)
    entropy = -(law * output.logits.log_softmax(-1)).sum(-1)
    realised = targets.probabilities @ atoms
    unexplained = (realised - found.q.mean(1)).var() / realised.var().clamp(min=1e-12)
    measured = {
        Slot.H_RMS: output.h.square().mean().sqrt(),
        Slot.TD_ERROR: found.td_error.mean() / found.q.shape[1],
        Slot.GRADIENT_NORM: gradient_norm.clamp(min=1e-12).log(),
        Slot.TARGET_DRIFT: targets.drift,
        Slot.ENTROPY: entropy[:, network.heads.exists].mean() / math.log(len(atoms)),
        Slot.REWARD_VOLATILITY: batch.reward.square().mean().sqrt(),
        Slot.HEALTH: (1 - unexplained).clamp(0, 1),
    }
    if (value_rms := network.heads.value_rms(output.logits)) is not None:
        measured[Slot.VALUE_RMS] = value_rms
    if output.ensemble is not None:
        measured[Slot.ENSEMBLE_SPREAD] = torch.std(output.ensemble.softmax(-1) @ atoms, dim=1).mean()
    return measured
