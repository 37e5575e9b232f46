"""What h and the values look like: reads a network on given states, never moves it."""

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.nn.network import Network

DEAD_SHARE = 0.01
"""Standard deviation, as a share of the RMS of all units, below which a signed unit counts as dead."""


def dead_units(activation: Float[Tensor, "batch units"]) -> Float[Tensor, ""]:
    """Share of units that tell no state from another.

    In an activation without negative values (a ReLU trunk) a unit is dead that is above zero on no state; in a signed
    one, a unit whose standard deviation over the states is below `DEAD_SHARE` of the RMS of all units.
    """
    rectified = (activation >= 0).all()
    spread = activation.std(0, correction=0)
    flat = spread < DEAD_SHARE * rms(activation)
    return torch.where(rectified, (activation <= 0).all(0), flat).to(activation.dtype).mean()


def effective_rank(matrix: Float[Tensor, "batch units"]) -> Float[Tensor, ""]:
    """Exponential of the entropy of the normalised singular values; 0 for a matrix of zeros.

    Source: Roy and Vetterli 2007.
    """
    singular = torch.linalg.svdvals(matrix.double())
    share = singular / singular.sum().clamp(min=1e-300)
    entropy: Tensor = torch.special.entr(share).sum()
    return torch.where(singular.sum() > 0, entropy.exp(), 0)


def rms(tensor: Tensor) -> Float[Tensor, ""]:
    """Root of the mean square of all elements."""
    return tensor.square().mean().sqrt()


def value_statistics(q: Float[Tensor, "batch actions"]) -> dict[str, Float[Tensor, ""]]:
    """Mean and standard deviation over states and actions, and the mean gap between the best and the second action.

    A branch of a single action has no gap: 0.
    """
    best = q.topk(min(2, q.shape[1]), dim=1).values
    return {"mean": q.mean(), "std": q.std(correction=0), "gap": (best[:, 0] - best[:, -1]).mean()}


@torch.no_grad()
def monitor(network: Network, observation: dict[str, Tensor]) -> dict[str, float]:
    """Statistics of a network on a batch of states, by name; brings them to the host.

    `q_BRANCH_mean`, `_std` and `_gap` in reward units; `dead_units` of the trunk's output h_s2; of the h that the heads
    read `effective_rank` and `h_rms`; and, where a branch reads another's values, the RMS of these beside h in units of
    delta_z: `values_rms` as they are, `matched_rms` as the branch reads them.
    """
    output = network(observation)
    values = network.values(output.logits)
    found = {
        f"q_{name}_{statistic}": value
        for name, count, q in zip(network.heads.names, network.heads.counts, values.unbind(1), strict=True)
        for statistic, value in value_statistics(q[:, :count]).items()
    }
    found |= {
        "dead_units": dead_units(network.encoder.trunk_output(observation)),
        "effective_rank": effective_rank(output.h),
        "h_rms": rms(output.h),
    }
    if (values_rms := network.heads.value_rms(output.logits)) is not None:
        found |= {"values_rms": values_rms, "matched_rms": values_rms * network.encoder.isv.match()}
    return {name: float(value) for name, value in found.items()}
