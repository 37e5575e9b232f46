"""The update against an independent one written with autograd and torch.optim; compilation; no host sync."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from foxhunt.config import LearnerConfig, NetworkConfig
from foxhunt.nn.network import Network
from foxhunt.rl.learner import Learner
from foxhunt.rl.replay import Batch, Replay

WIDTHS = {"market": 5, "ofi3": 3}
TRADING = (("direction", 3), ("magnitude", 3), ("order", 3), ("urgency", 3))
UNEQUAL = (("a", 2), ("b", 4))


def make(
    trunk: str = "grn",
    branches: tuple[tuple[str, int], ...] = TRADING,
    dtype: torch.dtype = torch.float32,
    total: int = 50,
    compile: bool = False,
    **settings: float,
) -> Learner:
    torch.manual_seed(0)
    config = NetworkConfig(
        trunk=trunk, hidden1=12, hidden2=10, head_hidden=6, atoms=17, v_min=-3, v_max=5
    )  # spacing 0.5: exact in float32
    return Learner(Network(WIDTHS, branches, config).to(dtype), LearnerConfig(**settings), total, compile)


def draw(seed: int, branches: tuple[tuple[str, int], ...] = TRADING, dtype: torch.dtype = torch.float32) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    rows = 8

    def observe() -> dict[str, torch.Tensor]:
        return {part: torch.randn(rows, width, dtype=dtype, generator=generator) for part, width in WIDTHS.items()}

    columns = [torch.randint(0, count, (rows,), generator=generator) for _, count in branches]
    return Batch(
        observation=observe(),
        action=torch.stack(columns, dim=1),
        reward=torch.randn(rows, dtype=dtype, generator=generator),
        discount=torch.rand(rows, dtype=dtype, generator=generator).round(decimals=1),
        next_observation=observe(),
        weight=torch.rand(rows, dtype=dtype, generator=generator),
        slot=torch.arange(rows),
    )


def reference_update(
    network: Network, target: Network, optimizer: torch.optim.Optimizer, batch: Batch, clip: float
) -> dict[str, torch.Tensor]:
    """One update in the plainest torch: a loop over transitions and branches, backward(), torch.optim."""
    z, rows = network.atoms, len(batch.reward)
    delta = (z[-1] - z[0]) / (len(z) - 1)
    counts = network.action_counts.tolist()
    with torch.no_grad():
        online_next, target_next = network(batch.next_observation).logits, target(batch.next_observation).logits
    logits = network(batch.observation).logits
    losses, priorities = [], []
    for i in range(rows):
        mixture = torch.zeros_like(z)
        for b, count in enumerate(counts):
            greedy = int((online_next[i, b, :count].softmax(-1) @ z).argmax())
            mixture += target_next[i, b, greedy].softmax(-1) / len(counts)
        moved = (batch.reward[i] + batch.discount[i] * z).clamp(z[0], z[-1])
        m = torch.stack([(mixture * (1 - (moved - atom).abs() / delta).clamp(min=0)).sum() for atom in z])
        total, error = torch.zeros((), dtype=z.dtype), torch.zeros((), dtype=z.dtype)
        for b in range(len(counts)):
            taken = logits[i, b, batch.action[i, b]]
            total = total - (m * taken.log_softmax(-1)).sum() / len(counts)
            error += (m @ z - taken.detach().softmax(-1) @ z).abs()
        losses.append(batch.weight[i] * total)
        priorities.append(error)
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    return {"loss": loss.detach(), "priority": torch.stack(priorities), "gradient_norm": norm}


@pytest.mark.parametrize("branches", [TRADING, UNEQUAL], ids=["trading", "unequal"])
@pytest.mark.parametrize("trunk", ["grn", "relu"])
def test_update_equals_an_independent_one(trunk: str, branches: tuple[tuple[str, int], ...]) -> None:
    settings = {"learning_rate": 1e-2, "learning_rate_end": 2e-3, "gradient_clip": 0.05, "weight_decay": 0.02}
    learner = make(trunk, branches, torch.float64, total=4, target_rate=0.25, target_period=2, **settings)
    network, target = deepcopy(learner.network), deepcopy(learner.target)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1.0, weight_decay=0.02)
    for step in range(4):
        batch = draw(step, branches, torch.float64)
        optimizer.param_groups[0]["lr"] = 1e-2 + (2e-3 - 1e-2) * step / 3
        expected = reference_update(network, target, optimizer, batch, clip=0.05)
        network.load_state_dict({**network.state_dict(), **_measured(learner.network, batch)})
        if (step + 1) % 2 == 0:
            with torch.no_grad():
                for name, value in target.state_dict().items():
                    value.lerp_(network.state_dict()[name], 0.25)
        result = learner.update(batch)
        for name, value in expected.items():
            torch.testing.assert_close(result[name], value, rtol=1e-9, atol=1e-11, msg=f"{name}, step {step}")
        for ours, theirs in ((learner.network, network), (learner.target, target)):
            for name, value in ours.named_parameters():
                torch.testing.assert_close(value, theirs.get_parameter(name), rtol=1e-7, atol=1e-9, msg=name)
            if branches is TRADING:
                slots = (state.state_dict()[SLOTS][:2] for state in (ours, theirs))
                torch.testing.assert_close(*slots, rtol=1e-7, atol=1e-9)


SLOTS = "encoder.isv.slots"


def _measured(network: Network, batch: Batch) -> dict[str, torch.Tensor]:
    """The slots that the forward pass reads, as they must be after this update; the others never enter it here."""
    twin = deepcopy(network)
    isv = twin.encoder.isv
    h, logits = twin.encoder.trunk(torch.cat(list(batch.observation.values()), 1)), twin(batch.observation).logits
    q = (logits[:, 0].softmax(-1) @ twin.atoms) / 0.5
    fresh = torch.stack([h.square().mean().sqrt(), q.square().mean().sqrt()]).detach()
    slots = isv.slots.clone()
    slots[:2] += (fresh - slots[:2]) / (isv.measurements + 1)
    return {SLOTS: slots}


@pytest.mark.parametrize(("trunk", "branches"), [("grn", TRADING), ("relu", UNEQUAL)])
def test_compiles_to_one_graph_and_equals_eager(trunk: str, branches: tuple[tuple[str, int], ...]) -> None:
    eager, compiled = make(trunk, branches), make(trunk, branches)
    compiled._update = torch.compile(compiled._eager_update, fullgraph=True, backend="aot_eager")
    for step in range(3):
        batch = draw(step, branches)
        ours, theirs = eager.update(batch), compiled.update(batch)
        for name, value in ours.items():
            torch.testing.assert_close(theirs[name], value, rtol=1e-5, atol=1e-6, msg=name)
    torch.testing.assert_close(compiled.parameters, eager.parameters, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(compiled.target_parameters, eager.target_parameters, rtol=1e-5, atol=1e-6)
    assert compiled.updates.item() == 3


def test_compile_setting_is_one_graph_too(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def fake(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        calls.append(options)
        return function

    monkeypatch.setattr(torch, "compile", fake)
    make(compile=True)
    make(compile=False)
    assert calls == [{"fullgraph": True}]


class ForbidHostSync(TorchDispatchMode):
    """Fails on whatever brings a tensor's value or a data-dependent shape to the host."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "masked_select", "_unique", "item", "is_nonzero", "equal")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().split("::")[1].split(".")[0]
        assert name not in self.FORBIDDEN, f"host sync: {func.name()}"
        if name in ("index", "index_put", "index_put_"):
            for index in args[1]:
                assert index is None or index.dtype != torch.bool, "boolean indexing has a data-dependent shape"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("trunk", ["grn", "relu"])
def test_sample_update_and_write_back_never_wait_for_the_device(trunk: str) -> None:
    config = LearnerConfig(replay_capacity=64, batch_size=16, warmup_steps=16)
    replay = Replay(WIDTHS, 4, 4, config, seed=0)
    flag = torch.zeros(4, dtype=torch.bool)
    step = draw(0)
    observation = {part: value[:4] for part, value in step.observation.items()}
    learner = make(trunk, target_period=3)
    with ForbidHostSync():
        for _ in range(20):
            replay.add(observation, step.action[:4], step.reward[:4], flag, flag, flag)
        for _ in range(4):
            batch = replay.sample(16, learner.importance_exponent())
            replay.prioritise(batch.slot, learner.update(batch)["priority"])
    with pytest.raises(AssertionError, match="host sync"), ForbidHostSync():
        learner.updates.item()


def test_periodic_sync_counts_updates_from_one() -> None:
    learner = make(target_rate=1.0, target_period=3)
    synced = []
    for step in range(1, 8):
        learner.update(draw(step))
        if torch.equal(learner.target_parameters, learner.parameters):
            synced.append(step)
    assert synced == [3, 6]


def test_target_is_its_own_copy_at_the_start() -> None:
    learner = make(target_rate=1.0, target_period=1000)
    assert torch.equal(learner.target_parameters, learner.parameters)
    start = learner.target_parameters.clone()
    learner.update(draw(0))
    assert torch.equal(learner.target_parameters, start)
    assert not torch.equal(learner.parameters, start)


def test_importance_weights_scale_the_loss_but_not_the_priorities() -> None:
    batch = draw(3)
    plain = make().update(batch._replace(weight=torch.ones(8)))
    tenth = make().update(batch._replace(weight=torch.full((8,), 0.1)))
    torch.testing.assert_close(tenth["loss"], 0.1 * plain["loss"])
    assert torch.equal(tenth["priority"], plain["priority"])


def test_schedules_end_at_the_last_update() -> None:
    learner = make(total=4, learning_rate=1e-3, learning_rate_end=1e-4, importance_start=0.4)
    rates, exponents = [], []
    for step in range(4):
        exponents.append(learner.importance_exponent().item())
        rates.append(learner.update(draw(step))["learning_rate"].item())
    assert rates == pytest.approx([1e-3, 7e-4, 4e-4, 1e-4])
    assert exponents == pytest.approx([0.4, 0.6, 0.8, 1.0])


def test_state_round_trip_is_bit_exact() -> None:
    a, b = make(), make()
    for step in range(3):
        a.update(draw(step))
    b.load_state_dict(a.state_dict())
    for step in range(3, 6):
        ours, theirs = a.update(draw(step)), b.update(draw(step))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert torch.equal(a.parameters, b.parameters)
    assert torch.equal(a.target_parameters, b.target_parameters)
