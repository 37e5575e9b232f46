"""The scan's closed form against its recurrence, and what a history may and may not do."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional

from foxhunt.nn.temporal import Temporal, insert, scan_last


def scan_last_recurrent(
    x: torch.Tensor,
    step: torch.Tensor,
    decay: torch.Tensor,
    inputs: torch.Tensor,
    output: torch.Tensor,
) -> torch.Tensor:
    """What `scan_last` computes, by stepping through time."""
    state = x.new_zeros(x.shape[0], x.shape[2], inputs.shape[-1], x.shape[3])
    for t in range(x.shape[1]):
        keep = torch.exp(decay * step[:, t])[..., None, None]
        write = torch.einsum("bh,bn,bhp->bhnp", step[:, t], inputs[:, t], x[:, t])
        state = keep * state + write
    return torch.einsum("bn,bhnp->bhp", output, state)


def scan_arguments(batch: int, time: int, heads: int, width: int, state: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(batch + time)
    return (
        torch.randn(batch, time, heads, width, dtype=torch.float64),
        functional.softplus(torch.randn(batch, time, heads, dtype=torch.float64)),
        -torch.rand(heads, dtype=torch.float64) * 2,
        torch.randn(batch, time, state, dtype=torch.float64),
        torch.randn(batch, state, dtype=torch.float64),
    )


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1), (3, 32, 4, 5, 7), (2, 9, 1, 8, 3)])
def test_closed_form_equals_recurrence(shape: tuple[int, int, int, int, int]) -> None:
    arguments = scan_arguments(*shape)
    torch.testing.assert_close(scan_last(*arguments), scan_last_recurrent(*arguments), rtol=1e-12, atol=1e-12)


def test_scan_by_hand() -> None:
    """Two steps: y = c (b_1 e^{a d_2} d_1 x_1 + b_2 d_2 x_2), with e^{a d_2} = 1/4."""
    one = {"dtype": torch.float64}
    y = scan_last(
        torch.tensor([2.0, 5.0], **one).reshape(1, 2, 1, 1),
        torch.tensor([1.0, 2.0], **one).reshape(1, 2, 1),
        -torch.log(torch.tensor([2.0], **one)),
        torch.tensor([1.0, 2.0], **one).reshape(1, 2, 1),
        torch.tensor([[3.0]], **one),
    )
    assert y.item() == pytest.approx(3 * (0.25 * 2 + 2 * 2 * 5))


def test_scan_gradient() -> None:
    arguments = [a.requires_grad_() for a in scan_arguments(2, 5, 2, 3, 2)]
    assert gradcheck(scan_last, arguments)


def test_insert_puts_the_present_last() -> None:
    history = torch.zeros(2, 3, 5)
    out = insert(history, torch.ones(2, 3), torch.full((2, 2), 2.0))
    assert out.shape == (2, 4, 5)
    assert out[0, -1].tolist() == [1, 1, 1, 2, 2]
    assert out[:, :-1].abs().sum() == 0


class TestTemporal:
    @pytest.fixture
    def block(self) -> Temporal:
        torch.manual_seed(0)
        block = Temporal(hidden=8, ofi=3, condition=4, heads=2, state=5).double()
        torch.nn.init.normal_(block.weight)
        return block

    @staticmethod
    def inputs(past: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(1)
        shapes = [(6, 8), (6, 3), (6, past, 11), (6, 4)]
        h, ofi, history, condition = (torch.randn(s, dtype=torch.float64) for s in shapes)
        return h, ofi, history, torch.ones(6, past, dtype=torch.bool), condition

    def test_starts_as_identity(self) -> None:
        h, ofi, history, valid, condition = (x.float() if x.is_floating_point() else x for x in self.inputs(4))
        assert torch.equal(Temporal(8, 3, 4, heads=2)(h, ofi, history, valid, condition), h)

    def test_invalid_steps_count_for_nothing(self, block: Temporal) -> None:
        """A short episode gives what the valid tail alone gives, whatever lies in the invalid rows."""
        h, ofi, history, valid, condition = self.inputs(6)
        valid[:, :4] = False
        masked = block(h, ofi, history, valid, condition)
        short = block(h, ofi, history[:, 4:], valid[:, 4:], condition)
        torch.testing.assert_close(masked, short)
        history[:, :4] = 1e6
        torch.testing.assert_close(block(h, ofi, history, valid, condition), short)

    def test_condition_changes_how_the_past_fades_but_route_never_reads_h(self, block: Temporal) -> None:
        h, ofi, history, valid, condition = self.inputs(6)
        assert not torch.allclose(
            block(h, ofi, history, valid, condition), block(h, ofi, history, valid, condition + 1)
        )
        assert block.route.in_features == condition.shape[1]

    def test_recent_past_matters_more(self, block: Temporal) -> None:
        h, ofi, history, valid, condition = self.inputs(20)
        history.requires_grad_()
        block(h, ofi, history, valid, condition).square().sum().backward()
        size = history.grad.abs().sum((0, 2))
        assert size[-5:].mean() > 3 * size[:5].mean()
