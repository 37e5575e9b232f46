"""Migration of a trunk: heads kept bit for bit, online and target together, agreement measured and enforced."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr

from foxhunt.config import LearnerConfig, MarketConfig, NetworkConfig, TrainConfig
from foxhunt.data.simulator import SimulatorConfig, simulate
from foxhunt.data.store import write_dataset
from foxhunt.errors import CheckpointError, ConfigError
from foxhunt.nn.isv import Slot
from foxhunt.rl.agent import load_agent, make_network
from foxhunt.rl.agreement import agree, spearman
from foxhunt.rl.checkpoint import checkpoint_folder, load_training
from foxhunt.rl.distil import TRUNK, DistilConfig, graft
from foxhunt.rl.migrate import MigrateOptions, Migration, locate, migrate
from foxhunt.rl.rehearse import View, memories, play
from foxhunt.rl.task import make_task
from foxhunt.rl.trainer import Trainer

SMALL = NetworkConfig(trunk="relu", hidden1=64, hidden2=64, head_hidden=32, atoms=21, v_min=0.0, v_max=100.0)
BRIEF = MigrateOptions(force=True, states=4_000, distil=DistilConfig(updates=150, batch_size=256))
"""In passing: what is kept, and what is written, does not depend on how well a trunk fits."""


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned to balance for a while."""
    out = tmp_path_factory.mktemp("cartpole") / "run"
    learner = LearnerConfig(
        learning_rate=2e-3, n_step=5, batch_size=64, replay_capacity=8_000, warmup_steps=500, steps_per_update=8
    )
    config = TrainConfig(
        env="CartPole-v1", steps=6_000, environments=8, evaluations=3, network=SMALL, learner=learner, out=out
    )
    Trainer(config).train()
    return out


@pytest.fixture(scope="module")
def migration(cartpole: Path) -> Migration:
    return migrate(cartpole, options=BRIEF)


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a simulated market whose network has a history, an internal state and every forecast."""
    folder = tmp_path_factory.mktemp("market")
    write_dataset(folder / "data", simulate(SimulatorConfig(seconds=900, signal=0.8, seed=3)).imported())
    network = NetworkConfig(
        trunk="relu", hidden1=16, hidden2=16, head_hidden=16, atoms=11, temporal=True, history=6, internal_state=True,
        quantiles=4, ensemble=2, coordination=True, confidence=True, risk_budget=True, selectivity=True,
        trade_plan=True, attention_heads=2,
    )  # fmt: skip
    learner = LearnerConfig(batch_size=32, replay_capacity=1_600, warmup_steps=200, steps_per_update=16)
    config = TrainConfig(
        data=folder / "data", steps=2_400, evaluations=2, market=MarketConfig(initial_cash=500_000.0), network=network,
        learner=learner, out=folder / "run",
    )  # fmt: skip
    Trainer(config).train()
    return folder / "run"


@pytest.fixture(scope="module")
def moved_market(market: Path) -> Migration:
    return migrate(market, options=replace(BRIEF, states=1_600))


def consumers(state: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    measured = ("encoder.isv.slots",)
    return ((name, tensor) for name, tensor in state.items() if not name.startswith(TRUNK) and name not in measured)


def test_a_trained_agent_acts_as_before(cartpole: Path, tmp_path: Path) -> None:
    """As the result says, and as the two folders say by themselves, action by action."""
    options = MigrateOptions(states=16_000, distil=DistilConfig(updates=2_500))
    (result,) = migrate(cartpole / "checkpoints" / "best", out=tmp_path / "run", options=options).networks
    assert result.agreement.joint >= 0.95
    assert result.agreement.rank_correlation["action"] >= 0.98
    before, after = result.agreement.h_rms
    assert after == pytest.approx(before, rel=0.1)

    old, new = load_agent(cartpole), load_agent(tmp_path / "run")
    assert (old.config.network.trunk, new.config.network.trunk) == ("relu", "grn")
    task = make_task(old.config, old.fitted)
    states, earned = play(old.network, old.config.acting, task.validation, seed=7)
    observation = {part: tensor.flatten(0, 1)[states.places] for part, tensor in states.observation.items()}
    with torch.no_grad():
        q = [agent.network.values(agent.network(observation).logits).squeeze(1) for agent in (old, new)]
    share = (q[0].argmax(1) == q[1].argmax(1)).double().mean().item()
    found = agree(View(old.network, states), View(new.network, states), old.config.acting)
    assert found.joint == found.branches["action"] == share >= 0.95
    assert found.rank_correlation["action"] == pytest.approx(spearmanr(q[0].flatten(), q[1].flatten()).statistic)
    assert len(states.places) == pytest.approx(earned * task.validation.environments)  # a reward of 1 a state


def test_every_network_is_fitted(migration: Migration) -> None:
    assert [network.name for network in migration.networks] == ["best", "last", "target"]
    assert all(network.agreement.joint >= 0.7 for network in migration.networks)  # by chance it would be about 0.5


def test_every_consumer_is_kept_bit_for_bit(
    cartpole: Path, migration: Migration, market: Path, moved_market: Migration
) -> None:
    for run, out in ((cartpole, migration.out), (market, moved_market.out)):
        for which in ("best", "last"):
            old, new = (load_agent(folder, which).network.state_dict() for folder in (run, out))
            kept = dict(consumers(new))
            assert kept.keys() == dict(consumers(old)).keys()
            assert all(torch.equal(tensor, kept[name]) for name, tensor in consumers(old))
        old, new = (load_training(folder)["learner"]["target"] for folder in (run, out))
        assert all(torch.equal(tensor, new[name]) for name, tensor in consumers(old))
        assert {name for name in new if name.startswith(TRUNK)} > {f"{TRUNK}0.norm.weight", f"{TRUNK}1.gate.weight"}


def test_only_the_slots_that_measure_h_move(market: Path, moved_market: Migration) -> None:
    old, new = (load_agent(run).network.encoder.isv.slots for run in (market, moved_market.out))
    moved = {slot for slot in Slot if old[slot] != new[slot]}
    assert moved == {Slot.H_RMS, Slot.VALUE_RMS}
    assert moved_market.networks[0].agreement.h_rms[1] > 0


def test_target_is_migrated_too_and_training_goes_on(migration: Migration, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(migration.out, out)
    state = load_training(out)["learner"]
    trunk = [name for name in state["network"] if name.startswith(TRUNK)]
    assert trunk
    assert not all(torch.equal(state["network"][name], state["target"][name]) for name in trunk)
    assert float(state["optimizer"]["steps"]) == 0
    trainer = Trainer.resume(out)
    trainer.config = replace(trainer.config, steps=6_400)
    trainer.train()
    agent = load_agent(out, "last")
    assert agent.step == 6_400
    assert agent.config.network.trunk == "grn"
    assert agent.origin is not None  # resumed runs still say where they came from
    assert agent.origin["trunk"] == "relu"
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert metrics[0]["step"] < 6_000 < metrics[-1]["step"] == 6_400


def test_stored_history_is_what_the_new_trunk_makes_of_the_old_observations(
    market: Path, moved_market: Migration
) -> None:
    before, after = load_training(market), load_training(moved_market.out)
    network = load_agent(moved_market.out, "last").network
    replay = after["replay"]
    assert torch.equal(before["replay"]["observation.market"], replay["observation.market"])
    assert not torch.equal(before["replay"]["memory"], replay["memory"])
    row = {k.removeprefix("observation."): v[5] for k, v in replay.items() if k.startswith("observation.")}
    torch.testing.assert_close(memories(network, row), replay["memory"][5])
    # The acting agent's past is the newest rows, oldest first.
    head, past = int(replay["head"]), network.config.past
    rows = [(head - past + k) % len(replay["memory"]) for k in range(past)]
    assert torch.equal(after["collector"]["actor"]["memory"], replay["memory"][rows].transpose(0, 1))
    trainer = Trainer.resume(moved_market.out)
    assert trainer.step == 2_400


def test_a_view_gives_histories_as_an_actor_has_them(market: Path) -> None:
    """Looking at recorded states in any order equals having lived through them."""
    agent = load_agent(market)
    task = make_task(agent.config, agent.fitted)
    lived: list[torch.Tensor] = []
    network = agent.network
    hook = network.register_forward_hook(lambda module, inputs, output: lived.append(output.h))
    states, _ = play(network, agent.config.acting, task.environment, seed=5, steps=300, epsilon=0.3)
    hook.remove()
    assert int(states.depth.max()) >= 255  # an episode has ended and another has begun
    assert int((states.depth == 0).sum()) > task.environment.environments
    with torch.no_grad():
        seen = View(network, states).look(states.places.flip(0)).h.flip(0)
    torch.testing.assert_close(seen, torch.cat(lived), atol=1e-5, rtol=1e-4)


def test_poor_agreement_is_refused_unless_forced(cartpole: Path, tmp_path: Path) -> None:
    hasty = MigrateOptions(states=64, distil=DistilConfig(updates=1))
    out = tmp_path / "new"
    with pytest.raises(CheckpointError, match=r"chooses as the old one in \d+\.\d% .* under the bound of 95\.0%"):
        migrate(cartpole, out=out, options=hasty)
    assert list(tmp_path.iterdir()) == []
    forced = migrate(cartpole / "checkpoints" / "best", out=out, options=replace(hasty, force=True))
    assert forced.networks[0].agreement.joint < 0.95
    assert [network.name for network in forced.networks] == ["best"]
    with pytest.raises(CheckpointError, match="has no 'last' checkpoint; it has: best"):
        load_agent(out, "last")
    worst = replace(hasty, least_agreement=forced.networks[0].agreement.joint)
    again = migrate(cartpole / "checkpoints" / "best", out=tmp_path / "again", options=worst)  # the bound itself passes
    assert again.networks == forced.networks


def test_the_way_back_is_open(migration: Migration, tmp_path: Path) -> None:
    back = migrate(migration.out / "checkpoints" / "best", "relu", out=tmp_path / "back", options=BRIEF)
    assert load_agent(back.out).config.network.trunk == "relu"
    assert back.networks[0].agreement.joint >= 0.6


def test_what_cannot_be_migrated_is_refused_and_nothing_written(
    cartpole: Path, migration: Migration, market: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="has a grn trunk already"):
        migrate(migration.out, out=tmp_path / "x")
    with pytest.raises(ConfigError, match="exists; choose another --out"):
        migrate(cartpole, out=migration.out)
    with pytest.raises(CheckpointError, match="is not a run with checkpoints"):
        migrate(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        migrate(cartpole / "checkpoints" / "index.json")
    broken = tmp_path / "broken"
    shutil.copytree(cartpole, broken)
    file = checkpoint_folder(broken, "last") / "training.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"training\.safetensors is damaged"):
        migrate(broken, out=tmp_path / "x")
    other = tmp_path / "other"
    shutil.copytree(market, other)
    data = load_agent(other).config.data
    assert data is not None
    shutil.move(data, tmp_path / "data")
    try:
        write_dataset(data, simulate(SimulatorConfig(seconds=900, signal=0.8, seed=4)).imported())
        with pytest.raises(CheckpointError, match="has changed since the run started"):
            migrate(other, out=tmp_path / "x", options=BRIEF)
    finally:
        shutil.rmtree(data)
        shutil.move(tmp_path / "data", data)
    assert not (tmp_path / "x").exists()


def test_checkpoints_are_found_by_run_or_by_name(cartpole: Path) -> None:
    assert locate(cartpole) == (cartpole, ("best", "last"))
    assert locate(cartpole / "checkpoints" / "last") == (cartpole, ("last",))
    assert locate(checkpoint_folder(cartpole, "best")) == (cartpole, ("best",))


def test_graft_draws_a_fresh_trunk_by_seed() -> None:
    widths, branches = {"market": 6}, (("action", 2),)
    old = make_network(widths, branches, SMALL, 0)
    first, second = (graft(old, branches, widths, "grn", seed) for seed in (1, 2))
    names = [name for name in first.state_dict() if name.startswith(TRUNK)]
    assert any(not torch.equal(first.state_dict()[n], second.state_dict()[n]) for n in names)
    assert all(torch.equal(tensor, first.state_dict()[name]) for name, tensor in consumers(old.state_dict()))


def test_spearman_equals_scipy_with_ties() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 20, (500,), generator=generator).float()
    y = x + torch.randint(0, 15, (500,), generator=generator)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    assert spearman(x, -x) == pytest.approx(-1.0)
    assert spearman(x, torch.ones(500)) == 0.0
