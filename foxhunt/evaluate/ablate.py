"""What each switch is worth: an agent is trained with it on and off over several seeds, and judged on held-out data."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from typing import Final

import torch

from foxhunt.config import TrainConfig, require, to_json
from foxhunt.data.store import Dataset
from foxhunt.errors import ConfigError, FoxhuntError
from foxhunt.evaluate.backtest import load_arenas
from foxhunt.evaluate.output import write_text
from foxhunt.evaluate.series import one_currency
from foxhunt.evaluate.switches import SWITCHES, toggle
from foxhunt.rl.agent import load_agent
from foxhunt.rl.checkpoint import load_model, save_checkpoint
from foxhunt.rl.monitor import monitor
from foxhunt.rl.rehearse import View, play
from foxhunt.rl.trainer import Trainer

BASE: Final = "base"
"""Arm in which no switch is turned."""

MONITORED: Final = 2_048
"""States of the test split, at most, on which a network is monitored."""

STUDY, CELL = "study.json", "cell.json"
"""Files that tell a study's folder, and a finished cell."""


@dataclass(frozen=True)
class Cell:
    """One agent: an arm trained with one seed, and what it earned."""

    arm: str
    seed: int
    profit: float
    """After fees on the test split, money; the figure that `foxhunt backtest` calls the agent's profit."""
    currency: str
    seconds: float
    """Training time."""
    tape: str
    """Fingerprint of the data."""
    figures: dict[str, float]
    """What `foxhunt.rl.monitor.monitor` says of the network on states of the test split."""


@dataclass(frozen=True)
class Failure:
    """An agent that could not be trained or judged."""

    arm: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Study:
    """Finished cells and failures, in the order of arms and seeds."""

    config: TrainConfig
    """The base arm's settings; `out` is the study's folder."""
    arms: tuple[str, ...]
    cells: tuple[Cell, ...]
    failures: tuple[Failure, ...]


def ablate(
    config: TrainConfig,
    switches: Sequence[str] = (),
    *,
    seeds: int = 5,
    workers: int = 1,
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> Study:
    """Train the base and one arm for each switch, turned, over seeds; a finished agent is not trained again.

    Args:
        config: the base; `out` is the study's folder, `seed` the first seed.
        switches: names in `SWITCHES`; empty takes all.
        seeds: agents an arm.
        workers: processes, one thread each.
        progress: told of agents done, agents due, and what the newest came to.

    Raises `ConfigError` when the settings cannot be studied or the folder holds something else. Agents that fail are
    reported in the study, and do not stop the others.
    """
    require(config.data is not None, "a study is judged on the test split of market data; give --data DIR")
    require(seeds >= 1 and workers >= 1, "seeds and workers must be at least 1")
    assert config.data is not None
    Dataset.open(config.data)
    arms = {BASE: config} | {name: toggle(config, name) for name in (switches or SWITCHES)}
    _claim(config)
    order = [(arm, config.seed + k) for arm in arms for k in range(seeds)]
    plans = {(arm, seed): replace(arms[arm], seed=seed, out=config.out / arm / f"seed-{seed}") for arm, seed in order}
    found: dict[tuple[str, int], Cell | Failure] = {}
    for key, plan in plans.items():
        if (cell := read_cell(key[0], plan)) is not None:
            found[key] = cell
    progress(len(found), len(plans), "")
    for result in _train({key: plan for key, plan in plans.items() if key not in found}, workers):
        found[result.arm, result.seed] = result
        progress(len(found), len(plans), _tell(result))
    cells = tuple(result for key in order if isinstance(result := found[key], Cell))
    if len({cell.tape for cell in cells}) > 1:
        raise ConfigError(f"{config.data} changed between the agents of {config.out}; choose another --out")
    failures = tuple(result for key in order if isinstance(result := found[key], Failure))
    return Study(config, tuple(arms), cells, failures)


def read_cell(arm: str, plan: TrainConfig) -> Cell | None:
    """The finished cell of a plan; None where it is not finished, or was trained with other settings."""
    try:
        record = json.loads((plan.out / CELL).read_text())
        return Cell(**record["cell"]) if record["config"] == to_json(plan) and record["cell"]["arm"] == arm else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def run_cell(arm: str, plan: TrainConfig) -> Cell:
    """Train one agent, judge its best checkpoint on the test split, and record that it is finished."""
    start = time.perf_counter()
    summary = Trainer(plan, overwrite=True).train()
    seconds = time.perf_counter() - start
    cell = judge(arm, plan, seconds)
    # The replay of every agent would fill disks, and nobody goes on with these runs.
    save_checkpoint(plan.out, "last", summary.step, load_model(plan.out, "last"))
    write_text(plan.out / CELL, json.dumps({"cell": asdict(cell), "config": to_json(plan)}, indent=1) + "\n")
    return cell


def judge(arm: str, plan: TrainConfig, seconds: float) -> Cell:
    """Send a run's best checkpoint through the test split."""
    agent = load_agent(plan.out)
    arena = load_arenas(agent, plan.out, plan.data, "cpu")["test"]
    environment = arena.environment()
    states, mean = play(agent.network, agent.config.acting, environment, seed=0)
    view = View(agent.network, states)
    return Cell(
        arm=arm,
        seed=plan.seed,
        profit=mean * environment.environments,
        currency=one_currency(arena.tape.instruments),
        seconds=seconds,
        tape=str(agent.fitted["tape"]),
        figures=monitor(agent.network, view.observe(states.sample(MONITORED))),
    )


def _claim(config: TrainConfig) -> None:
    """Take the study's folder, or find it taken by this very study."""
    file, record = config.out / STUDY, {"config": to_json(config)}
    if file.is_file():
        if json.loads(file.read_text()) != record:
            raise ConfigError(f"{config.out} holds a study with other settings; choose another --out")
        return
    if config.out.exists() and (not config.out.is_dir() or any(config.out.iterdir())):
        raise ConfigError(f"{config.out} exists and is not a study; choose another --out")
    write_text(file, json.dumps(record, indent=1) + "\n")


def _train(plans: Mapping[tuple[str, int], TrainConfig], workers: int) -> Iterator[Cell | Failure]:
    """Results as they come in. Processes are spawned: a forked one would share torch's threads."""
    if not plans:
        return
    pool = ProcessPoolExecutor(
        min(workers, len(plans)), get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    )
    try:
        futures: dict[Future[Cell | Failure], tuple[str, int]] = {
            pool.submit(_attempt, arm, plan): (arm, seed) for (arm, seed), plan in plans.items()
        }
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                yield Failure(*futures[future], "a process died, perhaps for lack of memory; run the study again")
    finally:
        pool.shutdown(cancel_futures=True)


def _attempt(arm: str, plan: TrainConfig) -> Cell | Failure:
    """A cell, or the reason for there being none: one agent's failure must not cost the others'."""
    try:
        return run_cell(arm, plan)
    except FoxhuntError as error:
        return Failure(arm, plan.seed, " ".join(str(error).split()))
    except Exception as error:
        return Failure(arm, plan.seed, f"{type(error).__name__}: {' '.join(str(error).split())}")


def _tell(result: Cell | Failure) -> str:
    came_to = result.reason if isinstance(result, Failure) else f"{result.profit:,.2f} {result.currency}"
    return f"{result.arm} seed {result.seed}: {came_to}"
