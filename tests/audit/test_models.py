"""Public modules come out as a reader of their source labels them."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from foxhunt.audit import Report, audit, audit_spec

HERE = Path(__file__).parent


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("public_models", HERE / "models" / "public.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PUBLIC = load()
MODELS = {model.build.__name__: model for model in PUBLIC.MODELS}


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    return {name: audit_spec(model.build) for name, model in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_those_that_were_labelled(reports: dict[str, Report], name: str) -> None:
    model, report = MODELS[name], reports[name]
    assert PUBLIC.recall(model, report) >= 0.95
    assert len(report.rows) == len(model.labels)
    for number, (text, verdict) in enumerate(model.labels):
        assert any(text in line for line in PUBLIC.texts(report, number))
        assert report.rows[number].verdict == verdict, report.rows[number].evidence
    assert report.located == report.operations


def test_the_documented_table_names_every_module_with_its_recall() -> None:
    text = (HERE.parents[1] / "docs" / "audit" / "models.md").read_text()
    rows = re.findall(r"^\| ([\w-]+) [\d.]+ \| ([^|]+) \| (\d+) \| (\d+)% \|", text, re.MULTILINE)
    assert [(package, module, int(count)) for package, module, count, _ in rows] == [
        (model.package, model.module, len(model.labels)) for model in MODELS.values()
    ]
    assert len({package for package, *_ in rows}) >= 6
    assert all(int(recall) >= 95 for *_, recall in rows)


def test_recall_falls_where_a_labelled_reader_is_not_reported(reports: dict[str, Report]) -> None:
    other = PUBLIC.Model("entmax", "sparsemax", PUBLIC.sparsemax, (*MODELS["sparsemax"].labels, ("absent", "unsafe")))
    assert PUBLIC.recall(other, reports["sparsemax"]) == pytest.approx(2 / 3)


def test_the_mixture_of_experts_divides_by_a_sum(reports: dict[str, Report]) -> None:
    (hit,) = reports["mixtral"].rows[0].hits
    assert hit.rule == "divisor-sign"
    assert hit.file == "transformers/models/mixtral/modeling_mixtral.py"


def test_backwards_by_hand_of_sparse_softmaxes_need_their_sign_and_zeros(reports: dict[str, Report]) -> None:
    (root,) = reports["entmax"].rows[0].hits
    assert root.rule == "domain"
    zeros = [hit.rule for row in reports["sparsemax"].rows for hit in row.hits]
    assert zeros == ["zero-test", "zero-test"]


def test_a_model_of_torch_modules_only_is_named_by_module_path() -> None:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2), nn.ReLU(), nn.Linear(2, 1))
    report = audit(model, (torch.randn(5, 4),), tensor="1")
    assert [(row.name, row.verdict) for row in report.rows] == [("2", PUBLIC.SAFE)]
