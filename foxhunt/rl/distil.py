"""A new trunk under old heads: fitted until the heads say of every state what they said before.

The heads are frozen, so that nothing but the trunk moves. Matching h alone leaves errors where the heads look
closest; matching what they say alone leaves h free where no state of the sample looks. So both are matched, together
with the order of the values acted on. Source: Rusu et al. 2016, "Policy distillation", for the sharpened values.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.config import ActingConfig, require
from foxhunt.nn.grn import GatedResidualBlock
from foxhunt.nn.isv import Slot
from foxhunt.nn.network import Network, NetworkOutput
from foxhunt.rl.act import Actor
from foxhunt.rl.agent import make_network
from foxhunt.rl.rehearse import CHUNK, States, View

TRUNK = "encoder.trunk."
"""What names of the trunk's parameters begin with; everything else is a consumer of h."""


@dataclass(frozen=True)
class DistilConfig:
    """How long and how fast a new trunk is fitted."""

    updates: int = 4_000
    """Optimizer steps."""
    batch_size: int = 512
    """States a step."""
    jitter: float = 0.1
    """Noise added to half of the states, in standard deviations of each input: the old network can be asked about any
    state, so the new one learns what lies between those that were met."""
    learning_rate: float = 2e-3
    """Adam's step size at the start; falls to 0 along half a cosine."""
    refreshes: int = 10
    """Times that the new network's history and measured slots are brought up to date."""

    def __post_init__(self) -> None:
        require(min(self.updates, self.batch_size, self.refreshes) >= 1, "distillation counts must be at least 1")
        require(self.learning_rate > 0, "the distillation's learning rate must be positive")


def graft(
    network: Network,
    branches: tuple[tuple[str, int], ...],
    widths: dict[str, int],
    trunk: Literal["grn", "relu"],
    seed: int,
) -> Network:
    """A network with a fresh trunk of another kind under copies of every head and measurement of `network`."""
    fresh = make_network(widths, branches, replace(network.config, trunk=trunk), seed).to(network.atoms.device)
    kept = {name: tensor for name, tensor in network.state_dict().items() if not name.startswith(TRUNK)}
    fresh.load_state_dict(kept, strict=False)
    return fresh


def distil(
    teacher: Network,
    student: Network,
    acting: ActingConfig,
    states: States,
    config: DistilConfig,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Fit the student's trunk, in place, so that its heads say what the teacher's say; then measure its slots anew.

    Args:
        teacher: the network to imitate; not changed.
        student: same heads, another trunk; see `graft`.
        acting: how values are acted on, whose order is kept.
        states: what to fit on.
        config: length and step size.
        seed: draws the batches.
        progress: told of updates done and due.
    """
    parameters = [p for name, p in student.named_parameters() if name.startswith(TRUNK)]
    optimizer = torch.optim.Adam(parameters, config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.updates)
    device = states.places.device
    generator = torch.Generator(device).manual_seed(seed)
    old, new = View(teacher, states), View(student, states)
    match_slots(old, new)
    imitation = Imitation(old, new, acting)
    for update in range(config.updates):
        if update and update % -(-config.updates // config.refreshes) == 0:
            new.refresh()
            match_slots(old, new)
        drawn = torch.randint(
            len(states.places), (config.batch_size,), device=states.places.device, generator=generator
        )
        noise = torch.randn(config.batch_size, imitation.width, device=drawn.device, generator=generator)
        noise[::2] = 0
        gradient = torch.autograd.grad(imitation.loss(states.places[drawn], config.jitter * noise), parameters)
        for parameter, part in zip(parameters, gradient, strict=True):
            parameter.grad = part
        optimizer.step()
        schedule.step()
        progress(update + 1, config.updates)
    new.refresh()
    match_slots(old, new)


@torch.no_grad()
def match_slots(old: View, new: View) -> None:
    """Carry the slots that measure h and its values over to the new trunk.

    They are moving averages over the batches of training. What they would read under the new trunk is what they read
    under the old one times the ratio of both measured on the same states.
    """
    index = old.states.sample(4 * CHUNK)
    before, after = (measure_sizes(view, index) for view in (old, new))
    slots = new.network.encoder.isv.slots
    for slot, size in before.items():
        slots[slot] = old.network.encoder.isv.slots[slot] * after[slot] / size.clamp(min=1e-12)


@torch.no_grad()
def measure_sizes(view: View, index: Int[Tensor, " states"]) -> dict[Slot, Float[Tensor, ""]]:
    """RMS of h, and of the values that branches read where there are such branches."""
    h, values = [], []
    for piece in torch.split(index, CHUNK):
        output = view.look(piece)
        h.append(output.h.square().mean(1))
        if (rms := view.network.heads.value_rms(output.logits)) is not None:
            values.append(rms.square() * len(piece) / len(index))
    sizes = {Slot.H_RMS: torch.cat(h).mean().sqrt()}
    return sizes | ({Slot.VALUE_RMS: torch.stack(values).sum().sqrt()} if values else {})


class Imitation:
    """How far a network is from saying what another says, every part in units of its own spread."""

    def __init__(self, old: View, new: View, acting: ActingConfig) -> None:
        self.old, self.new = old, new
        self.judge = Actor(old.network, acting, 1), Actor(new.network, acting, 1)
        with torch.no_grad():
            sample = old.states.sample(CHUNK)
            output = old.look(sample)
            inputs = old.observe(sample)
            self.deviations = {part: inputs[part].std(0) for part in old.network.encoder.parts}
            self.width = sum(len(deviation) for deviation in self.deviations.values())
            self.spreads = [part.std(0).square().mean().clamp(min=1e-12) for part in self._parts(old, output)]
            best = self.judge[0].values(output).topk(2, dim=-1).values
            gap = (best[..., 0] - best[..., 1]).median(0).values
            self.temperature = torch.where(gap.isfinite(), gap, 1.0).clamp(min=1e-9)
            """Median lead of the best action in every branch: the scale on which the order of values is decided."""
        trunk = new.network.encoder.trunk[-1]
        if isinstance(trunk, GatedResidualBlock):
            h = old.network.encoder.trunk_output(inputs).detach()
            with torch.no_grad():
                trunk.norm.weight.copy_(h.std(0))
                trunk.norm.bias.copy_(h.mean(0))

    def loss(self, index: Int[Tensor, " batch"], noise: Float[Tensor, "batch width"]) -> Float[Tensor, ""]:
        """Mean over parts of the squared distance, and the divergence of the sharpened values.

        `noise` is added to the inputs of the trunk, in standard deviations.
        """
        with torch.no_grad():
            inputs = self._disturb(self.old.observe(index), noise)
            said = self.old.network(inputs)
            wanted = list(self._parts(self.old, said))
            q = self.judge[0].values(said) / self.temperature.unsqueeze(-1)
        inputs = self._disturb(self.new.observe(index), noise)
        says = self.new.network(inputs)
        parts = list(self._parts(self.new, says))
        distance = torch.stack(
            [(a - b).square().mean() / s for a, b, s in zip(parts, wanted, self.spreads, strict=True)]
        )
        own = self.judge[1].values(says) / self.temperature.unsqueeze(-1)
        real = torch.isfinite(q)
        law, logs = q.softmax(-1), own.log_softmax(-1)
        order = torch.where(real, law * (q.log_softmax(-1) - logs), 0.0).sum(-1).mean()
        return distance.mean() + order

    def _disturb(self, inputs: dict[str, Tensor], noise: Float[Tensor, "batch width"]) -> dict[str, Tensor]:
        parts = torch.split(noise, [deviation.shape[-1] for deviation in self.deviations.values()], dim=-1)
        moved = zip(self.deviations.items(), parts, strict=True)
        return {**inputs, **{name: inputs[name] + part * deviation for (name, deviation), part in moved}}

    def _parts(self, view: View, output: NetworkOutput) -> Iterator[Tensor]:
        """Everything that is matched, each [batch, ...]."""
        network = view.network
        yield output.memory
        yield output.h
        yield output.logits[:, network.heads.exists].flatten(1)
        if network.quantile:
            tau = torch.linspace(0.05, 0.95, 10, device=output.h.device).expand(len(output.h), -1)
            yield network.quantiles(output.h, tau)[..., network.heads.exists].flatten(1)
        for part in (output.ensemble, output.error_logit, output.risk, output.selectivity_logit, *(output.plan or ())):
            if part is not None:
                yield part.flatten(1) if part.dim() > 1 else part.unsqueeze(1)
