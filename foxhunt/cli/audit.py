"""`foxhunt audit`: which consumers of a tensor still work when its range changes?"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from foxhunt.audit import AuditError, Report, audit_spec
from foxhunt.audit.check import compare, stored
from foxhunt.audit.corpus import run
from foxhunt.audit.mutate import measure, mutants, sample
from foxhunt.audit.output import write
from foxhunt.audit.sarif import sarif
from foxhunt.audit.spec import Builder, load
from foxhunt.errors import ConfigError

DESCRIPTION = """Ask what breaks when a tensor's range changes, and keep the answer true in CI.

  foxhunt audit audits/model.py:build --assume ">=0" --becomes signed,rms=1 --out audit.md
  foxhunt audit --check audit.md

SPEC is file.py:function or a TOML file; the function returns a Spec or (step, inputs, tensor)."""

_COLOURS = {"safe-with-signed": "green", "needs-verification": "yellow", "assumes-non-negative": "red"}


@dataclass(frozen=True)
class Arguments:
    """What the command line takes."""

    spec: tyro.conf.Positional[str | None] = None
    """file.py:function or a TOML file; left out with --check, which remembers it."""
    tensor: tuple[str, ...] | None = None
    """Where the tensor is made: module.path, function:variable, function() or input[0]; the first place is the one
    that changes."""
    assume: str | None = None
    """Range that consumers were written for, such as ">=0"."""
    becomes: str | None = None
    """Range after the change, such as "signed,rms=1"."""
    out: Path | None = None
    """Write the report as Markdown."""
    json: Path | None = None
    """Write everything as JSON."""
    sarif: Path | None = None
    """Write the findings as SARIF 2.1.0."""
    corpus: Path | None = None
    """Measure the auditor on a folder of labelled programs instead."""
    mutate: bool = False
    """Plant faults in the program, which must audit clean, and say how many are found at their line."""
    faults: int | None = None
    """Plant only so many faults with --mutate, of every kind in turn."""
    check: Annotated[Path | None, tyro.conf.arg(metavar="AUDIT.md")] = None
    """Compare a written report with the code as it is; exit 1 when it is stale."""


def main(arguments: list[str]) -> int:
    """Audit and print; 0 when done, 1 when a checked report is stale."""
    parsed = tyro.cli(Arguments, prog="foxhunt audit", description=DESCRIPTION, args=arguments)
    try:
        return _run(parsed)
    except AuditError as error:
        raise ConfigError(str(error)) from error


def _run(parsed: Arguments) -> int:
    console = Console()
    if parsed.corpus is not None:
        return _measure(console, parsed.corpus)
    old = stored(parsed.check) if parsed.check else None
    reference = parsed.spec or (old or {}).get("reference")
    if not reference:
        raise AuditError("nothing to audit; give file.py:function, a TOML file, or --check AUDIT.md")
    if old is not None:
        overrides = {name: old[name] for name in ("assume", "becomes")} | {"tensor": tuple(old["tensor"])}
    else:
        overrides = {"tensor": parsed.tensor, "assume": parsed.assume, "becomes": parsed.becomes}
    if parsed.mutate:
        return _mutate(console, load(reference, **overrides), parsed.faults)
    report = _audit(reference, overrides)
    for path, text in (
        (parsed.out, report.markdown()),
        (parsed.json, json.dumps(report.json(), indent=2)),
        (parsed.sarif, json.dumps(sarif(report), indent=2)),
    ):
        if path is not None:
            write(path, text)
            console.print(f"wrote {path}", highlight=False)
    if old is not None:
        return _say_stale(console, str(parsed.check), reference, compare(old, report))
    _show(console, report)
    return 0


def _measure(console: Console, folder: Path) -> int:
    """Print recall, precision and the share left to the reader; 1 where the auditor misses its bounds."""
    with _progress() as progress:
        score = run(folder, _teller(progress))
    for case in score.cases:
        if case.missed or case.invented:
            console.print(f"{case.name}: missed lines {case.missed}, invented lines {case.invented}", highlight=False)
    safe = sum(score.controls.values())
    console.print(
        f"{len(score.cases)} cases: recall {score.recall:.1%}, precision {score.precision:.1%}, "
        f"needs-verification {score.unverified:.1%} of rows, {safe} of {len(score.controls)} controls safe",
        highlight=False,
    )
    met = score.recall == 1 and score.precision >= 0.95 and score.unverified <= 0.15 and safe == len(score.controls)
    return 0 if met else 1


def _mutate(console: Console, builder: Builder, faults: int | None) -> int:
    """Print how many planted faults are found; 1 below 98 % or where the program does not audit clean."""
    clean = audit_spec(builder)
    if noisy := [row.name for row in clean.rows if row.hits]:
        console.print(f"not clean before anything is planted: {', '.join(noisy)}", highlight=False)
        return 1
    planned = mutants(clean)
    chosen = planned if faults is None else sample(planned, faults)
    with _progress() as progress:
        score = measure(builder, chosen, _teller(progress))
    for mutant in score.missed:
        console.print(f"missed: {mutant.kind} at {mutant.file}:{mutant.line}", highlight=False)
    total = len(score.found) + len(score.missed)
    broken = len(score.broken)
    kinds = len({mutant.kind for mutant in chosen})
    console.print(
        f"{len(score.found)} of {total} planted faults of {kinds} kinds found at their line, {broken} could not run, "
        f"{len(planned)} can be planted",
        highlight=False,
    )
    return 0 if score.recall >= 0.98 else 1


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _teller(progress: Progress) -> Callable[[str, int, int], None]:
    task = progress.add_task("loading", total=None)

    def tell(text: str, done: int, total: int) -> None:
        progress.update(task, description=text, completed=done, total=total)

    return tell


def _audit(reference: str, overrides: dict[str, object]) -> Report:
    with _progress() as progress:
        return audit_spec(load(reference, **overrides), reference=reference, progress=_teller(progress))


def _say_stale(console: Console, path: str, reference: str, messages: list[str]) -> int:
    for message in messages:
        console.print(message, highlight=False, markup=False)
    if messages:
        console.print(f"{path} is stale; write it again with: foxhunt audit {reference} --out {path}", highlight=False)
        return 1
    console.print(f"{path} is up to date", highlight=False)
    return 0


def _show(console: Console, report: Report) -> None:
    table = Table("#", "consumer", "where", "phase", "verdict", "evidence", box=None, header_style="bold")
    for row in report.rows:
        colour = _COLOURS[row.verdict]
        verdict = row.verdict + ("" if row.direct else " (no direct read)")
        table.add_row(str(row.number), row.name, row.place, row.phase, f"[{colour}]{verdict}[/]", row.evidence)
    console.print(table)
    console.print(", ".join(f"{count} {verdict}" for verdict, count in report.counts.items()), highlight=False)
