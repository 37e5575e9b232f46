"""C51: the projection against float64 and by hand, and the cross-entropy at extreme logits."""

import numpy as np
import pytest
import torch

from foxhunt.rl.categorical import cross_entropy, mean, project


def reference_projection(
    reward: float, discount: float, probabilities: np.ndarray, v_min: float, v_max: float
) -> np.ndarray:
    """Algorithm 1 of Bellemare et al. 2017 in float64: split every atom's mass between its two neighbours."""
    atoms = len(probabilities)
    delta = (v_max - v_min) / (atoms - 1)
    out = np.zeros(atoms)
    for j, p in enumerate(probabilities):
        moved = min(max(reward + discount * (v_min + j * delta), v_min), v_max)
        b = (moved - v_min) / delta
        lower = min(int(np.floor(b + 1e-12)), atoms - 1)
        share = min(max(b - lower, 0.0), 1.0)
        out[lower] += p * (1 - share)
        if share > 0:
            out[min(lower + 1, atoms - 1)] += p * share
    return out


def run(reward: list[float], discount: list[float], p: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return project(torch.tensor(reward, dtype=z.dtype), torch.tensor(discount, dtype=z.dtype), p, z)


def test_hand_worked() -> None:
    z = torch.tensor([-1.0, 0.0, 1.0])
    p = torch.tensor([[0.2, 0.3, 0.5]])
    # Atoms move to -0.25, 0.25, 0.75.
    expected = [0.2 * 0.25, 0.2 * 0.75 + 0.3 * 0.75 + 0.5 * 0.25, 0.3 * 0.25 + 0.5 * 0.75]
    torch.testing.assert_close(run([0.25], [0.5], p, z), torch.tensor([expected]))
    torch.testing.assert_close(run([0.5], [0.0], p, z), torch.tensor([[0.0, 0.5, 0.5]]))
    torch.testing.assert_close(run([9.0], [1.0], p, z), torch.tensor([[0.0, 0.0, 1.0]]))
    torch.testing.assert_close(run([-9.0], [1.0], p, z), torch.tensor([[1.0, 0.0, 0.0]]))


@pytest.mark.parametrize(("v_min", "v_max", "atoms"), [(-500, 500, 31), (-10, 10, 51), (0, 100, 51), (-1, 3, 7)])
def test_mass_that_lands_on_an_atom_stays_whole(v_min: float, v_max: float, atoms: int) -> None:
    """The classic loses the mass where floor and ceiling agree."""
    z = torch.linspace(v_min, v_max, atoms)
    identity = torch.eye(atoms)
    for k in range(atoms):
        still = run([0.0], [1.0], identity[k : k + 1], z)
        assert torch.equal(still, identity[k : k + 1])
        terminal = run([float(z[k])], [0.0], identity[:1], z)
        one_step_of_place = (atoms - 1) * 2.0**-23
        torch.testing.assert_close(terminal, identity[k : k + 1], rtol=0, atol=one_step_of_place)


def test_float32_does_not_overshoot_the_support() -> None:
    """At +-500 with 31 atoms (v_max - v_min) / delta_z rounds above the last index in float32."""
    z = torch.linspace(-500, 500, 31)
    p = torch.full((8, 31), 1 / 31)
    out = run([500, 499.99997, 1e6, -1e6, -500, 33.333332, -33.333332, 0], [1, 1, 1, 1, 1, 1, 1, 0.99], p, z)
    torch.testing.assert_close(out.sum(1), torch.ones(8), rtol=0, atol=1e-6)
    assert (out >= 0).all()
    assert out[2].tolist() == pytest.approx([0.0] * 30 + [1.0], abs=1e-6)


def test_equals_float64_over_many_grids() -> None:
    seed = 11
    generator = np.random.default_rng(seed)
    for _ in range(200):
        atoms = int(generator.integers(2, 80))
        v_min = -float(10 ** generator.uniform(-2, 3))
        v_max = v_min + float(10 ** generator.uniform(-1, 3.3))
        span = v_max - v_min
        p = generator.dirichlet(np.full(atoms, 0.3), size=16)
        reward = generator.uniform(-span, span, 16)
        discount = generator.choice([0.0, 0.9, 0.97, 1.0], 16)
        expected = np.stack([reference_projection(*row, v_min, v_max) for row in zip(reward, discount, p, strict=True)])
        exact = run(reward.tolist(), discount.tolist(), torch.tensor(p), _grid(v_min, v_max, atoms, torch.float64))
        np.testing.assert_allclose(exact.numpy(), expected, atol=1e-9, err_msg=f"seed {seed}")
        single = run(reward.tolist(), discount.tolist(), torch.tensor(p).float(), _grid(v_min, v_max, atoms))
        # An error in place, in atoms, is the error in mass: float32 steps of the largest place that occurs.
        places = (np.abs(reward) + abs(v_min) + abs(v_max)) / span * (atoms - 1)
        tolerance = 8 * 2.0**-24 * max(float(places.max()), 1.0)
        np.testing.assert_allclose(single.double().numpy(), expected, atol=tolerance, err_msg=f"seed {seed}")
        np.testing.assert_allclose(single.double().sum(1).numpy(), 1, atol=1e-6, err_msg=f"seed {seed}")


def _grid(v_min: float, v_max: float, atoms: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.linspace(v_min, v_max, atoms, dtype=dtype)


def test_mean_is_kept_inside_the_support() -> None:
    z = _grid(-10, 10, 51, torch.float64)
    p = torch.softmax(torch.randn(5, 51, dtype=torch.float64), -1)
    out = run([0.3, -0.2, 0.1, 0.0, 0.5], [0.5] * 5, p, z)
    torch.testing.assert_close(out @ z, torch.tensor([0.3, -0.2, 0.1, 0.0, 0.5], dtype=z.dtype) + 0.5 * (p @ z))


def test_cross_entropy_is_finite_and_exact_at_extreme_logits() -> None:
    """log(softmax + eps) saturates at -log(eps) and loses its gradient there."""
    logits = torch.tensor([[0.0, -200.0, -1e4]], requires_grad=True)
    target = torch.tensor([[0.0, 0.5, 0.5]])
    loss = cross_entropy(logits, target)
    assert loss.item() == pytest.approx(0.5 * 200 + 0.5 * 1e4)
    loss.sum().backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[1.0, -0.5, -0.5]]))


def test_cross_entropy_by_hand() -> None:
    logits = torch.tensor([[0.0, np.log(3.0)]])
    assert cross_entropy(logits, torch.tensor([[1.0, 0.0]])).item() == pytest.approx(np.log(4))
    assert cross_entropy(logits, torch.tensor([[0.25, 0.75]])).item() == pytest.approx(np.log(4) - 0.75 * np.log(3))


def test_mean_by_hand() -> None:
    assert mean(torch.log(torch.tensor([0.25, 0.75])), torch.tensor([-4.0, 8.0])).item() == pytest.approx(5.0)


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="atoms"):
        project(torch.zeros(2), torch.zeros(2), torch.zeros(2, 5), torch.zeros(4))
