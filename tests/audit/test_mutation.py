"""Faults planted in a clean agent are found at their line; the clean agent has none."""

from pathlib import Path

import pytest

from foxhunt.audit import Report, audit_spec
from foxhunt.audit.mutate import WRAPPERS, Mutant, measure, mutants, planted
from foxhunt.audit.spec import Builder, load

AGENT = Path(__file__).parent / "grn_agent.py"


@pytest.fixture(scope="module")
def builder() -> Builder:
    return load(f"{AGENT}:build")


@pytest.fixture(scope="module")
def clean(builder: Builder) -> Report:
    return audit_spec(builder)


def chosen(report: Report) -> list[Mutant]:
    """Every other wrapper at every reader, and all structural faults."""
    planned = mutants(report)
    return [item for item in planned if item.kind not in WRAPPERS] + [
        item for item in planned if item.kind in WRAPPERS and (item.line + list(WRAPPERS).index(item.kind)) % 4 == 0
    ]


def test_nothing_is_found_on_the_agent_as_it_is(clean: Report) -> None:
    assert [row.name for row in clean.rows if row.hits] == []
    assert len(clean.rows) == 15


def test_there_are_fifty_faults_to_plant_of_every_kind(clean: Report) -> None:
    planned = mutants(clean)
    assert len(planned) >= 50
    assert {item.kind for item in planned} == {*WRAPPERS, "unscaled concat", "dropped residual"}


def test_planted_faults_are_found_at_their_line(builder: Builder, clean: Report) -> None:
    score = measure(builder, chosen(clean))
    assert [f"{item.kind} at {item.function}:{item.line}" for item in score.missed] == []
    assert len(score.found) >= 25
    assert len(score.broken) <= len(score.found) // 10


def test_planting_is_undone(builder: Builder, clean: Report) -> None:
    mutant = next(item for item in mutants(clean) if item.kind == "mask")
    with planted(mutant):
        assert any(row.hits for row in audit_spec(builder).rows)
    assert audit_spec(builder).json() == clean.json()
