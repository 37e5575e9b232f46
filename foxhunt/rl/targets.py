"""What an update learns towards: one bootstrap for every value head, from one pass of each network."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.nn.gates import uniform_draw
from foxhunt.nn.network import Network
from foxhunt.rl import branching, categorical
from foxhunt.rl.replay import Batch


class Targets(NamedTuple):
    """Fixed in the loss; None where the network lacks the head."""

    probabilities: Float[Tensor, "batch atoms"]
    """Mixture over branches of the bootstrapped return's distribution, on the atoms."""
    samples: Float[Tensor, "batch pooled"] | None
    """The quantile head's samples of the same law, pooled over branches."""
    coordinated: Float[Tensor, " batch"] | None
    """Mean over branches of the bootstrapped coordinated value."""
    drift: Float[Tensor, ""]
    """Mean |online - target| of the values of all actions."""


@torch.no_grad()
def bootstrap(network: Network, target: Network, batch: Batch, seed: Int[Tensor, ""]) -> Targets:
    """Double-Q: the online network chooses in every branch, the target network judges. `seed` draws fresh tau."""
    online, held = network(batch.next_observation), target(batch.next_observation)
    q, held_q = network.values(online.logits), network.values(held.logits)
    exists = network.heads.exists
    mixture = branching.double_q_mixture(q, held.logits)
    samples = coordinated = None
    if network.quantile:
        count = network.config.quantiles
        tau = uniform_draw(seed, (2, len(batch.reward), count)).to(batch.reward.dtype)
        choice = network.mask(network.quantiles(online.h, tau[0]).mean(1)).argmax(-1)
        law = branching.take_quantiles(target.quantiles(held.h, tau[1]), choice).flatten(1)
        samples = batch.reward.unsqueeze(1) + batch.discount.unsqueeze(1) * law
    if network.coordinator:
        choice = network.coordinate(q).argmax(-1)
        judged = target.coordinate(held_q)
        value = judged.gather(-1, choice.unsqueeze(-1)).squeeze(-1).mean(1)
        coordinated = batch.reward + batch.discount * value
    return Targets(
        probabilities=categorical.project(batch.reward, batch.discount, mixture, network.atoms),
        samples=samples,
        coordinated=coordinated,
        drift=torch.where(exists, q - held_q, 0).abs().mean() / exists.to(q.dtype).mean(),
    )
