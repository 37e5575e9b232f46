"""Does the agent learn what there is to learn? Trained on simulated markets whose order flow foretells the price.

Every seed gets a market of its own and, beside it, the same market with its signal taken out. The preset is trained on
the first 60 % of the time and judged on the last 20 %, beside the oracle that sees the hidden state.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import torch

from foxhunt import __version__
from foxhunt.bench.results import write_results
from foxhunt.config import require
from foxhunt.data.simulator import SimulatorConfig, simulate
from foxhunt.data.store import write_dataset
from foxhunt.evaluate.arena import Entry
from foxhunt.evaluate.backtest import load_arenas
from foxhunt.evaluate.bootstrap import total_interval
from foxhunt.evaluate.oracle import Oracle
from foxhunt.evaluate.recorder import record
from foxhunt.evaluate.series import clock, profit
from foxhunt.presets import PRESETS
from foxhunt.rl.agent import load_agent
from foxhunt.rl.trainer import Trainer

RESULTS: Final = Path("benchmarks/results/signal.csv")
SIGNALS: Final = (0.8, 0.0)
"""Tilt of the market orders: a market that can be foretold, and one that cannot."""
STATE_SECONDS: Final = 600.0
"""Mean life of the hidden state."""
COLUMNS: Final = (
    *("seed", "signal", "agent", "agent_low", "agent_high", "oracle", "share_of_oracle", "fills"),
    *("preset", "hours", "train_steps", "train_seconds", "workers", "torch", "foxhunt"),
)
"""Columns of the results file: profit after fees on held-out time with its 95 % interval, money."""


def run(
    seeds: Sequence[int],
    hours: float,
    preset: str,
    workers: int,
    folder: Path,
    out: Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Train and judge one agent for each seed and signal in processes of one thread each; rows as they come in.

    Markets and runs stay in `folder`. The CSV, by default `RESULTS`, is written once all have finished. Raises
    `ConfigError` on settings that cannot be run.
    """
    require(preset in PRESETS, f"unknown preset {preset!r}; choose from {', '.join(PRESETS)}")
    require(len(seeds) >= 1 and workers >= 1, "seeds and workers must be at least 1")
    jobs = [(seed, signal, hours, preset, folder, workers) for seed in seeds for signal in SIGNALS]
    rows = []
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for future in as_completed([pool.submit(judge, *job) for job in jobs]):
            rows.append(future.result())
            yield rows[-1]
    rows.sort(key=lambda row: (-row["signal"], row["seed"]))
    write_results(out or RESULTS, COLUMNS, rows)


def judge(seed: int, signal: float, hours: float, preset: str, folder: Path, workers: int) -> dict[str, Any]:
    """Simulate, train and judge: one row of the results."""
    told = simulate(SimulatorConfig(seconds=hours * 3600, signal=signal, state_seconds=STATE_SECONDS, seed=seed))
    name = f"signal-{signal:g}-seed-{seed}"
    data, config = folder / name / "data", PRESETS[preset]
    write_dataset(data, told.imported(), overwrite=True)
    start = time.perf_counter()
    Trainer(replace(config, data=data, out=folder / name / "run", seed=seed), overwrite=True).train()
    seconds = time.perf_counter() - start
    agent = load_agent(folder / name / "run")
    arena = load_arenas(agent, folder / name / "run", data, "cpu")["test"]
    (own,), (best,) = record(arena, [Entry("agent", agent.policy), Entry("oracle", Oracle(arena, told))])
    series = profit(own, clock(arena.tape.instruments, own.decisions).interval_ns)
    interval = total_interval(series.pnl, series.period, seed=0)
    earned, possible = (float(one.decisions["reward"].sum()) for one in (own, best))
    values = (
        *(seed, signal, round(earned, 2), round(interval.low, 2), round(interval.high, 2), round(possible, 2)),
        *(round(earned / possible, 3) if signal else "", own.fills.height),
        *(preset, hours, config.steps, round(seconds, 1), workers, torch.__version__, __version__),
    )
    return dict(zip(COLUMNS, values, strict=True))
