"""The network: dueling arithmetic, what each branch reads, RMS matching, the gradient that enters the trunk."""

import pytest
import torch

from foxhunt.config import NetworkConfig
from foxhunt.nn.branches import PackedLinear
from foxhunt.nn.isv import InternalState, Slot
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
    weight, bias = heads.stem.linear.weight, heads.stem.linear.bias
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

    direction = branch(DIRECTION, heads.leaders.advantage, 0, None)
    q_direction = (direction.softmax(-1) * network.atoms).sum(-1)
    delta_z = (network.atoms[-1] - network.atoms[0]) / (len(network.atoms) - 1)
    rms_h, rms_q = network.encoder.isv.slots[[Slot.H_RMS, Slot.VALUE_RMS]]
    matched = q_direction / delta_z * rms_h / rms_q
    return [
        direction,
        branch(MAGNITUDE, heads.followers.advantage, 0, matched.detach()),
        branch(ORDER, heads.leaders.advantage, 1, observation["ofi3"]),
        branch(URGENCY, heads.leaders.advantage, 2, observation["ofi3"]),
    ]


@pytest.mark.parametrize("trunk", ["grn", "relu"])
def test_packed_heads_equal_separate_ones(trunk: str) -> None:
    network = make(trunk=trunk)
    network.encoder.isv.slots[[Slot.H_RMS, Slot.VALUE_RMS]] = torch.tensor([0.7, 0.2], dtype=torch.float64)
    observation = observe(9)
    output = network(observation)
    expected = torch.stack(reference_logits(network, output.h, observation), dim=1)
    torch.testing.assert_close(output.logits, expected, rtol=0, atol=1e-12)


def test_trunk_reads_every_part_side_by_side() -> None:
    network, observation = make(), observe(5)
    joined = torch.cat([observation[part] for part in ("market", "portfolio", "ofi", "ofi3")], dim=1)
    torch.testing.assert_close(network(observation).h, network.encoder.trunk(joined), rtol=0, atol=0)


def test_gradient_of_h_is_the_sum_of_its_consumers() -> None:
    network, observation = make(), observe(6)
    h = torch.randn(6, 12, dtype=torch.float64, requires_grad=True)
    cotangent = torch.randn(6, 4, 3, 11, dtype=torch.float64)
    (whole,) = torch.autograd.grad((network.heads(h, observation, network.encoder.isv.match()) * cotangent).sum(), h)
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
    assert torch.autograd.gradcheck(
        lambda h: network.heads(h, observation, network.encoder.isv.match()), (h,), eps=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("branches", [1, 4])
def test_trunk_gets_its_gradient_divided_by_branches_plus_one(branches: int) -> None:
    names = TRADING[:branches]
    network, observation = make(branches=names), observe(7)
    output = network(observation)
    cotangent = torch.randn_like(output.logits)
    trunk = tuple(network.encoder.trunk.parameters())
    scaled = torch.autograd.grad((output.logits * cotangent).sum(), trunk)
    h = network.encoder.trunk(torch.cat([observation[part] for part in WIDTHS], dim=1))
    plain = torch.autograd.grad((network.heads(h, observation, network.encoder.isv.match()) * cotangent).sum(), trunk)
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
    assert (network.heads.leaders.advantage.weight.grad[0] == 0).all()


@pytest.mark.parametrize(("source", "reader"), [("ofi3", ORDER), ("ofi3", URGENCY)])
def test_order_and_urgency_read_ofi3_directly(source: str, reader: int) -> None:
    network, observation = make(), observe(4)
    h = torch.randn(4, 12, dtype=torch.float64)
    before = network.heads(h, observation, network.encoder.isv.match())
    moved = network.heads(h, {**observation, source: observation[source] + 1}, network.encoder.isv.match())
    changed = ((before - moved).abs().amax((0, 2, 3)) > 1e-6).tolist()
    assert changed == [False, False, True, True]
    assert changed[reader]


def test_state_is_a_plain_mean_first_and_an_average_with_memory_later() -> None:
    state = InternalState(rate=0.25).double()

    def measure(value: float) -> None:
        state.measure({Slot.H_RMS: torch.tensor(value, dtype=torch.float64)})

    for value in (1.0, 2.0, 6.0):
        measure(value)
    assert state.slots[Slot.H_RMS].item() == pytest.approx(3.0)
    for value in (7.0, 11.0):  # the fourth is the last with weight 1/n, the fifth has weight `rate` already
        measure(value)
    assert state.slots[Slot.H_RMS].item() == pytest.approx(4.0 + 0.25 * 7.0)


def test_error_trend_rises_while_errors_grow() -> None:
    state = InternalState()
    for _ in range(300):
        state.measure({Slot.TD_ERROR: torch.tensor(1.0)})
    assert state.slots[Slot.TD_TREND].item() == pytest.approx(1.0)
    for _ in range(10):
        state.measure({Slot.TD_ERROR: torch.tensor(3.0)})
    # Fast average 1 + 2 (1 - 0.9^10), slow one 1 + 2 (1 - 0.99^10).
    assert state.slots[Slot.TD_TREND].item() == pytest.approx((3 - 2 * 0.9**10) / (3 - 2 * 0.99**10), rel=1e-4)


def test_state_takes_the_regime_from_the_observation() -> None:
    state = InternalState()
    vector = state({"market": torch.zeros(2, 3), "regime": torch.tensor([[2.0, 0.5], [0.3, 0.9]])})
    assert vector[:, Slot.VOLATILITY_RATIO].tolist() == pytest.approx([2.0, 0.3])
    assert vector[:, Slot.STABILITY].tolist() == pytest.approx([0.5, 0.9])
    calm = state({"market": torch.zeros(2, 3)})
    assert calm[:, [Slot.VOLATILITY_RATIO, Slot.STABILITY]].tolist() == [[1, 1], [1, 1]]
    assert torch.equal(vector[:, Slot.HEALTH], calm[:, Slot.HEALTH])


def test_forward_leaves_the_measurements_alone() -> None:
    network = make()
    before = [tensor.clone() for tensor in network.measurements()]
    network(observe(8))
    assert len(before) == 2
    assert all(torch.equal(a, b) for a, b in zip(before, network.measurements(), strict=True))


def test_measurements_are_saved_and_other_buffers_are_not() -> None:
    network = make()
    measured = {f"encoder.isv.{name}" for name in ("slots", "fast_error", "measurements")}
    assert network.state_dict().keys() - {name for name, _ in network.named_parameters()} == measured


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
    padded = network.heads.leaders.advantage.weight.grad[0].view(4, 11, -1)[2:]
    assert (padded == 0).all()
    with torch.no_grad():
        network.heads.leaders.advantage.weight[0].view(4, 11, -1)[2:] += 100
    torch.testing.assert_close(network(observation).logits[:, 0, :2], logits[:, 0, :2], rtol=0, atol=0)


def test_values_are_means_of_the_distributions() -> None:
    network = Network({"market": 2}, (("a", 2),), NetworkConfig(atoms=3, v_min=-1.0, v_max=1.0))
    logits = torch.tensor([[[[0.0, 0.0, 0.0], [-1e4, 0.0, 0.0]]]])
    torch.testing.assert_close(network.values(logits), torch.tensor([[[0.0, 0.5]]]))
    assert network.atoms.tolist() == [-1.0, 0.0, 1.0]


def test_unknown_branch_names_have_no_context() -> None:
    network = Network({"market": 3}, (("action0", 2), ("action1", 5)), small())
    assert not list(network.heads.context.parameters())
