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
def copied(tmp_path: Path, default: Report) -> Path:
    """A copy of the package and of its audit, which may be edited."""
    for folder in ("foxhunt", "audits"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "audit.md").write_text(default.markdown())
    return tmp_path


def check(folder: Path) -> tuple[int, list[str]]:
    """Exit status and messages of the command on the copy."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    words = [sys.executable, "-m", "foxhunt", "audit", "--check", "audit.md"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
    return done.returncode, done.stdout.strip().splitlines()


def edit(path: Path, old: str, new: str) -> int:
    """Replace a text that occurs once; returns its line."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1


def test_edits_of_the_agent_make_its_audit_stale(copied: Path, default: Report) -> None:
    (monitor,) = (row for row in default.rows if row.name == "measure")
    moved = int(monitor.place.rpartition(":")[2])
    stale = "audit.md is stale; write it again with: foxhunt audit audits/agent.py:default --out audit.md"
    shifted = (
        f"row {monitor.number}, measure: moved, not changed: "
        f"foxhunt/rl/measure.py:{moved} to foxhunt/rl/measure.py:{moved + 1}"
    )
    edit(copied / "foxhunt/rl/measure.py", "    law = output", "\n    law = output")
    assert check(copied) == (1, [shifted, stale])

    edited = edit(copied / "foxhunt/nn/branches.py", "Tensor = self.linear(h)", "Tensor = self.linear(+h)")
    loss = "        loss = torch"
    added = edit(copied / "foxhunt/rl/objective.py", loss, f"        output.h.tanh()\n{loss}")
    status, messages = check(copied)
    assert status == 1
    assert messages[-1] == stale
    readers = [row for row in default.rows if f"foxhunt/nn/branches.py:{edited}" in row.place]
    assert len(readers) == 2  # the online and the target network
    for row in readers:
        assert f"row {row.number}, {row.name}: new or edited reader at foxhunt/nn/branches.py:{edited}" in messages
    (appeared,) = (message for message in messages if "appeared" in message)
    assert appeared.endswith(f" at foxhunt/rl/objective.py:{added} (safe-with-signed)")
    assert len(messages) == 5
