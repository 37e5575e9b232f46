"""Acting: greedy choice, epsilon drawn per branch and per environment."""

import torch

from foxhunt.config import NetworkConfig
from foxhunt.nn.network import Network
from foxhunt.rl.act import GreedyPolicy, epsilon_greedy, greedy, uniform


def test_greedy_takes_the_best_of_every_branch() -> None:
    q = torch.tensor([[[1.0, 3.0, 2.0], [0.0, -1.0, -torch.inf]]])
    assert greedy(q).tolist() == [[1, 0]]


def explored(epsilon: float, batch: int = 20_000, seed: int = 3) -> torch.Tensor:
    """Where a choice among 1000 actions is not the greedy one: exploration, but for one draw in a thousand."""
    q = torch.zeros(batch, 3, 1000)
    q[..., 0] = 1
    generator = torch.Generator().manual_seed(seed)
    return epsilon_greedy(q, torch.tensor([1000, 1000, 1000]), torch.tensor(epsilon), generator) != 0


def test_epsilon_is_the_share_of_random_actions() -> None:
    assert not explored(0.0).any()
    for epsilon in (0.1, 0.5):
        share = explored(epsilon).double().mean().item()
        assert abs(share - epsilon * 0.999) < 4 * (epsilon * (1 - epsilon) / 60_000) ** 0.5


def test_branches_and_environments_explore_independently() -> None:
    """One draw a vector step or an environment would make these correlations 1."""
    hits = explored(0.3).double() - 0.3 * 0.999
    covariance = hits.T @ hits / len(hits)
    off_diagonal = covariance[~torch.eye(3, dtype=torch.bool)]
    assert off_diagonal.abs().max() < 4 * 0.21 / len(hits) ** 0.5
    neighbours = (hits[1:] * hits[:-1]).mean().item()
    assert abs(neighbours) < 4 * 0.21 / (3 * len(hits)) ** 0.5


def test_random_actions_cover_unequal_branches_evenly() -> None:
    generator = torch.Generator().manual_seed(0)
    actions = uniform(torch.tensor([2, 5, 1]), 50_000, generator)
    for branch, count in enumerate((2, 5, 1)):
        shares = actions[:, branch].bincount(minlength=count).double() / 50_000
        assert len(shares) == count
        assert (shares - 1 / count).abs().max() < 4 * (1 / count / 50_000) ** 0.5


def test_same_generator_state_same_actions() -> None:
    assert torch.equal(explored(0.5, batch=50), explored(0.5, batch=50))


def test_greedy_policy_follows_the_network_in_place() -> None:
    torch.manual_seed(0)
    network = Network({"market": 3}, (("a", 4), ("b", 2)), NetworkConfig(hidden1=8, hidden2=8, head_hidden=8))
    policy, observation = GreedyPolicy(network), {"market": torch.randn(64, 3)}
    action = policy(observation)
    assert torch.equal(action, network.values(network(observation).logits).argmax(-1))
    assert not action.requires_grad
    assert action[:, 1].max() <= 1
