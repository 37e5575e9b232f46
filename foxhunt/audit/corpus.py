"""Measures the auditor against labelled programs.

A case is a Python file with a function `build` that returns a `Spec`. A line that ends in `# audit: VERDICT` must
come out with that verdict; every other line must be safe. A file without labels is a negative control.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from foxhunt.audit.api import audit_spec
from foxhunt.audit.engine import Progress
from foxhunt.audit.errors import AuditError
from foxhunt.audit.report import Report
from foxhunt.audit.spec import load
from foxhunt.audit.verdict import CHECK, UNSAFE

_LABEL: Final = re.compile(r"# audit: (?P<verdict>[\w-]+)(?: (?P<rule>[\w-]+))?\s*$")


@dataclass(frozen=True)
class Case:
    """One file: what was planted, by line, and what was found, by line."""

    name: str
    planted: dict[int, tuple[str, str]]
    found: dict[int, str]
    rows: int
    unverified: int
    report: Report

    @property
    def missed(self) -> list[int]:
        """Planted lines without a finding of their verdict."""
        return [line for line, (verdict, _) in self.planted.items() if not self._hit(line, verdict)]

    @property
    def invented(self) -> list[int]:
        """Lines called unsafe that are not labelled so."""
        unsafe = [line for line, verdict in self.found.items() if verdict == UNSAFE]
        return [line for line in unsafe if self.planted.get(line, ("", ""))[0] != UNSAFE]

    def _hit(self, line: int, verdict: str) -> bool:
        hits = [hit for row in self.report.rows for hit in row.hits if hit.line <= line <= hit.end_line]
        rule = self.planted[line][1]
        return any(hit.verdict == verdict and rule in ("", hit.rule) for hit in hits)


@dataclass(frozen=True)
class Score:
    """The measure over a folder of cases."""

    cases: tuple[Case, ...]

    @property
    def recall(self) -> float:
        """Share of planted lines that were found with their verdict."""
        planted = sum(len(case.planted) for case in self.cases)
        return 1 - sum(len(case.missed) for case in self.cases) / planted if planted else 1.0

    @property
    def precision(self) -> float:
        """Share of lines called assumes-non-negative that are."""
        called = sum(verdict == UNSAFE for case in self.cases for verdict in case.found.values())
        return 1 - sum(len(case.invented) for case in self.cases) / called if called else 1.0

    @property
    def unverified(self) -> float:
        """Share of rows left to the reader."""
        rows = sum(case.rows for case in self.cases)
        return sum(case.unverified for case in self.cases) / rows if rows else 0.0

    @property
    def controls(self) -> dict[str, bool]:
        """Every negative control, and whether all of it came out safe."""
        return {case.name: not case.found for case in self.cases if not case.planted}


def labels(path: Path) -> dict[int, tuple[str, str]]:
    """Verdict and rule (empty where any will do) by line number."""
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := _LABEL.search(line):
            found[number] = (match["verdict"], match["rule"] or "")
    return found


def run_case(path: Path) -> Case:
    """Audit one labelled file."""
    report = audit_spec(load(f"{path}:build"))
    planted = labels(path)
    found: dict[int, str] = {}
    for hit in (hit for row in report.rows for hit in row.hits):
        line = next((line for line in planted if hit.line <= line <= hit.end_line), hit.line)
        if found.get(line) != UNSAFE:
            found[line] = hit.verdict
    unverified = sum(row.verdict == CHECK for row in report.rows)
    return Case(path.stem, planted, found, len(report.rows), unverified, report)


def run(folder: Path, progress: Progress | None = None) -> Score:
    """Audit every case of a folder; raises `AuditError` where there is none."""
    paths = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    if not paths:
        raise AuditError(f"{folder} holds no cases; give a folder of Python files with a function build")
    cases = []
    for index, path in enumerate(paths):
        if progress:
            progress(path.stem, index, len(paths))
        cases.append(run_case(path))
    return Score(tuple(cases))
