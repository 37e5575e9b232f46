"""`foxhunt migrate` from the outside: the table, the refusal, mistakes in one line."""

from pathlib import Path

import pytest

from foxhunt.cli import main

TINY = [
    *("--env", "CartPole-v1", "--environments", "4", "--evaluations", "1", "--evaluation-episodes", "2"),
    *("--network.trunk", "relu", "--network.hidden1", "8", "--network.hidden2", "8", "--network.head-hidden", "8"),
    *("--learner.batch-size", "8", "--learner.warmup-steps", "50", "--learner.replay-capacity", "400"),
    *("--steps", "400", "--learner.learning-rate", "0.02", "--learner.steps-per-update", "1"),
]
HASTE = ["--states", "40", "--distil.updates", "2", "--distil.batch-size", "16"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("migrate") / "run"
    assert main(["train", *TINY, "--out", str(folder)]) == 0
    return folder


def test_forced_run_is_written_and_compared(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", str(run), *HASTE, "--force", "--out", str(tmp_path / "new")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for part in ("held-out states", "best all at once", "last all at once", "target all at once", "no market"):
        assert part in printed
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["checkpoints", "config.json", "metrics.jsonl"]
    assert main(["migrate", str(tmp_path / "new"), "--trunk", "grn"]) == 2
    assert "has a grn trunk already; nothing to migrate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere is not a run with checkpoints"),
        (["{run}", *HASTE, "--least-agreement", "1.0"], "under the bound of 100.0%; nothing written"),
        (["{run}", "--least-agreement", "2"], "least_agreement must be in [0, 1]"),
        (["{run}", "--out", "{run}"], "exists; choose another --out"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(
    run: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.parent.rglob("*"))
    assert main(["migrate", *(argument.format(run=run) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert sorted(run.parent.rglob("*")) == before
