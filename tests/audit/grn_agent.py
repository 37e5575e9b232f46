"""A small agent with a gated residual trunk, whose consumers all take signed input: the auditor must find nothing."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from foxhunt.audit import Spec

STATES, WIDTH, HIDDEN, BATCH, QUANTILES, DELTA_Z = 10, 12, 8, 16, 5, 0.2


class ResidualGate(torch.autograd.Function):
    """skip + value * sigmoid(gate), with its backward by hand."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, skip: Tensor, value: Tensor, gate: Tensor) -> Tensor:
        """The residual sum."""
        opened = torch.sigmoid(gate)
        ctx.save_for_backward(value, opened)
        return skip + value * opened

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """To the skip path, the value and the gate."""
        value, opened = ctx.saved_tensors
        return grad, grad * opened, grad * value * opened * (1 - opened)


class CenteredProduct(torch.autograd.Function):
    """h * w + h, with its backward by hand."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, h: Tensor, w: Tensor) -> Tensor:
        """The scaled tensor and itself."""
        ctx.save_for_backward(h, w)
        return h * w + h

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The second summand is the residual."""
        h, w = ctx.saved_tensors
        d_h = grad * w + grad
        return d_h, (grad * h).sum(0)


class Trunk(nn.Module):
    """LayerNorm(skip + GLU(W ELU(V x)))"""

    def __init__(self) -> None:
        super().__init__()
        self.skip, self.inner = nn.Linear(STATES, WIDTH), nn.Linear(STATES, WIDTH)
        self.outer, self.norm = nn.Linear(WIDTH, 2 * WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, states: Tensor) -> Tensor:
        """h_s2"""
        value, gate = self.outer(functional.elu(self.inner(states))).chunk(2, -1)
        return self.norm(ResidualGate.apply(self.skip(states), value, gate))


class Agent(nn.Module):
    """Trunk and heads."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk()
        self.value, self.direction = nn.Linear(WIDTH, HIDDEN), nn.Linear(WIDTH, 3)
        self.magnitude, self.urgency = nn.Linear(WIDTH + 3, HIDDEN), nn.Linear(WIDTH + 2, HIDDEN)
        self.embed, self.quantile = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 3)
        self.confidence, self.select = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(0.1 * torch.randn(WIDTH))

    def value_head(self, h: Tensor) -> Tensor:
        """ReLU after a linear layer"""
        return torch.relu(self.value(h))

    def bottleneck(self, h: Tensor) -> Tensor:
        """h * sigmoid(W h)"""
        return h * torch.sigmoid(self.select(h))

    def direction_head(self, h: Tensor) -> Tensor:
        """Q of three directions"""
        return self.direction(h)

    def magnitude_head(self, h: Tensor, q: Tensor) -> Tensor:
        """[h; Q / delta_z], both of one RMS by measurement"""
        scaled = q / DELTA_Z
        scaled = scaled * (h.square().mean().sqrt() / (scaled.square().mean().sqrt() + 1e-6)).detach()
        return torch.relu(self.magnitude(torch.cat([h, scaled], -1)))

    def urgency_head(self, h: Tensor, flow: Tensor) -> Tensor:
        """[h; order flow]"""
        joined = torch.cat([h, flow], -1)
        return torch.relu(self.urgency(joined))

    def quantile_head(self, h: Tensor, cosines: Tensor) -> Tensor:
        """h * ReLU(W cos(tau))"""
        return self.quantile(h[:, None] * torch.relu(self.embed(cosines)))

    def confidence_head(self, h: Tensor) -> Tensor:
        """sigmoid(W h)"""
        return torch.sigmoid(self.confidence(h))

    def enrich(self, h: Tensor) -> Tensor:
        """h * w + h"""
        return CenteredProduct.apply(h, self.scale)


def predictive_coding(h: Tensor) -> Tensor:
    """Squared difference of consecutive samples"""
    return (h[1:] - h[:-1]).square().mean()


def store(memory: Tensor, h: Tensor) -> None:
    """Keep h for replay."""
    memory[0] = h


def target_value(models: Mapping[str, Agent], states: Tensor) -> Tensor:
    """The target network: the same trunk, other weights."""
    with torch.no_grad():
        tg_h_s2 = models["target"].trunk(states)
        return models["target"].value_head(tg_h_s2).mean(-1)


def step(models: Mapping[str, Agent], states: Tensor, flow: Tensor, cosines: Tensor, memory: Tensor) -> None:
    """One training step."""
    agent = models["online"]
    h = agent.trunk(states)
    store(memory, h.detach())
    q = agent.direction_head(h)
    loss = (agent.value_head(h).mean(-1) - target_value(models, states)).square().mean() + predictive_coding(h)
    loss = loss + agent.bottleneck(h).mean() + agent.magnitude_head(h, q).mean() + agent.urgency_head(h, flow).mean()
    loss = loss + agent.quantile_head(h, cosines).square().mean() + agent.confidence_head(h).mean()
    (loss + agent.enrich(h).square().mean()).backward()


def build() -> Spec:
    """The program to audit."""
    torch.manual_seed(3)
    models = {"online": Agent(), "target": Agent()}
    states, flow, cosines = torch.randn(BATCH, STATES), torch.randn(BATCH, 2), torch.randn(BATCH, QUANTILES, 4)
    inputs = (models, states, flow, cosines, torch.zeros(4, BATCH, WIDTH))
    return Spec(step, inputs, ("online.trunk", "target.trunk"), becomes="signed,rms=1", models=models)
