"""Reports that several tests look at."""

import contextlib
from pathlib import Path

import pytest

from foxhunt.audit import Report, audit_spec
from foxhunt.audit.corpus import Score, run
from foxhunt.audit.spec import load

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def default() -> Report:
    """The default agent as `foxhunt audit` sees it from the project's folder."""
    reference = "audits/agent.py:default"
    with contextlib.chdir(ROOT):
        return audit_spec(load(reference), reference=reference)


@pytest.fixture(scope="session")
def score() -> Score:
    """The measured corpus."""
    return run(ROOT / "tests" / "audit" / "corpus")
