"""The shipped agent audits clean, and its checked-in audit goes stale in the right words; on a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from foxhunt.audit import Report, audit_spec
from foxhunt.audit.spec import load

ROOT = Path(__file__).parents[2]
SAFE = "safe-with-signed"
NO_DIRECT_READ = {16, 20, 21, 22, 26}


@pytest.fixture(scope="module")
def full() -> Report:
    return audit_spec(load(f"{ROOT / 'audits' / 'agent.py'}:full"))


def test_all_28_consumers_are_safe_and_nobody_else_reads(full: Report) -> None:
    assert [row.number for row in full.rows] == list(range(1, 29))
    assert {row.verdict for row in full.rows} == {SAFE}
    assert all(row.declared for row in full.rows)
    assert {row.number for row in full.rows if not row.direct} == NO_DIRECT_READ
    assert all(row.evidence.startswith("runs, but") for row in full.rows if not row.direct)
    assert full.located == full.operations


def test_every_line_names_the_tensor_that_it_reads(full: Report) -> None:
    for site in (site for row in full.rows for site in row.sites):
        path = ROOT / site.file
        text = path.read_text().splitlines()[site.line - 1]
        assert any(re.search(rf"\b{name}\b", text) for name in (*site.names, "output.h")), f"{site.place}: {text}"


def test_the_values_beside_h_are_of_its_size(full: Report) -> None:
    ratios = re.findall(r"`matched`: ([\d.]+) as assumed, ([\d.]+) as it becomes", full.rows[2].evidence)
    assert len(ratios) == 2  # the online and the target network
    assert all(1 / 3 <= float(ratio) <= 3 for pair in ratios for ratio in pair)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package and of its audit, which may be edited."""
    for folder in ("foxhunt", "audits"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def command(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of the command on the copy."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    words = [sys.executable, "-m", "foxhunt", "audit", *arguments]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_edits_of_the_agent_make_its_audit_stale(copied: Path) -> None:
    assert command(copied, "audits/agent.py:default", "--out", "audit.md")[0] == 0
    assert command(copied, "--check", "audit.md")[0] == 0
    edit(copied / "foxhunt/nn/branches.py", "joint: Tensor = self.linear(h)", "joint: Tensor = self.linear(input=h)")
    status, said = command(copied, "--check", "audit.md")
    assert status == 1
    assert "new or edited reader at foxhunt/nn/branches.py" in said
    edit(copied / "foxhunt/nn/branches.py", "joint: Tensor = self.linear(input=h)", "joint: Tensor = self.linear(h)")
    edit(copied / "foxhunt/rl/measure.py", "    law = output", "    output.h.tanh()\n    law = output")
    status, said = command(copied, "--check", "audit.md")
    assert status == 1
    assert "appeared: measure at foxhunt/rl/measure.py" in said
    edit(copied / "foxhunt/rl/measure.py", "    output.h.tanh()\n", "\n")
    status, said = command(copied, "--check", "audit.md")
    assert status == 1
    assert "measure: moved, not changed: foxhunt/rl/measure.py:" in said
    assert len(said.strip().splitlines()) == 2, said
