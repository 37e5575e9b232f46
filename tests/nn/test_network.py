"""The network: dueling arithmetic, what each branch reads, RMS matching, the gradient that enters the trunk."""

import pytest
import torch

from foxhunt.config import NetworkConfig
from foxhunt.nn.branches import PackedLinear, RmsMatch
from foxhunt.nn.network import Network, scale_gradient

WIDTHS = {"market": 6, "portfolio": 3, "ofi": 4, "ofi3": 3}
TRADING = (("direction", 3), ("magnitude", 3), ("order", 3), ("urgency", 3))
DIRECTION, MAGNITUDE, ORDER, URGENCY = range(4)


def small(trunk: str = "grn", **changes: float) -> NetworkConfig:
    return NetworkConfig(trunk=trunk, hidden1=16, hidden2=12, head_hidden=8, **{"atoms": 11, **changes})


def observe(batch: int, widths: dict[str, int] = WIDTHS, dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    return {part: torch.randn(batch, width, dtype=dtype) for part, width in widths.items()}


def make(seed: int = 0, trunk: str = "grn", branches: tuple[tuple[str, int], ...] = TRADING) -> Network:
    torch.manual_seed(seed)
    return Network(WIDTHS, branches, small(trunk)).double()


def reference_logits(network: Network, h: torch.Tensor, observation: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Every branch on its own: one concatenated input, one matrix, one dueling sum."""
    heads = network.heads
    weight, bias = heads.inner.weight, heads.inner.bias
    hidden = len(bias) // 5
    value = heads.value(torch.relu(h @ weight[:hidden].T + bias[:hidden]))

    def branch(index: int, layer: PackedLinear, sibling: int, context: torch.Tensor | None) -> torch.Tensor:
        rows = slice(hidden * (1 + index), hidden * (2 + index))
        matrix, x = weight[rows], h
        if context is not None:
            matrix = torch.cat([matrix, heads.context[TRADING[index][0]].weight], dim=1)
            x = torch.cat([h, context], dim=1)
        features = torch.relu(x @ matrix.T + bias[rows])
        advantage = (features @ layer.weight[sibling].T + layer.bias[sibling]).view(len(h), 3, -1)
        return value[:, None] + advantage - advantage.mean(1, keepdim=True)

    direction = branch(DIRECTION, heads.lead, 0, None)
    q_direction = (direction.softmax(-1) * network.atoms).sum(-1)
    delta_z = (network.atoms[-1] - network.atoms[0]) / (len(network.atoms) - 1)
    square_h, square_q = heads.match["magnitude"].mean_square
    matched = q_direction / delta_z * (square_h / square_q).sqrt()
    return [
        direction,
        branch(MAGNITUDE, heads.follow, 0, matched.detach()),
        branch(ORDER, heads.lead, 1, observation["ofi3"]),
        branch(URGENCY, heads.lead, 2, observation["ofi3"]),
    ]


@pytest.mark.parametrize("trunk", ["grn", "relu"])
def test_packed_heads_equal_separate_ones(trunk: str) -> None:
    network = make(trunk=trunk)
    network.heads.match["magnitude"].mean_square.copy_(torch.tensor([0.7, 0.2]))
    observation = observe(9)
    output = network(observation)
    expected = torch.stack(reference_logits(network, output.h, observation), dim=1)
    torch.testing.assert_close(output.logits, expected, rtol=0, atol=1e-12)


def test_trunk_reads_every_part_side_by_side() -> None:
    network, observation = make(), observe(5)
    joined = torch.cat([observation[part] for part in ("market", "portfolio", "ofi", "ofi3")], dim=1)
    torch.testing.assert_close(network(observation).h, network.trunk(joined), rtol=0, atol=0)


def test_gradient_of_h_is_the_sum_of_its_consumers() -> None:
    network, observation = make(), observe(6)
    h = torch.randn(6, 12, dtype=torch.float64, requires_grad=True)
    cotangent = torch.randn(6, 4, 3, 11, dtype=torch.float64)
    (whole,) = torch.autograd.grad((network.heads(h, observation) * cotangent).sum(), h)
    parts = torch.zeros_like(whole)
    for index, logits in enumerate(reference_logits(network, h, observation)):
        (part,) = torch.autograd.grad((logits * cotangent[:, index]).sum(), h, retain_graph=True)
        parts += part
    torch.testing.assert_close(whole, parts, rtol=0, atol=1e-12)


def test_heads_pass_gradcheck_on_signed_h() -> None:
    """Without the magnitude branch, whose direct input stops the gradient by design."""
    branches = (("direction", 3), ("order", 3), ("urgency", 2))
    network, observation = make(branches=branches), observe(3)
    h = torch.randn(3, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: network.heads(h, observation), (h,), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("branches", [1, 4])
def test_trunk_gets_its_gradient_divided_by_branches_plus_one(branches: int) -> None:
    names = TRADING[:branches]
    network, observation = make(branches=names), observe(7)
    output = network(observation)
    cotangent = torch.randn_like(output.logits)
    trunk = tuple(network.trunk.parameters())
    scaled = torch.autograd.grad((output.logits * cotangent).sum(), trunk)
    h = network.trunk(torch.cat([observation[part] for part in WIDTHS], dim=1))
    plain = torch.autograd.grad((network.heads(h, observation) * cotangent).sum(), trunk)
    for ours, full in zip(scaled, plain, strict=True):
        torch.testing.assert_close(ours, full / (branches + 1), rtol=1e-10, atol=1e-14)


def test_scaled_gradient_leaves_values_alone() -> None:
    x = torch.tensor([1e-30, -3.7, 1e30, 0.0], requires_grad=True)
    y = scale_gradient(x, 0.2)
    assert torch.equal(y, x)
    y.sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 0.2))


def test_magnitude_loss_does_not_reach_the_direction_branch() -> None:
    network, observation = make(), observe(5)
    network(observation).logits[:, MAGNITUDE].sum().backward()
    # The sum over actions cancels the advantages; the value and the context alone remain.
    network.zero_grad()
    network(observation).logits[:, MAGNITUDE, 0].square().sum().backward()
    assert (network.heads.context["magnitude"].weight.grad != 0).any()
    assert (network.heads.lead.weight.grad[0] == 0).all()


@pytest.mark.parametrize(("source", "reader"), [("ofi3", ORDER), ("ofi3", URGENCY)])
def test_order_and_urgency_read_ofi3_directly(source: str, reader: int) -> None:
    network, observation = make(), observe(4)
    h = torch.randn(4, 12, dtype=torch.float64)
    before = network.heads(h, observation)
    moved = network.heads(h, {**observation, source: observation[source] + 1})
    changed = ((before - moved).abs().amax((0, 2, 3)) > 1e-6).tolist()
    assert changed == [False, False, True, True]
    assert changed[reader]


@pytest.mark.parametrize("trunk", ["grn", "relu"])
def test_measured_rms_match_makes_both_parts_of_the_concat_equal(trunk: str) -> None:
    network = make(trunk=trunk)
    for _ in range(300):
        with torch.no_grad():
            network.measure(network(observe(32)))
    with torch.no_grad():
        output = network(observe(4096))
        h_rms = output.h.square().mean().sqrt()
        scaled = network.heads.scaled_values(MAGNITUDE, output.logits[:, DIRECTION])
        matched_rms = network.heads.match["magnitude"](scaled).square().mean().sqrt()
    assert abs(float(scaled.square().mean().sqrt() / h_rms) - 1) > 0.2, "nothing to match"
    torch.testing.assert_close(matched_rms, h_rms, rtol=0.05, atol=0)


def test_measurement_is_a_plain_mean_first_and_an_average_with_memory_later() -> None:
    match = RmsMatch(rate=0.25).double()
    for square in (1.0, 2.0, 6.0):
        match.measure(torch.full((2, 2), square**0.5, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64))
    torch.testing.assert_close(match.mean_square[0], torch.tensor(3.0, dtype=torch.float64))
    for square in (7.0, 11.0):  # the fourth is the last with weight 1/n, the fifth has weight `rate` already
        match.measure(torch.full((2, 2), square**0.5, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64))
    torch.testing.assert_close(match.mean_square[0], torch.tensor(4.0 + 0.25 * 7.0, dtype=torch.float64))


def test_forward_and_evaluation_leave_the_measurements_alone() -> None:
    network = make()
    before = [tensor.clone() for tensor in network.measurements()]
    network(observe(8))
    assert len(before) == 2
    assert all(torch.equal(a, b) for a, b in zip(before, network.measurements(), strict=True))
    network.measure(network(observe(8)))
    assert not any(torch.equal(a, b) for a, b in zip(before, network.measurements(), strict=True))


def test_measurements_are_saved_and_other_buffers_are_not() -> None:
    network = make()
    saved = network.state_dict().keys()
    assert {name for name in saved if "match" in name} == {
        "heads.match.magnitude.mean_square",
        "heads.match.magnitude.measurements",
    }
    assert saved - {name for name, _ in network.named_parameters()} == {name for name in saved if "match" in name}


def test_branches_of_unequal_size_are_masked() -> None:
    torch.manual_seed(0)
    network = Network({"market": 4}, (("a", 2), ("b", 4), ("c", 1)), small()).double()
    output = network({"market": torch.randn(6, 4, dtype=torch.float64)})
    values = network.values(output.logits)
    assert output.logits.shape == (6, 3, 4, 11)
    assert values.isinf().tolist()[0] == [[False, False, True, True], [False] * 4, [False, True, True, True]]
    assert network.action_counts.tolist() == [2, 4, 1]
    # Dueling: the mean over real actions of the logits is the value, the same for all branches.
    torch.testing.assert_close(output.logits[:, 0, :2].mean(1), output.logits[:, 1].mean(1))
    torch.testing.assert_close(output.logits[:, 2, 0], output.logits[:, 1].mean(1))


def test_padding_gets_no_gradient_and_changes_nothing() -> None:
    torch.manual_seed(0)
    network = Network({"market": 4}, (("a", 2), ("b", 4)), small()).double()
    observation = {"market": torch.randn(5, 4, dtype=torch.float64)}
    logits = network(observation).logits
    (logits[:, 0, :2].square().sum() + logits[:, 1].square().sum()).backward()
    padded = network.heads.lead.weight.grad[0].view(4, 11, -1)[2:]
    assert (padded == 0).all()
    with torch.no_grad():
        network.heads.lead.weight[0].view(4, 11, -1)[2:] += 100
    torch.testing.assert_close(network(observation).logits[:, 0, :2], logits[:, 0, :2], rtol=0, atol=0)


def test_values_are_means_of_the_distributions() -> None:
    network = Network({"market": 2}, (("a", 2),), NetworkConfig(atoms=3, v_min=-1.0, v_max=1.0))
    logits = torch.tensor([[[[0.0, 0.0, 0.0], [-1e4, 0.0, 0.0]]]])
    torch.testing.assert_close(network.values(logits), torch.tensor([[[0.0, 0.5]]]))
    assert network.atoms.tolist() == [-1.0, 0.0, 1.0]


def test_unknown_branch_names_have_no_context() -> None:
    network = Network({"market": 3}, (("action0", 2), ("action1", 5)), small())
    assert not list(network.heads.context.parameters())
    assert network.measurements() == []
