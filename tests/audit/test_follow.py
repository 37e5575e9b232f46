"""T is followed through views, in-place writes, custom operators, checkpoints, hooks, escapes and shared modules."""

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from foxhunt.audit import AuditError, Report, Spec, audit, audit_spec

SAFE, UNSAFE, CHECK = "safe-with-signed", "assumes-non-negative", "needs-verification"
WEIGHT = torch.randn(6, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)


@torch.library.custom_op("foxhunt_tests::root", mutates_args=())
def root(x: Tensor) -> Tensor:
    return torch.sqrt(x + 1e-6)


def run(step: object, tensor: str = "step:h", **settings: object) -> Report:
    return audit(step, (torch.randn(5, 6),), tensor=tensor, **settings)  # type: ignore[arg-type]  # settings vary


def operations(report: Report) -> list[str]:
    return [row.operation.split(";")[0] for row in report.rows]


def test_views_and_shape_uses_are_no_reads_but_reads_through_views_are() -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT)
        part = h.view(-1)[3:9].detach()
        empty = torch.zeros_like(h)
        return empty.sum() + part.cos().sum()

    assert operations(run(step)) == ["cos"]


def test_an_in_place_write_keeps_the_buffer_under_audit() -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT).detach()
        h.mul_(0.5)
        return torch.log(h + 1.0)

    report = run(step)
    assert operations(report) == ["mul", "add"]
    assert [row.verdict for row in report.rows] == [SAFE, UNSAFE]


def test_a_python_operator_is_entered() -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT).detach()
        return root(h)

    report = run(step)
    (hit,) = [hit for row in report.rows for hit in row.hits]
    assert (hit.rule, hit.verdict) == ("domain", UNSAFE)
    assert report.rows[-1].sites[0].function == "root"


@pytest.mark.parametrize("name", ["tolist", "numpy", "data_ptr"])
def test_leaving_torch_needs_verification(name: str) -> None:
    def step(x: Tensor) -> None:
        h = torch.relu(x @ WEIGHT).detach()
        getattr(h, name)()

    (row,) = run(step).rows
    assert (row.verdict, [hit.rule for hit in row.hits]) == (CHECK, ["opaque"])


def test_a_python_scalar_keeps_its_tie() -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT).detach()
        total = (h.sum() + 1e-3).item()
        return x / total

    (row,) = run(step).rows
    assert [hit.rule for hit in row.hits] == ["divisor-sign"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_is_recomputed_not_read_in_backward(reentrant: bool) -> None:
    def block(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT)
        return h.sin().exp()

    def step(x: Tensor) -> None:
        checkpoint(block, x.requires_grad_(), use_reentrant=reentrant).sum().backward()

    (row,) = run(step, "block:h").rows
    assert row.recomputed
    assert row.phase == "forward"
    assert row.verdict == SAFE


def test_a_module_used_twice_on_one_line_is_one_row_beside_other_reads() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            h = torch.relu(self.first(x))
            return self.head(h) + self.head(h * 2)

    report = run(Twice(), "Twice.forward:h")
    assert [row.operation.split(";")[0] for row in report.rows] == ["addmm", "mul"]
    assert report.rows[0].name == "head"


def test_backward_of_a_read_is_told_with_the_read() -> None:
    def step(x: Tensor) -> None:
        h = torch.relu(x @ WEIGHT)
        (h @ WEIGHT.t()).sum().backward()

    (row,) = run(step).rows
    assert row.operation == "mm; backward: mm"


def test_the_producers_own_derivative_is_no_finding() -> None:
    def step(x: Tensor) -> None:
        h = torch.relu(x @ WEIGHT)
        h.sum().backward()

    assert [row.verdict for row in run(step).rows] == [SAFE]


def test_a_branch_that_did_not_run_is_named() -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT)
        if x.shape[0] > 100:
            return torch.log(h)
        return h.cos()

    report = run(step)
    assert len(report.branches) == 1
    assert "did not run" in report.markdown()


def test_a_declared_consumer_that_never_ran_says_so() -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT)
        return h.cos()

    row = run(step, declare=["nowhere"]).row("nowhere")
    assert (row.direct, row.evidence) == (False, "did not run")


def test_a_part_of_a_concatenation_is_told_from_the_rest() -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT).detach()
        joined = torch.cat([h, x.abs() + 1.0], -1)
        return torch.log(joined[:, 8:]) + torch.log(joined.split([8, 6], -1)[1])

    report = run(step)
    assert [row.verdict for row in report.rows] == [SAFE]


def test_runs_leave_the_module_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    audit(module, (torch.randn(5, 6),), tensor="2")
    assert module.training
    after = module.state_dict()
    assert all(after[name].equal(value) for name, value in before.items())


@pytest.mark.parametrize(
    ("tensor", "message"),
    [("nothing", "no submodule"), ("step:missing", "never appeared"), ("input[3]", "no such tensor input")],
)
def test_a_tensor_that_cannot_be_found_is_an_error(tensor: str, message: str) -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT)
        return h.cos()

    with pytest.raises(AuditError, match=message.replace("[", r"\[")):
        run(step, tensor)


def test_a_step_that_fails_as_it_stands_is_an_error() -> None:
    def step(x: Tensor) -> None:
        raise ValueError("no luck")

    with pytest.raises(AuditError, match="ValueError: no luck"):
        run(step)


def test_a_step_that_fails_under_the_new_range_is_unsafe_at_its_line() -> None:
    def step(x: Tensor) -> Tensor:
        h = torch.relu(x @ WEIGHT).detach()
        if bool(h.min() < 0):
            raise ValueError("negative rate")
        return h.cos()

    report = audit_spec(lambda: Spec(step, (torch.randn(5, 6),), "step:h"))
    rules = {hit.rule for row in report.rows for hit in row.hits if hit.verdict == UNSAFE}
    assert "failed" in rules


def test_custom_backwards_and_sequence_numbers_are_where_the_tracer_expects_them() -> None:
    before = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]  # private: this test pins it
    y = torch.ones(2, requires_grad=True) * 2
    assert y.grad_fn is not None
    assert y.grad_fn._sequence_nr() == before  # type: ignore[attr-defined]  # private: this test pins it
    assert torch._C._current_autograd_node() is None
    assert torch._library.custom_ops.OPDEFS["foxhunt_tests::root"]._init_fn.__name__ == "root"


def test_a_raw_kernel_launch_needs_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    class JITFunction:
        """Stands for Triton's class of that name; only `run` matters."""

        def run(self, *args: object, grid: object, warmup: bool) -> None:
            """Launch."""

    module = ModuleType("triton.runtime.jit")
    module.JITFunction = JITFunction  # type: ignore[attr-defined]  # a stand-in module
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", module)
    original = JITFunction.run

    def step(x: Tensor) -> None:
        h = torch.relu(x @ WEIGHT).detach()
        JITFunction().run(h, 4, grid=(1,), warmup=False)

    (row,) = run(step).rows
    assert (row.verdict, row.operation) == (CHECK, "triton kernel kernel")
    assert JITFunction.run is original


def test_a_functional_gradient_is_followed_through_its_wrappers() -> None:
    def loss(weight: Tensor, x: Tensor) -> Tensor:
        h = torch.relu(x @ weight)
        product = (h @ weight.t()).sum()
        return (h + 1e-3).log().sum() + product

    def step(x: Tensor) -> None:
        torch.func.grad(loss)(WEIGHT.detach(), x)

    report = run(step, "loss:h")
    assert [(row.operation, row.verdict) for row in report.rows] == [("mm; backward: mm", SAFE), ("add", UNSAFE)]
