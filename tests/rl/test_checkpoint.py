"""State files and checkpoints: exact, atomic, damage told in one line."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from foxhunt.config import TrainConfig, from_json, to_json
from foxhunt.errors import CheckpointError, ConfigError, FoxhuntError
from foxhunt.presets import PRESETS
from foxhunt.rl.agent import Agent, derive_seed, load_agent, make_network
from foxhunt.rl.checkpoint import checkpoint_folder, load_model, load_training, save_checkpoint
from foxhunt.rl.state import read_state, write_state

STATE = {
    "float": torch.tensor([0.1, float("nan"), -0.0, 1e-45]),
    "double": torch.tensor(0.1, dtype=torch.float64),
    "flags": torch.tensor([True, False]),
    "empty": torch.zeros(0, 3),
    "nested": {"list": [torch.arange(3), 5, [None, "x"]], "third": 0.1 + 0.2, "big": 2**130, "none": None},
    "transposed": torch.arange(6).view(2, 3).T,
}


def test_state_round_trip_is_exact(tmp_path: Path) -> None:
    view = torch.arange(10.0)
    write_state(tmp_path, "s", {**STATE, "view": view[2:5], "same": view})
    back = read_state(tmp_path, "s")
    for name in ("double", "flags", "empty", "transposed"):
        assert torch.equal(back[name], STATE[name])
        assert back[name].dtype == STATE[name].dtype
    assert back["float"].view(torch.int32).tolist() == STATE["float"].view(torch.int32).tolist()
    assert torch.equal(back["nested"]["list"][0], torch.arange(3))
    assert back["nested"]["list"][1:] == [5, [None, "x"]]
    assert (back["nested"]["third"], back["nested"]["big"], back["nested"]["none"]) == (0.1 + 0.2, 2**130, None)
    assert back["view"].tolist() == [2, 3, 4]
    assert torch.equal(back["same"], view)


@pytest.mark.parametrize("file", ["s.json", "s.safetensors"])
def test_any_flipped_byte_is_noticed(tmp_path: Path, file: str) -> None:
    write_state(tmp_path, "s", STATE)
    content = (tmp_path / file).read_bytes()
    for place in range(0, len(content), max(1, len(content) // 40)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        (tmp_path / file).write_bytes(damaged)
        with pytest.raises(CheckpointError, match=f"{file} is damaged|s.safetensors is damaged"):
            read_state(tmp_path, "s")


@pytest.mark.parametrize("file", ["s.json", "s.safetensors"])
def test_truncated_and_missing_files_are_named(tmp_path: Path, file: str) -> None:
    write_state(tmp_path, "s", STATE)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="damaged"):
        read_state(tmp_path, "s")
    (tmp_path / file).unlink()
    with pytest.raises(CheckpointError, match=f"{file} is missing"):
        read_state(tmp_path, "s")


def test_checkpoints_replace_each_other(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, "best", 10, {"step": 10})
    save_checkpoint(tmp_path, "last", 10, {"step": 10}, {"x": torch.ones(2)})
    save_checkpoint(tmp_path, "last", 20, {"step": 20}, {"x": torch.zeros(2)})
    save_checkpoint(tmp_path, "last", 20, {"step": 21}, {"x": torch.zeros(3)})
    assert load_model(tmp_path, "last") == {"step": 21}
    assert load_model(tmp_path, "best") == {"step": 10}
    assert load_training(tmp_path)["x"].shape == (3,)
    kept = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert kept == {"index.json", checkpoint_folder(tmp_path, "last").name, "best-000000010"}


def test_a_crash_while_writing_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, "last", 1, {"step": 1}, {})

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    for function in ("write_state", "replace_text"):
        with monkeypatch.context() as patch:
            patch.setattr(f"foxhunt.rl.checkpoint.{function}", crash)
            with pytest.raises(KeyboardInterrupt):
                save_checkpoint(tmp_path, "last", 2, {"step": 2}, {})
        assert load_model(tmp_path, "last") == {"step": 1}
    save_checkpoint(tmp_path, "last", 2, {"step": 2}, {})
    assert load_model(tmp_path, "last") == {"step": 2}
    assert len(list((tmp_path / "checkpoints").glob("last-*"))) == 1


def test_unwritable_output_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write checkpoint"):
        save_checkpoint(tmp_path / "file", "last", 1, {})


def test_missing_damaged_and_foreign_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a run with checkpoints"):
        checkpoint_folder(tmp_path, "best")
    save_checkpoint(tmp_path, "last", 1, {"step": 1}, {})
    with pytest.raises(CheckpointError, match="has no 'best' checkpoint; it has: last"):
        checkpoint_folder(tmp_path, "best")
    index = tmp_path / "checkpoints" / "index.json"
    index.write_text(json.dumps({"format": 99, "last": "x"}))
    with pytest.raises(CheckpointError, match="format 99, this version reads 1"):
        load_model(tmp_path, "last")
    index.write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        load_model(tmp_path, "last")


def saved_agent(run: Path) -> Agent:
    config = PRESETS["gymnasium"]
    widths, branches = {"market": 4}, (("action", 2),)
    network = make_network(widths, branches, config.network, seed=5)
    agent = Agent(network, config, widths, branches, {"scale": {"center": torch.ones(4)}}, step=77)
    save_checkpoint(run, "best", 77, agent.state_dict())
    return agent


def test_agent_round_trip(tmp_path: Path) -> None:
    agent = saved_agent(tmp_path)
    back = load_agent(tmp_path)
    assert (back.config, back.widths, back.branches, back.step) == (agent.config, {"market": 4}, (("action", 2),), 77)
    assert torch.equal(back.fitted["scale"]["center"], torch.ones(4))
    observation = {"market": torch.randn(9, 4)}
    assert torch.equal(back.network(observation).logits, agent.network(observation).logits)


@pytest.mark.parametrize(
    "change",
    [
        {"config": {**to_json(PRESETS["gymnasium"]), "colour": "red"}},
        {"widths": {"market": 5}},
        {"branches": [["action", 3]]},
        {"network": {}},
    ],
    ids=["config", "widths", "branches", "network"],
)
def test_mismatched_agents_are_refused_in_one_line(tmp_path: Path, change: dict[str, object]) -> None:
    state = {**saved_agent(tmp_path).state_dict(), **change}
    shutil.rmtree(tmp_path / "checkpoints")
    save_checkpoint(tmp_path, "best", 1, state)
    with pytest.raises(CheckpointError, match="does not fit this version") as caught:
        load_agent(tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 250


@pytest.mark.parametrize("preset", PRESETS)
def test_configs_survive_json(preset: str) -> None:
    config = PRESETS[preset]
    back = from_json(TrainConfig, json.loads(json.dumps(to_json(config))))
    assert back == config
    assert isinstance(back.out, Path)
    assert isinstance(back.market.patience, tuple)


def test_impossible_configs_are_refused_when_read() -> None:
    record = to_json(PRESETS["default"])
    with pytest.raises(ConfigError, match=r"NetworkConfig has no field 'layers'"):
        from_json(TrainConfig, {**record, "network": {"layers": 3}})
    with pytest.raises(FoxhuntError, match=r"learner.discount"):
        from_json(TrainConfig, {**record, "learner": {"discount": 1.5}})


def test_seeds_of_different_purposes_are_unrelated() -> None:
    seeds = {derive_seed(seed, purpose) for seed in range(50) for purpose in ("replay", "collect", "weights")}
    assert len(seeds) == 150
    assert derive_seed(1, "replay") == derive_seed(1, "replay")


def test_making_a_network_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = make_network({"market": 4}, (("a", 2),), PRESETS["gymnasium"].network, seed=3)
    assert torch.equal(torch.rand(3), expected)
    second = make_network({"market": 4}, (("a", 2),), PRESETS["gymnasium"].network, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
