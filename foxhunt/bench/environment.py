"""Speed of the trading environment: environment steps a second with a random policy and the full observation.

The market is simulated and seeded, so that anyone measures the same thing. On a GPU the step is timed as it stands,
replayed from one CUDA graph, and replayed from the graph of the compiled step.
"""

import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from foxhunt import __version__
from foxhunt.bench.results import write_results
from foxhunt.config import MarketConfig, TapeConfig, require
from foxhunt.market.actions import BRANCHES
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.tape import Tape

RESULTS: Final = Path("benchmarks/results/environment.csv")
COLUMNS: Final = (
    *("environments", "mode", "median_steps_per_s", "p20_steps_per_s", "p80_steps_per_s", "median_ms", "steps"),
    *("levels", "observation", "tape_rows", "device", "threads", "torch", "python", "foxhunt"),
)
"""Columns of the results file; steps a second count every environment."""

Step = Callable[[Tensor], object]

ACTIONS: Final = 64
"""Different random actions, drawn before the clock starts: the policy is not what is timed."""


def run(environments: Sequence[int], steps: int, device: str, out: Path | None = None) -> list[dict[str, Any]]:
    """Time `steps` vector steps of each size in every mode of the device and write a CSV, by default `RESULTS`.

    Raises `ConfigError` on sizes too small to time.
    """
    require(min(environments, default=0) >= 1, "--environments must be at least 1 each")
    require(steps >= 20, f"--steps must be at least 20, not {steps}")
    tape = simulated_tape().to(device)
    modes = ("eager", "graph", "compile+graph") if tape.device.type == "cuda" else ("eager",)
    rows = [measure(tape, size, steps, mode) for size in environments for mode in modes]
    write_results(out or RESULTS, COLUMNS, rows)
    return rows


def simulated_tape() -> Tape:
    """Two hours of a simulated ten-level book, a decision a second."""
    from foxhunt.data.simulator import SimulatorConfig, simulate
    from foxhunt.market.tape_build import build_tape

    simulation = simulate(SimulatorConfig(seconds=7200))
    return build_tape([(simulation.book, simulation.trades, simulation.instrument)], TapeConfig())


def measure(tape: Tape, environments: int, steps: int, mode: str) -> dict[str, Any]:
    """One row of the results."""
    torch.compiler.reset()
    environment = TradingEnvironment(tape, MarketConfig(), environments)
    environment.reset(0)
    generator = torch.Generator(tape.device).manual_seed(0)
    actions = torch.randint(3, (ACTIONS, environments, 4), generator=generator, device=tape.device)
    step: Step = torch.compile(environment.step, fullgraph=True) if "compile" in mode else environment.step
    if "graph" in mode:
        step = _captured(step, environment.environments)
    seconds = sorted(_times(step, actions, steps))
    p20, median, p80 = (seconds[round(share * (steps - 1))] for share in (0.2, 0.5, 0.8))
    name = torch.cuda.get_device_name(tape.device) if tape.device.type == "cuda" else _processor()
    return dict(
        zip(
            COLUMNS,
            (
                environments,
                mode,
                *(round(environments / t) for t in (median, p80, p20)),
                round(median * 1e3, 4),
                steps,
                tape.levels,
                sum(environment.widths.values()),
                tape.rows,
                name,
                torch.get_num_threads(),
                torch.__version__,
                platform.python_version(),
                __version__,
            ),
            strict=True,
        )
    )


def _times(step: Step, actions: Tensor, steps: int) -> list[float]:
    """Seconds of single vector steps, after a warm-up."""
    for action in actions[:16]:
        step(action)
    times = []
    for index in range(steps):
        _wait(actions.device)
        start = time.perf_counter()
        step(actions[index % len(actions)])
        _wait(actions.device)
        times.append(time.perf_counter() - start)
    return times


def _captured(step: Step, environments: int) -> Step:
    """The step, replayed from one CUDA graph."""
    static = torch.ones(environments, len(BRANCHES), dtype=torch.int64, device="cuda")
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step(static)

    def replay(action: Tensor) -> object:
        static.copy_(action)
        graph.replay()
        return result

    return replay


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _processor() -> str:
    """The processor's name, which Linux keeps in /proc, and the number of cores that this process may use."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.is_file() else []
    name = names[0].split(":", 1)[1].strip() if names else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"
