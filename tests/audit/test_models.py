"""Public models come out as a reader of their source labels them."""

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from foxhunt.audit import Report, Spec, audit, audit_spec

SAFE, UNSAFE = "safe-with-signed", "assumes-non-negative"

# Source text at the read, in the order of the report, and its verdict.
LABELS: dict[str, list[tuple[str, str]]] = {
    "bert": [("self.dense(hidden_states)", SAFE)],
    "bert_block": [
        ("self.query(hidden_states)", SAFE),
        ("self.key(hidden_states)", SAFE),
        ("self.value(hidden_states)", SAFE),
        ("self.LayerNorm(hidden_states + input_tensor)", SAFE),
    ],
    "mixtral": [("torch.topk(router_probs", UNSAFE)],
    "dqn": [("self.q_net(", SAFE)],
    "actor_critic": [("self.action_net(latent_pi)", SAFE)],
    "quantile_network": [("logits.unsqueeze(1) *", SAFE)],
    "gated_residual": [("self.fc2(x)", SAFE)],
    "variable_selection": [("var_outputs * sparse_weights", SAFE)],
}


def load() -> ModuleType:
    path = Path(__file__).parent / "models" / "public.py"
    spec = importlib.util.spec_from_file_location("public_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PUBLIC = load()


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    builders: dict[str, Callable[[], Spec]] = {name: getattr(PUBLIC, name) for name in LABELS}
    return {name: audit_spec(builder) for name, builder in builders.items()}


def source(report: Report, number: int) -> str:
    """The line of the first site of a row, wherever its package lies."""
    site = report.rows[number].sites[0]
    module = importlib.import_module(site.file.removesuffix(".py").replace("/", "."))
    return inspect.getsource(module).splitlines()[site.line - 1].strip()


@pytest.mark.parametrize("name", LABELS)
def test_rows_are_those_that_were_labelled(reports: dict[str, Report], name: str) -> None:
    report = reports[name]
    assert len(report.rows) == len(LABELS[name])
    for number, (text, verdict) in enumerate(LABELS[name]):
        assert text in source(report, number)
        assert report.rows[number].verdict == verdict, report.rows[number].evidence
    assert report.located == report.operations


def test_the_mixture_of_experts_divides_by_a_sum(reports: dict[str, Report]) -> None:
    (hit,) = reports["mixtral"].rows[0].hits
    assert hit.rule == "divisor-sign"
    assert hit.file == "transformers/models/mixtral/modeling_mixtral.py"


def test_a_model_of_torch_modules_only_is_named_by_module_path() -> None:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2), nn.ReLU(), nn.Linear(2, 1))
    report = audit(model, (torch.randn(5, 4),), tensor="1")
    assert [(row.name, row.verdict) for row in report.rows] == [("2", SAFE)]
