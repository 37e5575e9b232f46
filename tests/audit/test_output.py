"""Reports: Markdown, JSON, SARIF, TOML specs, and the check that tells stale from true."""

import json
import shutil
from pathlib import Path

import pytest

from foxhunt.audit import audit_spec
from foxhunt.audit.check import compare, stored
from foxhunt.audit.rules import RULES
from foxhunt.audit.spec import load
from foxhunt.cli import main

HERE = Path(__file__).parent


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the small agent that may be edited."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(HERE / "grn_agent.py", tmp_path / "agent.py"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def differences(agent: Path, old: str, new: str) -> list[str]:
    """What the check says after an edit."""
    report = audit_spec(load("agent.py:build"))
    Path("audit.md").write_text(report.markdown())
    edit(agent, old, new)
    return compare(stored(Path("audit.md")), audit_spec(load("agent.py:build")))


def test_an_unchanged_program_is_up_to_date(agent: Path) -> None:
    assert differences(agent, '"""A small agent', '"""One small agent') == []


def test_moved_lines_alone_are_said_to_have_moved(agent: Path) -> None:
    messages = differences(agent, "def predictive_coding", "\n\ndef predictive_coding")
    assert len(messages) == 2
    assert all("moved, not changed" in message for message in messages), messages


def test_an_edited_consumer_is_named_with_its_line(agent: Path) -> None:
    messages = differences(agent, "return (h[1:] - h[:-1]).square().mean()", "return (h[1:] - h[:-1]).pow(4).mean()")
    line = next(i for i, text in enumerate(agent.read_text().splitlines(), 1) if ".pow(4)" in text)
    assert messages == [f"row 5, predictive_coding: new or edited reader at agent.py:{line}"]


def test_an_added_consumer_appears(agent: Path) -> None:
    messages = differences(agent, "    memory[0] = h\n", "    memory[0] = h\n    memory[1] = h.tanh()\n")
    assert any("appeared: store" in message for message in messages), messages


def test_a_consumer_that_breaks_changes_its_verdict(agent: Path) -> None:
    messages = differences(agent, "return (h[1:] - h[:-1]).square().mean()", "return h.sqrt().mean()")
    assert len(messages) == 1
    assert "predictive_coding: safe-with-signed became assumes-non-negative" in messages[0]


def test_a_removed_consumer_is_gone(agent: Path) -> None:
    messages = differences(agent, "    memory[0] = h\n", "    memory[0] = 0\n")
    assert len(messages) == 1
    assert "row gone: store" in messages[0]


def test_the_command_writes_checks_and_says_when_it_is_stale(agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ["--out", "audit.md", "--json", "audit.json", "--sarif", "audit.sarif"]
    assert main(["audit", "agent.py:build", *outputs]) == 0
    assert json.loads(Path("audit.json").read_text())["counts"]["safe-with-signed"] == 15
    assert main(["audit", "--check", "audit.md"]) == 0
    assert "up to date" in capsys.readouterr().out
    safe, place = '"verdict":"safe-with-signed"', '"places":["agent.py:117"]'
    edit(Path("audit.md"), f"{safe},{place}", f'"verdict":"assumes-non-negative",{place}')
    assert main(["audit", "--check", "audit.md"]) == 1
    assert "stale" in capsys.readouterr().out


def test_the_corpus_command_prints_the_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("square_root", "safe_softmax"):
        shutil.copy(HERE / "corpus" / f"{name}.py", tmp_path)
    assert main(["audit", "--corpus", str(tmp_path)]) == 0
    said = "2 cases: recall 100.0%, precision 100.0%, needs-verification 0.0% of rows, 1 of 1 controls safe"
    assert said in " ".join(capsys.readouterr().out.split())


def test_the_mutation_command_refuses_a_program_that_is_not_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", f"{HERE / 'corpus' / 'square_root.py'}:build", "--mutate"]) == 1
    assert "not clean before anything is planted: step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope.py:build"], "names no Python file"),
        (["agent.py:nope"], "no function 'nope'"),
        (["agent.py:build", "--tensor", "online.nothing:"], "no submodule"),
        (["agent.py:build", "--becomes", "odd"], "not understood"),
        (["--check", "missing.md"], "No such file"),
        (["--check", "agent.py"], "not written by foxhunt audit"),
        ([], "nothing to audit"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(
    agent: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["audit", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert said.startswith("foxhunt audit:")
    assert "\n" not in said


def test_a_toml_file_names_the_audit(agent: Path) -> None:
    Path("audit.toml").write_text(
        '[audit]\nfunction = "agent.py:build"\nassume = ">=0"\nbecomes = "signed"\n'
        '[[consumer]]\nname = "values"\nwhere = ["value_head"]\n'
    )
    report = audit_spec(load("audit.toml"))
    assert report.becomes == "signed"
    assert report.rows[0].name == "values"
    assert report.rows[0].declared


def test_every_rule_is_documented() -> None:
    text = (HERE.parents[1] / "docs" / "audit" / "rules.md").read_text()
    assert [name for name in RULES if f"## {name}\n" not in text] == []


def test_the_tutorials_program_comes_out_as_the_tutorial_says(tmp_path: Path) -> None:
    tutorial = (HERE.parents[1] / "docs" / "audit" / "tutorial.md").read_text()
    code = tutorial.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "model.py").write_text(code)
    report = audit_spec(load(f"{tmp_path / 'model.py'}:build"))
    assert [(row.name, row.sites[0].line, row.verdict) for row in report.rows] == [
        ("classify", 18, "safe-with-signed"),
        ("Model.pool", 14, "assumes-non-negative"),
    ]
