"""Times one whole update of the learner: eager, compiled, captured in a CUDA graph, and both.

Runs on torch and the standard library alone, so that it can be carried to a bare GPU machine:
`python -m foxhunt.bench.update --device cuda`.
"""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from foxhunt.bench.results import write_results
from foxhunt.nn.encoder import HISTORY, HISTORY_VALID
from foxhunt.nn.network import Network
from foxhunt.presets import PRESETS
from foxhunt.rl.capture import CapturedUpdate
from foxhunt.rl.learner import Learner
from foxhunt.rl.outcome import Trade
from foxhunt.rl.replay import Batch, ReplayOptions

WIDTHS: Final = {"market": 32, "portfolio": 9, "ofi": 15, "ofi3": 3, "regime": 2}
BRANCHES: Final = (("direction", 3), ("magnitude", 3), ("order", 3), ("urgency", 3))
MODES: Final = ("eager", "compile", "eager+graph", "compile+graph")
COLUMNS: Final = ("preset", "batch", "mode", "median_ms", "p20_ms", "p80_ms", "updates", "device", "torch", "python")
"""Columns of the results file."""

TOLERANCE: Final = 2e-2
"""Largest relative difference of the parameters' movement between a fast mode and eager, over three updates in full
float32. Adam turns rounding of tiny gradients into steps of full size, so single parameters may differ; a wrong or
stale input moves them all."""


def make_batch(learner: Learner, batch: int, generator: torch.Generator) -> Batch:
    """Random transitions of the trading environment's shape, with whatever the learner's network reads."""
    device, network = generator.device, learner.network
    options = ReplayOptions.of(network, learner.config)

    def normal(*shape: int) -> Tensor:
        return torch.randn(batch, *shape, generator=generator, device=device)

    def observation() -> dict[str, Tensor]:
        parts = {name: normal(width) for name, width in WIDTHS.items()}
        parts["regime"] = parts["regime"].sigmoid()
        if options.memory:
            parts[HISTORY] = normal(options.past, options.memory)
            parts[HISTORY_VALID] = normal(options.past) > -1
        return parts

    trade = Trade(normal() > -1, normal(), normal().abs(), normal().abs(), normal().abs() + 1)
    return Batch(
        observation=observation(),
        action=torch.randint(3, (batch, len(BRANCHES)), generator=generator, device=device),
        reward=normal(),
        discount=torch.full((batch,), 0.97, device=device),
        next_observation=observation(),
        weight=normal().sigmoid(),
        slot=torch.arange(batch, device=device),
        consecutive=normal()[: batch // 2] > -1 if options.pairs else None,
        trade=trade if options.horizon else None,
    )


def make_learner(preset: str, device: torch.device, compile: bool) -> Learner:
    """A fresh learner; the same weights every time. Hidden 256, and 32 quantiles where there are any."""
    config = PRESETS[preset]
    torch.manual_seed(0)
    sizes = replace(config.network, hidden1=256, hidden2=256, quantiles=32 if config.network.quantiles else 0)
    network = Network(WIDTHS, BRANCHES, sizes).to(device)
    return Learner(network, config.learner, total_updates=100_000, compile=compile)


def make_update(preset: str, mode: str, example: Batch) -> tuple[Learner, Callable[[Batch], dict[str, Tensor]]]:
    """The learner and its update in one of `MODES`."""
    learner = make_learner(preset, example.reward.device, compile="compile" in mode)
    return learner, CapturedUpdate(learner, example) if "graph" in mode else learner.update


def movement(preset: str, mode: str, batches: list[Batch]) -> Tensor:
    """How far the parameters move in one update on each batch in turn, [parameters] in float64."""
    learner, update = make_update(preset, mode, batches[0])
    start = learner.parameters.double()
    for batch in batches:
        update(batch)
    return learner.parameters.double() - start


def time_update(update: Callable[[Batch], dict[str, Tensor]], batches: list[Batch], seconds: float) -> list[float]:
    """Milliseconds of single updates, alternating batches, after a warm-up, for about `seconds`."""
    cuda = batches[0].reward.is_cuda
    for batch in batches * 3:
        update(batch)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        update(batches[len(times) % len(batches)])
        if cuda:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def measure(preset: str, size: int, mode: str, device: torch.device, seconds: float) -> dict[str, object]:
    """One row of the results; refuses to time a mode that does not learn what eager learns."""
    torch.compiler.reset()
    generator = torch.Generator(device).manual_seed(size)
    shape = make_learner(preset, device, compile=False)
    batches = [make_batch(shape, size, generator) for _ in range(3)]
    if mode != "eager":
        torch.set_float32_matmul_precision("highest")
        expected, got = movement(preset, "eager", batches), movement(preset, mode, batches)
        error = float((got - expected).norm() / expected.norm())
        if not error < TOLERANCE:
            sys.exit(f"{preset} at batch {size}: {mode} moves the parameters {error:.1e} away from eager; not timed")
        torch.compiler.reset()
    torch.set_float32_matmul_precision("high")
    _, update = make_update(preset, mode, batches[0])
    times = time_update(update, batches, seconds)
    quantiles = statistics.quantiles(times, n=5)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    values = (preset, size, mode, *(round(t, 4) for t in (statistics.median(times), quantiles[0], quantiles[3])))
    return dict(zip(COLUMNS, (*values, len(times), name, torch.__version__, platform.python_version()), strict=True))


def main(arguments: list[str] | None = None) -> int:
    """Measure every mode at every batch size and write one CSV."""
    parser = argparse.ArgumentParser(description="Time one whole update of the learner (hidden 256).")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--preset", nargs="+", default=["default"], choices=sorted(PRESETS))
    parser.add_argument("--batch", nargs="+", type=int, default=[256, 4096, 16384])
    parser.add_argument("--mode", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each row")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/update.csv"))
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    modes = [mode for mode in options.mode if device.type == "cuda" or "graph" not in mode]
    rows: list[dict[str, object]] = []
    for preset in options.preset:
        for size in options.batch:
            for mode in modes:
                rows.append(measure(preset, size, mode, device, options.seconds))
                print(*(f"{rows[-1][c]}" for c in COLUMNS[:6]), sep="  ", flush=True)
                # All rows so far: a run cut short keeps what it measured.
                write_results(options.out, COLUMNS, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
