"""Live views in the terminal: a training run, and a row of tasks."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from foxhunt.rl.trainer import Snapshot

REFRESH_SECONDS = 0.25

SHOWN = (
    ("return", "return"),
    ("evaluation_return", "validation"),
    ("loss", "loss"),
    ("td_error", "TD error"),
    ("q", "Q"),
    ("epsilon", "epsilon"),
    ("learning_rate", "step size"),
)
"""Recorded value -> label."""


@contextmanager
def task_bar(console: Console, label: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar over tasks done of tasks due; the function takes both, and a line about the newest to keep above it."""
    columns = TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done, total=total)
            if text:
                console.print(text, highlight=False, soft_wrap=True)

        yield show


class TrainingProgress:
    """Progress bar, newest values and phase shares; where the output is no terminal, one line per evaluation."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} steps/s"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._task = self._bar.add_task("", rate="")
        self._drawn_at = self._drawn_step = 0.0
        self._evaluation: float | None = None

    def __enter__(self) -> "TrainingProgress":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        """Draw, at most a few times a second."""
        evaluation = snapshot.record.get("evaluation_return")
        if evaluation is not None and snapshot.evaluated:
            share = "  ".join(f"{name} {part:.0%}" for name, part in snapshot.shares.items())
            self.console.print(
                f"step {snapshot.step:>9,}  validation {evaluation:,.2f} {snapshot.unit}  [dim]{share}[/dim]",
                soft_wrap=True,
            )
        now = time.monotonic()
        if not self._live or now - self._drawn_at < REFRESH_SECONDS:
            return
        rate = (snapshot.step - self._drawn_step) / (now - self._drawn_at) if self._drawn_at else 0
        self._drawn_at, self._drawn_step = now, snapshot.step
        self._bar.update(
            self._task, completed=snapshot.step, total=snapshot.total_steps, rate=f"{rate:,.0f}" if rate else "-"
        )
        self._live.update(Group(self._bar, _values(snapshot), _phases(snapshot)), refresh=True)


def _values(snapshot: Snapshot) -> Table:
    """Newest recorded values, side by side."""
    table = Table.grid(padding=(0, 3))
    present = [(label, snapshot.record[name]) for name, label in SHOWN if snapshot.record.get(name) is not None]
    table.add_row(*(Text(label, style="dim") for label, _ in present))
    table.add_row(*(f"{value:.4g}" for _, value in present))
    return table


def _phases(snapshot: Snapshot) -> Text:
    """Share of time of each phase."""
    return Text("time   " + "   ".join(f"{name} {share:.0%}" for name, share in snapshot.shares.items()), style="dim")
