"""Faults planted in clean agents are found at their line; the clean agents have none."""

from pathlib import Path

import pytest

from foxhunt.audit import AuditError, Report, audit_spec
from foxhunt.audit.faults import HAND_WRITTEN, SOUND, WRAPPERS
from foxhunt.audit.mutate import Mutant, measure, mutants, plant_by_hand, planted, sample
from foxhunt.audit.spec import Builder, load
from foxhunt.cli import main

AGENT = Path(__file__).parent / "grn_agent.py"
SHIPPED = Path(__file__).parents[2] / "audits" / "agent.py"
STRUCTURAL = {*HAND_WRITTEN, "unscaled concat", "swapped target trunk"}


@pytest.fixture(scope="module")
def builder() -> Builder:
    return load(f"{AGENT}:build")


@pytest.fixture(scope="module")
def clean(builder: Builder) -> Report:
    return audit_spec(builder)


def spread(planned: list[Mutant], every: int) -> list[Mutant]:
    """Every so many of the faults, starting elsewhere at every line so that all kinds come up."""
    kinds = sorted({item.kind for item in planned})
    return [item for item in planned if (item.line + kinds.index(item.kind)) % every == 0]


def missed(builder: Builder, chosen: list[Mutant]) -> list[str]:
    score = measure(builder, chosen)
    assert len(score.broken) <= len(score.found) // 10
    return [f"{item.kind} at {item.function}:{item.line}" for item in score.missed]


def test_nothing_is_found_on_the_agent_as_it_is(clean: Report) -> None:
    assert [row.name for row in clean.rows if row.hits] == []
    assert len(clean.rows) == 15


def test_there_are_fifty_faults_to_plant_of_every_kind(clean: Report) -> None:
    planned = mutants(clean)
    assert len(planned) >= 50
    assert {item.kind for item in planned} == {*WRAPPERS, *STRUCTURAL, "dropped summand"}


def test_a_sample_takes_every_kind_in_turn_and_nothing_twice(clean: Report) -> None:
    planned = mutants(clean)
    kinds = {item.kind for item in planned}
    chosen = sample(planned, len(kinds))
    assert {item.kind for item in chosen} == kinds
    assert sample(planned, len(kinds)) == chosen
    everything = sample(planned, len(planned) + 1)
    assert len(everything) == len(planned)
    assert set(everything) == set(planned)
    with pytest.raises(AuditError, match="0 faults are too few"):
        sample(planned, 0)


def test_the_command_plants_as_many_as_asked(clean: Report, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", f"{AGENT}:build", "--mutate", "--faults", "3"]) == 0
    said = "3 of 3 planted faults of 3 kinds found at their line, 0 could not run"
    assert f"{said}, {len(mutants(clean))} can be planted" in " ".join(capsys.readouterr().out.split())


def test_planted_faults_are_found_at_their_line(builder: Builder, clean: Report) -> None:
    planned = mutants(clean)
    chosen = [item for item in planned if item.kind in {"unscaled concat", "swapped target trunk", "dropped summand"}]
    chosen += spread([item for item in planned if item not in chosen], 6)
    assert len(chosen) >= 18
    assert missed(builder, chosen) == []


def test_planting_is_undone(builder: Builder, clean: Report) -> None:
    mutant = next(item for item in mutants(clean) if item.kind == "mask")
    with planted(mutant, builder) as faulty:
        assert any(row.hits for row in audit_spec(faulty).rows)
    assert audit_spec(builder).json() == clean.json()


def test_a_hand_written_function_that_is_right_is_not_reported(builder: Builder, clean: Report) -> None:
    site = next(site for row in clean.rows for site in row.sites if site.function == "Agent.confidence_head")
    mutant = plant_by_hand("sound", site, SOUND)
    assert mutant is not None
    with planted(mutant, builder) as program:
        report = audit_spec(program)
    assert [row.name for row in report.rows if row.hits] == []
    assert report.operations > clean.operations


def test_the_shipped_agent_has_no_fault(default: Report) -> None:
    assert [row.name for row in default.rows if row.hits] == []


def test_structural_faults_in_the_shipped_agent_are_found(default: Report) -> None:
    planned = [item for item in mutants(default) if item.kind in STRUCTURAL]
    assert {item.kind for item in planned} == STRUCTURAL
    kinds = {item.kind: item for item in planned}
    assert missed(load(f"{SHIPPED}:default"), list(kinds.values())) == []


def test_expressions_planted_in_the_shipped_agent_are_found(default: Report) -> None:
    planned = [item for item in mutants(default) if item.kind in WRAPPERS]
    assert missed(load(f"{SHIPPED}:default"), spread(planned, 5)) == []


@pytest.mark.learn_long
def test_every_fault_in_the_full_agent_is_found() -> None:
    builder = load(f"{SHIPPED}:full")
    planned = mutants(audit_spec(builder))
    assert len(planned) >= 50
    score = measure(builder, planned)
    assert score.recall >= 0.98
