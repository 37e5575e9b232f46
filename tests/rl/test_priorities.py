"""Prioritised draws: exact shares, reachability of every slot, importance weights, writes."""

import pytest
import torch

from foxhunt.rl.priorities import FLOOR, Priorities
from foxhunt.rl.schedule import linear, progress


def filled(mass: list[float] | torch.Tensor, exponent: float = 1.0, seed: int = 0) -> Priorities:
    priorities = Priorities(len(mass), exponent, seed)
    priorities.mass.copy_(torch.as_tensor(mass, dtype=torch.float64))
    return priorities


def test_draws_follow_the_masses() -> None:
    mass = torch.tensor([1.0, 0.0, 3.0, 6.0, 0.0], dtype=torch.float64)
    counts = filled(mass).draw(10_000).bincount(minlength=5).double()
    # Stratified: each slot's count is its exact share give or take the two parts at its edges.
    assert ((counts - 10_000 * mass / mass.sum()).abs() <= 2).all()
    assert counts[1] == counts[4] == 0


def test_one_draw_from_every_part() -> None:
    """Equal masses and as many draws as slots: every slot exactly once."""
    for seed in range(5):
        assert filled(torch.ones(1000), seed=seed).draw(1000).sort().values.tolist() == list(range(1000))


def test_every_slot_of_a_million_can_be_drawn() -> None:
    """Skewed masses, as TD errors are: in a float32 prefix sum part of the slots have no interval of their own."""
    slots = 1_000_000
    mass = torch.randn(slots, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).mul(3).exp()
    single = mass.float().cumsum(0)
    assert (single.diff() == 0).double().mean() > 0.1
    priorities = filled(mass)
    ends = mass.cumsum(0)
    middle = (ends - mass / 2) / ends[-1]  # aim at the middle of every slot's interval
    aimed = middle * slots - torch.arange(slots)
    priorities._uniform = lambda count: aimed  # type: ignore[method-assign]  # place the draws by hand
    assert torch.equal(priorities.draw(slots), torch.arange(slots))


def test_last_share_never_runs_past_the_mass() -> None:
    priorities = filled([1.0, 2.0, 0.0, 0.0])
    priorities._uniform = lambda count: torch.ones(count, dtype=torch.float64)  # type: ignore[method-assign]
    assert priorities.draw(4).max() == 1


def test_importance_weights_are_normalised_by_the_batch() -> None:
    priorities = filled([1e-9, 1.0, 4.0, 16.0])
    slots = torch.tensor([1, 2, 3])
    expected = torch.tensor([1.0, 0.5, 0.25])
    torch.testing.assert_close(priorities.importance(priorities.mass[slots], torch.tensor(0.5)), expected)
    # N and the total cancel: (N p / total)^-beta over its largest.
    p = priorities.mass / priorities.mass.sum()
    weights = (4 * p[slots]).pow(-0.7)
    torch.testing.assert_close(
        priorities.importance(priorities.mass[slots], torch.tensor(0.7)), (weights / weights.max()).float()
    )
    torch.testing.assert_close(priorities.importance(priorities.mass[slots], torch.tensor(0.0)), torch.ones(3))


def test_full_correction_makes_prioritised_means_unbiased() -> None:
    """At exponent 1, sum of p_i * w_i * x_i is proportional to the plain mean."""
    priorities, x = filled([0.5, 1.0, 4.0, 2.5]), torch.tensor([3.0, -1.0, 2.0, 8.0])
    weights = priorities.importance(priorities.mass, torch.tensor(1.0))
    shares = (priorities.mass / priorities.mass.sum()).float()
    corrected = (shares * weights * x).sum() / (shares * weights).sum()
    torch.testing.assert_close(corrected, x.mean())


def test_writes_apply_exponent_and_floor() -> None:
    priorities = filled([1.0] * 4, exponent=0.5)
    priorities.write(torch.tensor([0, 2]), torch.tensor([4.0, 0.0]))
    expected = [(4 + FLOOR) ** 0.5, 1.0, FLOOR**0.5, 1.0]
    assert priorities.mass.tolist() == pytest.approx(expected)


def test_repeated_slots_are_written_once_with_their_largest_value() -> None:
    priorities = filled([9.0, 9.0, 9.0])
    priorities.write(torch.tensor([1, 1, 0, 1]), torch.tensor([2.0, 3.0, 1.0, 0.5]))
    assert priorities.mass.tolist() == pytest.approx([1 + FLOOR, 3 + FLOOR, 9.0])


def test_peak_only_grows() -> None:
    priorities = filled([1.0, 1.0])
    priorities.write(torch.tensor([0]), torch.tensor([5.0]))
    priorities.write(torch.tensor([0]), torch.tensor([0.1]))
    assert priorities.peak.item() == pytest.approx(5 + FLOOR)


def test_exponent_zero_is_uniform() -> None:
    priorities = filled([1.0] * 3, exponent=0.0)
    priorities.write(torch.tensor([0, 1, 2]), torch.tensor([0.0, 1e-3, 1e6]))
    assert priorities.mass.tolist() == [1.0, 1.0, 1.0]


def test_state_round_trip_continues_the_draws() -> None:
    priorities = filled(torch.rand(100, generator=torch.Generator().manual_seed(2)))
    priorities.draw(7)
    twin = Priorities(100, 1.0, seed=99)
    twin.load_state_dict(priorities.state_dict())
    assert torch.equal(priorities.draw(50), twin.draw(50))
    assert torch.equal(priorities.mass, twin.mass)


def test_schedules_reach_their_ends_exactly() -> None:
    total = 37
    shares = [progress(torch.tensor(done), total) for done in range(total + 3)]
    importance = [linear(0.4, 1.0, share).item() for share in shares]
    assert importance[0] == pytest.approx(0.4)
    assert importance[36] == importance[38] == 1.0
    assert importance[18] == pytest.approx(0.7)
    assert importance == sorted(importance)
    assert progress(torch.tensor(0), 1).item() == 0.0
