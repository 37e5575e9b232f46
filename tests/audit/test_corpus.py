"""Every labelled case of a public failure gets its verdict at its line, and every control comes out safe."""

from pathlib import Path

import pytest

from foxhunt.audit.corpus import Score, run, run_case

CORPUS = Path(__file__).parent / "corpus"
HELD_OUT = Path(__file__).parent / "heldout"
"""Programs written in another style after the rules were: their first measurement is in docs/audit/ci.md."""
CASES = sorted(CORPUS.glob("*.py"))


def test_the_whole_corpus_meets_its_bounds(score: Score) -> None:
    assert score.recall == 1.0
    assert score.precision >= 0.95
    assert score.unverified <= 0.15
    assert len(score.controls) >= 10
    assert all(score.controls.values()), score.controls


@pytest.mark.parametrize("name", [path.stem for path in CASES])
def test_nothing_but_the_labelled_lines_is_reported(score: Score, name: str) -> None:
    case = next(case for case in score.cases if case.name == name)
    assert case.missed == []
    assert set(case.found) == set(case.planted)
    assert case.report.located == case.report.operations


def test_a_wrong_label_costs_recall_and_precision(tmp_path: Path) -> None:
    text = (CORPUS / "square_root.py").read_text()
    wrong = text.replace("  # audit: assumes-non-negative domain", "").replace(
        "torch.relu(x @ WEIGHT)", "torch.relu(x @ WEIGHT)  # audit: assumes-non-negative domain"
    )
    (tmp_path / "wrong.py").write_text(wrong)
    score = Score((run_case(tmp_path / "wrong.py"),))
    assert score.recall == 0.0
    assert score.precision == 0.0


def test_programs_that_the_rules_were_not_written_for_meet_the_bounds_too() -> None:
    score = run(HELD_OUT)
    assert len(score.cases) >= 20
    assert score.recall == 1.0
    assert score.precision >= 0.95
    assert score.unverified <= 0.15
    assert len(score.controls) >= 6
    assert all(score.controls.values()), score.controls
