"""The monitor: each statistic by hand, and that looking moves nothing."""

import json
import math
from pathlib import Path

import pytest
import torch

from foxhunt.config import LearnerConfig, NetworkConfig, TrainConfig
from foxhunt.nn.isv import Slot
from foxhunt.nn.network import Network
from foxhunt.rl.monitor import dead_units, effective_rank, monitor, rms, value_statistics
from foxhunt.rl.replay import Replay
from foxhunt.rl.trainer import Trainer

WIDTHS = {"market": 4, "ofi3": 3}
BRANCHES = (("direction", 3), ("magnitude", 2))


class TestDeadUnits:
    def test_of_a_rectified_trunk_never_fire(self) -> None:
        """The third is constant but fires; only the second is dead."""
        assert dead_units(torch.tensor([[0.0, 0.0, 5.0, 1.0], [2.0, 0.0, 5.0, 0.0]])).item() == 0.25

    def test_of_a_signed_trunk_never_move(self) -> None:
        """RMS is sqrt(15 / 6) = 1.58: a spread of 0.01 is below 1 % of it, one of 1 is not, whatever the sign."""
        activation = torch.tensor([[-1.0, -2.01, 3.0], [1.0, -1.99, 1.0]])
        assert dead_units(activation).item() == pytest.approx(1 / 3)

    def test_threshold_is_one_percent_of_the_rms(self) -> None:
        wave = torch.tensor([-1.0, 1.0]).repeat(50)
        for spread, dead in ((0.0065, 1 / 2), (0.0075, 0.0)):  # RMS of both units together is 0.707
            assert dead_units(torch.stack((wave, spread * wave), 1)).item() == pytest.approx(dead)


class TestEffectiveRank:
    @pytest.mark.parametrize("rank", [1, 3, 5])
    def test_of_equal_singular_values_is_their_number(self, rank: int) -> None:
        matrix = torch.zeros(7, 5)
        matrix[range(rank), range(rank)] = -4.0
        assert effective_rank(matrix).item() == pytest.approx(rank)

    def test_by_hand(self) -> None:
        """Singular values 3 and 1: shares 3/4 and 1/4."""
        expected = math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
        assert effective_rank(torch.tensor([[0.0, 3.0], [1.0, 0.0]])).item() == pytest.approx(expected)

    def test_of_nothing_is_zero(self) -> None:
        assert effective_rank(torch.zeros(4, 3)).item() == 0


def test_value_statistics_by_hand() -> None:
    found = value_statistics(torch.tensor([[1.0, 4.0, 2.0], [-1.0, -1.0, 1.0]]))
    assert found["mean"].item() == 1.0
    assert found["std"].item() == pytest.approx(math.sqrt((0 + 9 + 1 + 4 + 4 + 0) / 6))
    assert found["gap"].item() == pytest.approx((2 + 2) / 2)
    assert value_statistics(torch.tensor([[3.0], [5.0]]))["gap"].item() == 0


@pytest.mark.parametrize("trunk", ["grn", "relu"])
def test_monitor_reads_the_network_and_moves_nothing(trunk: str) -> None:
    torch.manual_seed(0)
    network = Network(WIDTHS, BRANCHES, NetworkConfig(trunk=trunk, hidden1=12, hidden2=8, head_hidden=6, atoms=11))
    network.encoder.isv.slots[[Slot.H_RMS, Slot.VALUE_RMS]] = torch.tensor([3.0, 2.0])
    state = {name: value.clone() for name, value in network.state_dict().items()}
    random_state = torch.get_rng_state()
    observation = {part: torch.randn(30, width) for part, width in WIDTHS.items()}
    torch.set_rng_state(random_state)
    found = monitor(network, observation)
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    output = network(observation)
    assert found["h_rms"] == pytest.approx(rms(output.h).item())
    q = network.values(output.logits)
    scaled = q[:, 0] / network.heads.delta_z
    assert found["values_rms"] == pytest.approx(rms(scaled).item(), rel=1e-5)
    assert found["matched_rms"] == pytest.approx(1.5 * rms(scaled).item(), rel=1e-5)
    # The padding of the smaller branch is no action.
    assert found["q_magnitude_mean"] == pytest.approx(q[:, 1, :2].mean().item())
    assert found["q_magnitude_gap"] == pytest.approx((q[:, 1, 0] - q[:, 1, 1]).abs().mean().item())
    assert 1 < found["effective_rank"] <= 8
    assert 0 <= found["dead_units"] < 1


def test_killed_units_are_found() -> None:
    network = Network(WIDTHS, BRANCHES, NetworkConfig(trunk="relu", hidden1=12, hidden2=8, head_hidden=6, atoms=11))
    last = network.encoder.trunk[2]
    torch.nn.init.constant_(last.bias, 1e3)
    with torch.no_grad():
        last.bias[:3] = -1e3
    observation = {part: torch.randn(30, width) for part, width in WIDTHS.items()}
    assert monitor(network, observation)["dead_units"] == pytest.approx(3 / 8)


def test_spread_states_lie_evenly_and_draw_nothing() -> None:
    config = LearnerConfig(replay_capacity=20, batch_size=2, warmup_steps=2)
    replay = Replay({"market": 1}, 1, 2, config, seed=0)
    assert replay.spread(3) is None
    flag = torch.zeros(2, dtype=torch.bool)
    for step in range(6):
        observation = {"market": torch.tensor([[2.0 * step], [2.0 * step + 1]])}
        replay.add(observation, torch.zeros(2, 1, dtype=torch.long), torch.zeros(2), flag, flag, flag)
    before = replay.priorities.generator.get_state()
    spread = replay.spread(4)
    assert spread is not None
    # The newest row, 10 and 11, has no successor yet: places 0, 3, 6 and 9 of the ten others.
    assert spread["market"].squeeze(1).tolist() == [0, 3, 6, 9]
    assert torch.equal(replay.priorities.generator.get_state(), before)


def test_a_run_records_the_monitor_with_each_evaluation(tmp_path: Path) -> None:
    trainer = Trainer(
        TrainConfig(
            env="CartPole-v1",
            out=tmp_path / "run",
            steps=200,
            environments=4,
            evaluations=2,
            evaluation_episodes=1,
            network=NetworkConfig(hidden1=8, hidden2=8, head_hidden=8, atoms=11, v_min=0, v_max=100),
            learner=LearnerConfig(batch_size=8, warmup_steps=40, replay_capacity=400),
        )
    )
    trainer.train()
    written = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    last = [record for record in written if "evaluation_return" in record][-1]
    states = trainer.replay.spread(512)
    assert states is not None
    expected = {f"monitor_{name}": value for name, value in monitor(trainer.learner.network, states).items()}
    assert expected.items() <= last.items()
