"""Every head learns in one update, through one h, and nothing else moves."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from foxhunt.config import LearnerConfig, NetworkConfig
from foxhunt.interface import Hold
from foxhunt.nn.isv import Slot
from foxhunt.nn.network import Network
from foxhunt.presets import PRESETS
from foxhunt.rl.learner import Learner
from foxhunt.rl.objective import Objective
from foxhunt.rl.replay import Batch, Replay, ReplayOptions
from foxhunt.rl.targets import bootstrap

WIDTHS = {"market": 6, "portfolio": 4, "ofi": 6, "ofi3": 3, "regime": 2}
BRANCHES = (("direction", 3), ("magnitude", 3), ("order", 3), ("urgency", 3))
SMALL = {"hidden1": 16, "hidden2": 16, "head_hidden": 8, "history": 5, "atoms": 11, "plan_horizon": 4}
FULL = replace(PRESETS["full"].network, **SMALL)
LEARNING = LearnerConfig(predictive_coding=0.01, batch_size=16, warmup_steps=16, replay_capacity=800, n_step=2)
EVERY_LOSS = {
    "categorical", "quantile", "ensemble", "coordination", "confidence", "risk", "selectivity", "plan", "predictive",
}  # fmt: skip


def make_batch(network: Network, count: int = 16, dtype: torch.dtype = torch.float32) -> Batch:
    """A batch out of a replay of random episodes."""
    generator = torch.Generator().manual_seed(5)
    environments = 4
    replay = Replay(WIDTHS, 4, environments, LEARNING, 0, options=ReplayOptions.of(network, LEARNING))
    ended = torch.zeros(environments, dtype=torch.bool)
    for _ in range(60):
        ends = (torch.rand(environments, generator=generator) < 0.05) & ~ended
        replay.add(
            {part: torch.randn(environments, width, generator=generator) for part, width in WIDTHS.items()},
            torch.randint(3, (environments, 4), generator=generator),
            torch.randn(environments, generator=generator),
            ends,
            torch.zeros_like(ends),
            ended,
            torch.randn(environments, network.encoder.memory_width, generator=generator),
            Hold(torch.randn(environments, generator=generator), torch.rand(environments, generator=generator)),
        )
        ended = ends
    batch = replay.sample(count, torch.tensor(0.4))
    return torch.utils._pytree.tree_map(lambda x: x.to(dtype) if x is not None and x.is_floating_point() else x, batch)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(0)
    network = Network(WIDTHS, BRANCHES, FULL)
    # Away from the zeros and identities of the start, so that every path carries gradient.
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network


def test_full_network_trains_every_head_and_every_parameter(network: Network) -> None:
    learner = Learner(network, LEARNING, 100)
    start = learner.parameters.clone()
    result = learner.update(make_batch(network))
    assert {name.removeprefix("loss_") for name in result if name.startswith("loss_")} == EVERY_LOSS
    moved = learner._flat.by_name((learner.parameters - start).abs())
    still = [name for name, movement in moved.items() if not movement.max() > 0]
    assert not still


SEED = torch.tensor(3)


class LossesOfH:
    """Weighted losses of preset `full`, and their total, as functions of the trunk's output alone.

    Finite differences see through `detach`. So what the program detaches on the first run is held for the later ones:
    then a difference measures what autograd is meant to give, with the same stops in it and the same share of the
    branches' gradient.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        sizes = {"hidden1": 4, "hidden2": 4, "head_hidden": 3, "history": 3, "atoms": 5, "quantiles": 2, "ensemble": 2}
        self.network = Network(WIDTHS, BRANCHES, replace(FULL, **sizes)).double()
        for parameter in self.network.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        self.batch = make_batch(self.network, count=8, dtype=torch.float64)
        self.targets = bootstrap(self.network, self.network, self.batch, SEED)
        self.detached: list[torch.Tensor] = []

    def __call__(self, h: torch.Tensor) -> dict[str, torch.Tensor]:
        objective, detach = Objective(self.network, LEARNING), torch.Tensor.detach
        held = iter(self.detached) if self.detached else None

        def stop(tensor: torch.Tensor) -> torch.Tensor:
            if held is None:
                self.detached.append(detach(tensor).clone())
                return self.detached[-1]
            return next(held)

        with self.monkeypatch.context() as patch:
            patch.setattr(self.network.encoder, "trunk_output", lambda _: h)
            patch.setattr(torch.Tensor, "detach", stop)
            total, found = objective(self.batch, self.targets, SEED)
            return {"total": total} | {name: objective.weights[name] * part for name, part in found.losses.items()}


@pytest.fixture
def losses_of_h(monkeypatch: pytest.MonkeyPatch) -> tuple[LossesOfH, torch.Tensor]:
    torch.manual_seed(0)
    return LossesOfH(monkeypatch), torch.randn(8, 4, dtype=torch.float64, requires_grad=True)


def test_gradient_of_h_is_the_sum_of_its_consumers(losses_of_h: tuple[LossesOfH, torch.Tensor]) -> None:
    """In float64 and on signed h: all losses at once send into h what they send one by one."""
    losses, h = losses_of_h
    gradient = {
        name: torch.autograd.grad(loss, h, retain_graph=True, materialize_grads=True)[0]
        for name, loss in losses(h).items()
    }
    whole = gradient.pop("total")
    torch.testing.assert_close(whole, torch.stack(list(gradient.values())).sum(0), rtol=1e-12, atol=1e-15)
    # Coordination reads Q values, not h (row 26); every other head reaches the trunk.
    reaching = {name for name, part in gradient.items() if part.abs().max() > 0}
    assert reaching == EVERY_LOSS - {"coordination"}


def test_every_loss_passes_gradcheck_on_signed_h(losses_of_h: tuple[LossesOfH, torch.Tensor]) -> None:
    """All consumers of h that preset `full` has, each loss alone and their sum, against central differences."""
    losses, h = losses_of_h
    assert set(losses(h)) == EVERY_LOSS | {"total"}
    assert (h < 0).any()
    assert (h > 0).any()
    assert torch.autograd.gradcheck(lambda h: tuple(losses(h).values()), (h,), eps=1e-6, atol=1e-9, rtol=1e-6)


def test_gradcheck_sees_a_consumer_that_loses_the_sign_of_h(
    losses_of_h: tuple[LossesOfH, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hand-written backward that masks where h is negative, as one for a ReLU trunk would."""

    class Masked(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, h: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(h)
            return h.clone()

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
            (h,) = ctx.saved_tensors
            return gradient * (h > 0)

    losses, h = losses_of_h
    forward = losses.network.selectivity.forward
    monkeypatch.setattr(losses.network.selectivity, "forward", lambda h: forward(Masked.apply(h)))
    losses(h)
    for name, right in (("selectivity", False), ("plan", True)):
        passed = torch.autograd.gradcheck(
            lambda h, name=name: losses(h)[name], (h,), eps=1e-6, atol=1e-9, rtol=1e-6, raise_exception=False
        )
        assert passed == right


def test_quantile_target_is_chosen_by_the_online_mean_and_judged_by_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Online, action 1 has the best mean and action 0 the best median; the target's quantiles are 10 a + tau."""
    online, target = (Network(WIDTHS, BRANCHES, replace(FULL, quantiles=64)) for _ in range(2))

    def gamble(h: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        each = torch.stack((torch.ones_like(tau), 8.0 * (tau > 0.75), torch.zeros_like(tau)), -1)
        return each.unsqueeze(2).expand(-1, -1, len(BRANCHES), -1)

    def ladder(h: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return (tau.unsqueeze(-1) + 10 * torch.arange(3)).unsqueeze(2).expand(-1, -1, len(BRANCHES), -1)

    monkeypatch.setattr(online, "quantiles", gamble)
    monkeypatch.setattr(target, "quantiles", ladder)
    batch = make_batch(online)
    samples = bootstrap(online, target, batch, SEED).samples
    assert samples.shape == (16, 64 * len(BRANCHES))
    law = (samples - batch.reward[:, None]) / batch.discount[:, None]
    goes_on = batch.discount > 0
    assert goes_on.any()
    assert law[goes_on].min() >= 10
    assert law[goes_on].max() <= 11
    torch.testing.assert_close(samples[~goes_on], batch.reward[~goes_on, None].expand(-1, 64 * len(BRANCHES)))


def test_target_does_not_learn_and_follows_at_its_rate(network: Network) -> None:
    learner = Learner(network, replace(LEARNING, target_rate=0.25), 100)
    before = learner.target_parameters.clone()
    slots_before = learner.target.encoder.isv.slots.clone()
    learner.update(make_batch(network))
    torch.testing.assert_close(learner.target_parameters, before.lerp(learner.parameters, 0.25))
    isv = learner.network.encoder.isv.slots
    torch.testing.assert_close(learner.target.encoder.isv.slots, slots_before.lerp(isv, 0.25))


def test_update_measures_the_internal_state(network: Network) -> None:
    learner = Learner(network, LEARNING, 100)
    batch = make_batch(network)
    h = network(batch.observation, learner.updates * 8 + 1).h
    result = learner.update(batch)
    slots = network.encoder.isv.slots
    assert slots[Slot.H_RMS].item() == pytest.approx(h.square().mean().sqrt().item(), rel=1e-5)
    assert slots[Slot.TD_ERROR].item() == pytest.approx(result["td_error"].item(), rel=1e-5)
    assert slots[Slot.TD_TREND].item() == pytest.approx(1, rel=1e-5)
    assert slots[Slot.GRADIENT_NORM].item() == pytest.approx(result["gradient_norm"].log().item(), rel=1e-4)
    assert slots[Slot.ENSEMBLE_SPREAD] > 0
    assert 0 < slots[Slot.ENTROPY] < 1
    assert 0 <= slots[Slot.HEALTH] <= 1


@pytest.mark.parametrize("trunk", ["grn", "relu"])
def test_magnitude_input_has_one_rms_under_either_trunk(trunk: str) -> None:
    """Row 3: after measuring, the values beside h have the RMS of h; before, a trunk of large scale drowns them."""
    torch.manual_seed(0)
    config = NetworkConfig(trunk=trunk, hidden1=32, hidden2=32, v_min=-5.0, v_max=5.0)
    network = Network(WIDTHS, BRANCHES, config)
    for block in network.encoder.trunk:
        for parameter in block.parameters():
            parameter.data.mul_(3)
    learner = Learner(
        network, replace(LEARNING, predictive_coding=0.0, learning_rate=1e-9, learning_rate_end=1e-9), 999
    )
    batch = make_batch(network)

    @torch.no_grad()
    def ratio() -> float:
        output = network(batch.observation)
        values = network.heads.value_rms(output.logits) * network.encoder.isv.match()
        return float(values / output.h.square().mean().sqrt())

    before = ratio()
    for _ in range(3):
        learner.update(batch)
    assert before < 0.7
    assert ratio() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("head", ["temporal", "gated_branches", "internal_state", "coordination", "confidence"])
def test_each_switch_leaves_its_part_out(head: str) -> None:
    off = {head: False} | ({"risk_budget": False} if head == "confidence" else {})
    network = Network(WIDTHS, BRANCHES, replace(FULL, **off))
    learner = Learner(network, LEARNING, 100)
    full = sum(p.numel() for p in Network(WIDTHS, BRANCHES, FULL).parameters())
    assert sum(p.numel() for p in network.parameters()) < full
    assert torch.isfinite(learner.update(make_batch(network))["loss"])


def test_one_update_compiles_into_one_graph_and_equals_eager(network: Network) -> None:
    """In float64, where Adam does not magnify the rounding of another order of sums."""
    network = network.double()
    batch = make_batch(network, dtype=torch.float64)
    eager, compiled = Learner(deepcopy(network), LEARNING, 100), Learner(network, LEARNING, 100)
    torch.compiler.reset()
    update = torch.compile(compiled._eager_update, fullgraph=True, backend="aot_eager")
    for _ in range(3):
        expected, got = eager.update(batch), update(batch)
        for name, value in expected.items():
            torch.testing.assert_close(got[name], value, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(compiled.parameters, eager.parameters, rtol=1e-6, atol=1e-9)
