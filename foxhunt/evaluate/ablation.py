"""The table of a study: what every arm earned, and what its switch is worth."""

import csv
import io
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Final

from foxhunt.evaluate.ablate import BASE, Cell, Study
from foxhunt.evaluate.format import money, percent, span
from foxhunt.evaluate.output import write_text
from foxhunt.evaluate.seeds import Mean, mean_over_seeds
from foxhunt.evaluate.switches import SWITCHES, companions

FIGURES: Final = {"dead_units": "dead units", "effective_rank": "effective rank", "h_rms": "RMS of h"}
"""What is shown of a network's h on the test split -> its heading."""

VERDICTS: Final = {1: "helps", 0: "undecided", -1: "hurts"}
"""Sign of the interval of a switch's worth -> what is said of it."""

COLUMNS: Final = (
    *("arm", "change", "seeds", "profit", "95 % interval", "worth of on", "95 % interval of worth", "verdict"),
    *("minutes", *FIGURES.values()),
)


@dataclass(frozen=True)
class Row:
    """One arm."""

    arm: str
    change: str
    """How it differs from the base."""
    seeds: int
    profit: Mean
    """After fees on the test split, over seeds."""
    worth: Mean | None
    """Profit with the switch on less that with it off, paired over the seeds that both arms have; None for the base."""
    minutes: float
    """Mean training time."""
    figures: dict[str, float]
    """Mean over seeds of each of `FIGURES`."""

    @property
    def verdict(self) -> str:
        """Whether the switch helps, as far as these seeds tell."""
        return VERDICTS[self.worth.sign] if self.worth else ""

    def cells(self) -> tuple[str, ...]:
        """The row in words, in the order of `COLUMNS`."""
        worth = (money(self.worth.mean), _span(self.worth)) if self.worth else ("", "")
        return (
            self.arm,
            self.change,
            str(self.seeds),
            money(self.profit.mean),
            _span(self.profit),
            *worth,
            self.verdict,
            f"{self.minutes:.1f}",
            percent(self.figures["dead_units"]),
            *(f"{self.figures[name]:.3g}" for name in ("effective_rank", "h_rms")),
        )


def tabulate(study: Study) -> list[Row]:
    """One row for each arm with a finished agent, the base first."""
    base = {cell.seed: cell for cell in study.cells if cell.arm == BASE}
    rows = []
    for arm in study.arms:
        cells = [cell for cell in study.cells if cell.arm == arm]
        if cells:
            rows.append(_row(study, arm, cells, base))
    return rows


def _row(study: Study, arm: str, cells: list[Cell], base: dict[int, Cell]) -> Row:
    worth, change = None, ""
    if arm != BASE:
        was_on = SWITCHES[arm].state(study.config)
        turned = [arm, *companions(study.config, arm)]
        change = f"{', '.join(turned)} {'off' if was_on else 'on'}"
        paired = [cell.profit - base[cell.seed].profit for cell in cells if cell.seed in base]
        if paired:
            worth = mean_over_seeds([-gain if was_on else gain for gain in paired])
    return Row(
        arm=arm,
        change=change,
        seeds=len(cells),
        profit=mean_over_seeds([cell.profit for cell in cells]),
        worth=worth,
        minutes=fmean(cell.seconds for cell in cells) / 60,
        figures={name: fmean(cell.figures[name] for cell in cells) for name in FIGURES},
    )


def write_table(study: Study, rows: list[Row]) -> Path:
    """Write ablation.md, ablation.csv (one line an arm) and cells.csv (one line an agent); returns the first."""
    out = study.config.out
    write_text(out / "ablation.csv", _csv(rows))
    write_text(out / "cells.csv", _cells_csv(study))
    write_text(out / "ablation.md", markdown(study, rows))
    return out / "ablation.md"


def markdown(study: Study, rows: list[Row]) -> str:
    """The table with what it means, and the failures."""
    lines = [
        f"# Ablation on {study.config.data}",
        "",
        caption(study),
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---|---|" + "---:|" * (len(COLUMNS) - 2),
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
        "",
        conclusion(rows),
    ]
    lines += ["", *(f"- failed: {f.arm} seed {f.seed}: {f.reason}" for f in study.failures)] if study.failures else []
    return "\n".join(lines) + "\n"


def caption(study: Study) -> str:
    """What the figures are."""
    currency = study.cells[0].currency if study.cells else "money"
    return (
        f"Profit after fees on the test split, {currency}, of agents trained for {study.config.steps:,} steps; means "
        "over seeds with 95 % intervals by Student's t. The worth of a switch is the profit with it on less that with "
        "it off, paired by seed."
    )


def conclusion(rows: list[Row]) -> str:
    """Which switches helped and which hurt."""
    said = []
    for verdict, text in (("helps", "Helped"), ("hurts", "Hurt"), ("undecided", "Undecided")):
        names = [row.arm for row in rows if row.verdict == verdict]
        said.append(f"{text}: {', '.join(names) if names else 'none'}.")
    return " ".join(said)


def _span(mean: Mean) -> str:
    return span(mean.low, mean.high) if isfinite(mean.low) else "one seed"


def _csv(rows: list[Row]) -> str:
    header = (
        *("arm", "change", "seeds", "profit", "profit_low", "profit_high", "worth", "worth_low", "worth_high"),
        *("verdict", "minutes", *FIGURES),
    )
    lines: list[tuple[object, ...]] = []
    for row in rows:
        worth = (row.worth.mean, row.worth.low, row.worth.high) if row.worth else ("", "", "")
        profit = row.profit.mean, row.profit.low, row.profit.high
        lines.append((row.arm, row.change, row.seeds, *profit, *worth, row.verdict, row.minutes, *row.figures.values()))
    return _text(header, lines)


def _cells_csv(study: Study) -> str:
    lines: list[tuple[object, ...]] = [
        (cell.arm, cell.seed, cell.profit, cell.currency, cell.seconds, *(cell.figures[name] for name in FIGURES))
        for cell in study.cells
    ]
    return _text(("arm", "seed", "profit", "currency", "seconds", *FIGURES), lines)


def _text(header: tuple[str, ...], lines: list[tuple[object, ...]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return buffer.getvalue()
