"""How large is h, and how large are the values that the magnitude branch reads beside it, under either trunk?

The preset is trained a little on a simulated market with each trunk; the figures are what the monitor sees in states
that the replay holds when training ends.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import torch

from foxhunt import __version__
from foxhunt.bench.results import write_results
from foxhunt.config import TrainConfig, require
from foxhunt.data.simulator import SimulatorConfig, simulate
from foxhunt.data.store import write_dataset
from foxhunt.presets import PRESETS
from foxhunt.rl.trainer import Trainer

RESULTS: Final = Path("benchmarks/results/rms.csv")
TRUNKS: Final[tuple[Literal["grn", "relu"], ...]] = ("grn", "relu")
MEASURES: Final = ("h_rms", "values_rms", "matched_rms", "ratio_before", "ratio_after", "dead_units", "effective_rank")
"""RMS of h; RMS of the direction branch's values in units of delta_z as they are, and as the magnitude branch reads
them; both over the RMS of h; share of dead units of the trunk; effective rank of h."""
COLUMNS: Final = ("trunk", *MEASURES, "preset", "steps", "hours", "seed", "torch", "foxhunt")
"""Columns of the results file."""


def run(
    preset: str, steps: int, hours: float, seed: int, folder: Path, out: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Train the preset for `steps` environment steps with each trunk; rows as they come in.

    Market and runs stay in `folder`. The CSV, by default `RESULTS`, is written once both have finished. Raises
    `ConfigError` on settings that cannot be run.
    """
    require(preset in PRESETS, f"unknown preset {preset!r}; choose from {', '.join(PRESETS)}")
    short = replace(PRESETS[preset], steps=steps, evaluations=1, seed=seed, data=folder / "data")
    warmup = short.learner.warmup_steps
    require(steps > warmup, f"steps must be more than the {warmup} that preset {preset} takes before it learns")
    market = simulate(SimulatorConfig(seconds=hours * 3600, seed=seed))
    write_dataset(folder / "data", market.imported(), overwrite=True)
    rows = []
    for trunk in TRUNKS:
        settings = replace(short, out=folder / trunk, network=replace(short.network, trunk=trunk))
        facts = (preset, steps, hours, seed, torch.__version__, __version__)
        rows.append(dict(zip(COLUMNS, (trunk, *measure(settings), *facts), strict=True)))
        yield rows[-1]
    write_results(out or RESULTS, COLUMNS, rows)


def measure(settings: TrainConfig) -> list[float]:
    """Train, and read `MEASURES` off the monitor's last look."""
    trainer = Trainer(settings, overwrite=True)
    trainer.train()
    seen = {name.removeprefix("monitor_"): value for name, value in trainer.newest.items() if value is not None}
    h, values, matched = seen["h_rms"], seen["values_rms"], seen["matched_rms"]
    figures = (h, values, matched, values / h, matched / h, seen["dead_units"], seen["effective_rank"])
    return [round(figure, 4) for figure in figures]
