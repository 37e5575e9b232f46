"""Measures of one update for the internal state vector."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.nn.isv import Slot
from foxhunt.nn.network import Network, NetworkOutput
from foxhunt.rl.replay import Batch
from foxhunt.rl.targets import Targets


@torch.no_grad()
def measure(
    network: Network,
    batch: Batch,
    targets: Targets,
    output: NetworkOutput,
    q: Float[Tensor, "batch branches"],
    td_error: Float[Tensor, " batch"],
) -> dict[Slot, Float[Tensor, ""]]:
    """What an update sees of its own values, errors and rewards; reads, never writes.

    Args:
        network: the online network.
        batch: the transitions at hand.
        targets: what they learn towards.
        output: the network's view of them.
        q: values of the actions taken.
        td_error: sum over branches of |target - q|.
    """
    atoms = network.atoms
    law = output.logits.softmax(-1)
    entropy = -(law * output.logits.log_softmax(-1)).sum(-1)
    exists = network.heads.exists
    returns = targets.probabilities @ atoms
    unexplained = (returns - q.mean(1)).var() / returns.var().clamp(min=1e-12)
    measured = {
        Slot.H_RMS: output.h.square().mean().sqrt(),
        Slot.TD_ERROR: td_error.mean() / q.shape[1],
        Slot.TARGET_DRIFT: targets.drift,
        Slot.ENTROPY: (entropy * exists).mean() / exists.to(entropy.dtype).mean() / math.log(len(atoms)),
        Slot.REWARD_VOLATILITY: batch.reward.square().mean().sqrt(),
        Slot.HEALTH: (1 - unexplained).clamp(0, 1),
    }
    if (value_rms := network.heads.value_rms(output.logits)) is not None:
        measured[Slot.VALUE_RMS] = value_rms
    if output.ensemble is not None:
        measured[Slot.ENSEMBLE_SPREAD] = torch.std(output.ensemble.softmax(-1) @ atoms, dim=1).mean()
    return measured
