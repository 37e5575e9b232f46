"""A trained run with another trunk: online and target network together, every consumer of h kept bit for bit."""

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import torch

from foxhunt.config import NetworkConfig, require, to_json
from foxhunt.errors import CheckpointError, ConfigError
from foxhunt.interface import VectorEnvironment
from foxhunt.nn.network import Network
from foxhunt.rl.agent import Agent, derive_seed, load_agent
from foxhunt.rl.agreement import Agreement, agree
from foxhunt.rl.checkpoint import (
    Which,
    checkpoint_folder,
    fresh_folder,
    load_training,
    replace_text,
    save_checkpoint,
    short_reason,
)
from foxhunt.rl.distil import DistilConfig, distil, graft
from foxhunt.rl.rehearse import States, View, memories, play
from foxhunt.rl.task import Task, make_task

Trunk = Literal["grn", "relu"]

LEAST_AGREEMENT: Final = 0.95
"""Share of held-out states in which every branch must choose the same action."""

EPSILON: Final = 0.2
"""Chance of a random action in each branch while states to fit on are collected: the agent's own path and beside it."""


@dataclass(frozen=True)
class MigrateOptions:
    """How a migration is done, and when it is refused."""

    least_agreement: float = LEAST_AGREEMENT
    """Least share of held-out states in which every branch chooses as before; below it nothing is written."""
    force: bool = False
    """Write the run even where agreement is lower."""
    states: int = 40_000
    """States replayed from the training data to fit the new trunk on."""
    seed: int = 0
    """Seed of the new trunk's first weights, of exploration and of batches."""
    distil: DistilConfig = field(default_factory=DistilConfig)

    def __post_init__(self) -> None:
        require(0 <= self.least_agreement <= 1, "least_agreement must be in [0, 1]")
        require(self.states >= 1, "states must be at least 1")


@dataclass(frozen=True)
class Migrated:
    """One network with its new trunk, and how it compares on held-out states."""

    name: str
    """`best`, `last`, or `target` for the target network of `last`."""
    agreement: Agreement
    returns: tuple[float, float]
    """Mean validation return of an episode before and after, in the task's unit."""


@dataclass(frozen=True)
class Migration:
    """A finished migration."""

    out: Path
    unit: str
    """What returns are counted in."""
    networks: tuple[Migrated, ...]


def migrate(
    run: Path | str,
    trunk: Trunk = "grn",
    *,
    out: Path | str | None = None,
    options: MigrateOptions = MigrateOptions(),
    device: str = "cpu",
    progress: Callable[[str, float], None] = lambda stage, share: None,
) -> Migration:
    """Write a run like `run` whose networks have the trunk asked for.

    Every checkpoint of the run is migrated: `best`, and `last` with its training state, so that the new run can be
    back-tested and resumed. The optimizer starts afresh, since its moments belong to the old trunk; stored history of
    h is computed again.

    Args:
        run: folder written by `foxhunt train`; or RUN/checkpoints/best or RUN/checkpoints/last for that one alone.
        trunk: kind of the new trunk.
        out: folder of the new run, which must not exist; None for RUN-TRUNK.
        options: how, and when to refuse.
        device: torch device to fit on.
        progress: told the stage, and the share of it that is done.

    Raises `CheckpointError` when the run is damaged, its data has changed or agreement stays under the bound, and
    `ConfigError` when it has that trunk already or `out` exists. Then nothing is written.
    """
    run, chosen = locate(Path(run))
    target_folder = Path(out) if out else run.with_name(f"{run.name}-{trunk}")
    require(trunk in get_args(Trunk), f"unknown trunk {trunk!r}; choose grn or relu")
    if target_folder.exists():
        raise ConfigError(f"{target_folder} exists; choose another --out")
    agents = {which: load_agent(run, which, device) for which in chosen}
    training = load_training(run) if "last" in agents else None
    first = next(iter(agents.values()))
    if first.config.network.trunk == trunk:
        raise ConfigError(f"{run} has a {trunk} trunk already; nothing to migrate")
    networks = {str(which): agent.network for which, agent in agents.items()}
    if training is not None:
        networks["target"] = _target_network(run, agents["last"], training)
    progress("loading the data", 0.0)
    task = make_task(replace(first.config, device=device), first.fitted)
    fitted, found = {}, []
    for name, network in networks.items():
        fitted[name], migrated = _refit(name, network, first, trunk, task, options, progress)
        found.append(migrated)
    worst = min(found, key=lambda one: one.agreement.joint)
    if worst.agreement.joint < options.least_agreement and not options.force:
        raise CheckpointError(
            f"{run}: the {worst.name} network's new trunk chooses as the old one in {worst.agreement.joint:.1%} of "
            f"{worst.agreement.states:,} held-out states, under the bound of {options.least_agreement:.1%}; nothing "
            "written; raise --states or --distil.updates, lower --least-agreement, or give --force"
        )
    try:
        target_folder.parent.mkdir(parents=True, exist_ok=True)
        with fresh_folder(target_folder) as folder:
            _write(run, folder, replace(first.config.network, trunk=trunk), agents, fitted, training, found)
    except OSError as error:
        raise ConfigError(f"cannot write {target_folder}: {error.strerror or error}; choose another --out") from error
    return Migration(target_folder, task.unit, tuple(found))


def locate(path: Path) -> tuple[Path, tuple[Which, ...]]:
    """Run folder and checkpoints meant by a run, or by one checkpoint in it; the newest network comes first."""
    if path.parent.name == "checkpoints":
        named: dict[str, Which] = {which: which for which in get_args(Which)}
        if which := named.get(path.name.split("-")[0]):
            return path.parent.parent, (which,)
        raise CheckpointError(f"{path} is no checkpoint; give a run folder, or best or last in its checkpoints folder")
    there: list[Which] = []
    for which in get_args(Which):
        try:
            checkpoint_folder(path, which)
        except CheckpointError:
            continue
        there.append(which)
    if not there:
        checkpoint_folder(path, "best")  # says what is wrong
    return path, tuple(there)


def _target_network(run: Path, agent: Agent, training: dict[str, Any]) -> Network:
    target = deepcopy(agent.network)
    try:
        target.load_state_dict(training["learner"]["target"])
    except (KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"{run}: the last checkpoint's target does not fit ({short_reason(error)})") from None
    return target


def _refit(
    name: str,
    network: Network,
    agent: Agent,
    trunk: Trunk,
    task: Task,
    options: MigrateOptions,
    progress: Callable[[str, float], None],
) -> tuple[Network, Migrated]:
    """Fit a new trunk under a network's heads, and compare the two where neither was fitted."""
    acting, seed = agent.config.acting, derive_seed(options.seed, f"migrate/{name}")
    progress(f"{name}: replaying states", 0.0)
    steps = -(-options.states // task.environment.environments)
    states, _ = play(network, acting, task.environment, seed, steps, EPSILON)
    fresh = graft(network, agent.branches, agent.widths, trunk, seed)
    distil(
        network,
        fresh,
        acting,
        states,
        options.distil,
        seed,
        lambda done, due: progress(f"{name}: fitting the trunk", done / due),
    )
    progress(f"{name}: comparing", 0.0)
    judged, before = _held_out(network, agent, task.validation)
    _, after = _held_out(fresh, agent, task.validation)
    return fresh, Migrated(name, agree(View(network, judged), View(fresh, judged), acting), (before, after))


def _held_out(network: Network, agent: Agent, environment: VectorEnvironment) -> tuple[States, float]:
    """States that a network meets on validation data, where no trunk was fitted, and what it earned."""
    return play(network, agent.config.acting, environment, derive_seed(agent.config.seed, "evaluate"))


def _write(
    run: Path,
    folder: Path,
    network: NetworkConfig,
    agents: dict[Which, Agent],
    fitted: dict[str, Network],
    training: dict[str, Any] | None,
    found: list[Migrated],
) -> None:
    """The new run's files, under `folder`."""
    for which, agent in agents.items():
        config = replace(agent.config, network=network)
        origin = {
            "run": str(run),
            "trunk": agent.config.network.trunk,
            "networks": [asdict(one) for one in found],
        }
        moved = replace(agent, network=fitted[which], config=config, origin=origin)
        state = None
        if which == "last" and training is not None:
            state = move_training(training, fitted["last"], fitted["target"])
        save_checkpoint(folder, which, agent.step, moved.state_dict(), state)
        replace_text(folder / "config.json", json.dumps(to_json(config), indent=1))
    if (run / "metrics.jsonl").is_file():
        shutil.copy(run / "metrics.jsonl", folder / "metrics.jsonl")


def move_training(training: dict[str, Any], network: Network, target: Network) -> dict[str, Any]:
    """A training state for migrated networks: everything goes on, but the optimizer, which starts afresh.

    What the replay and the acting agent remember of h is what the new trunk makes of the same observations.
    """
    parameters = sum(parameter.numel() for parameter in network.parameters())
    moments = {"first": torch.zeros(parameters), "second": torch.zeros(parameters)}
    learner = {
        **training["learner"],
        "network": network.state_dict(),
        "target": target.state_dict(),
        "optimizer": {**moments, "steps": torch.zeros((), dtype=torch.float64)},
    }
    moved = {**training, "learner": learner}
    if network.config.temporal:
        replay, actor = training["replay"], training["collector"]["actor"]
        moved["replay"] = {**replay, "memory": replay_memory(replay, network)}
        moved["collector"] = {**training["collector"], "actor": _actor_memory(moved["replay"], actor)}
    return moved


def replay_memory(replay: dict[str, Any], network: Network) -> torch.Tensor:
    """What a network leaves to the history at every row of a replay [rows, environments, memory]."""
    stored: torch.Tensor = replay["memory"]
    prefix, device = "observation.", network.atoms.device
    flat = {k.removeprefix(prefix): v.flatten(0, 1).to(device) for k, v in replay.items() if k.startswith(prefix)}
    return memories(network, flat).view_as(stored)


def _actor_memory(replay: dict[str, Any], actor: dict[str, Any]) -> dict[str, Any]:
    """The acting agent's history: the newest rows of the replay, as far as the ring reaches back."""
    memory, valid = replay["memory"], actor["valid"]
    past, rows = valid.shape[1], len(memory)
    back = torch.arange(past, 0, -1)
    newest = memory[(int(replay["head"]) - back) % rows].transpose(0, 1)
    return {"memory": newest, "valid": valid & (back <= rows)}
