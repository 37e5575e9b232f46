"""Small decision problems whose values are known exactly, solved to 1e-2 with both trunks.

A branch's value averages over what the other branches do in the data. With every joint action tried equally often in
every state, the values the algorithm must find are the fixed point of

    Q_b(s, a_b) = mean over the others' actions of [ r(s, a) + discount * mean_b' max_a' Q_b'(s', a') ],

computed below by dynamic programming in float64. With one branch this is the optimality equation itself. With several,
the branches of the toy do not interact in the reward and do not move the state, so that the greedy joint action must
also be optimal, which exhaustive value iteration over joint actions decides.

Dueling ties the branches of a state together (the mean over actions of the logits is the same for all of them), so
that a small error in the means stays however long one trains: about 6e-3 on the first toy.
"""

from dataclasses import dataclass
from itertools import product

import pytest
import torch

from foxhunt.config import LearnerConfig, NetworkConfig
from foxhunt.nn.network import Network
from foxhunt.rl.learner import Learner
from foxhunt.rl.replay import Replay

DISCOUNT = 0.9
UPDATES = 1200


@dataclass(frozen=True)
class Toy:
    """A finite decision problem: tables over [state, joint action]."""

    actions: tuple[int, ...]
    reward: torch.Tensor
    successor: torch.Tensor
    terminates: torch.Tensor
    span: tuple[float, float]
    """Lowest and highest atom."""

    @property
    def joint(self) -> list[tuple[int, ...]]:
        """Joint actions in the order of the tables."""
        return list(product(*(range(count) for count in self.actions)))


def independent_branches() -> Toy:
    """Three branches of 2, 3 and 4 actions whose rewards add up, on five states in a fixed order."""
    actions, states = (2, 3, 4), 5
    generator = torch.Generator().manual_seed(3)
    tables = [torch.rand(states, count, dtype=torch.float64, generator=generator) - 0.5 for count in actions]
    joint = list(product(*(range(count) for count in actions)))
    reward = torch.stack([sum(table[:, a] for table, a in zip(tables, j, strict=True)) for j in joint], dim=1)
    successor = torch.tensor([1, 2, 3, 4, 0])[:, None].expand(-1, len(joint))
    terminates = torch.zeros_like(successor, dtype=torch.bool)
    terminates[2] = True
    return Toy(actions, reward, successor, terminates, span=(-2.0, 4.0))


def corridor() -> Toy:
    """One branch: walk left or right, or stay; the right end pays 4 and ends the episode, each step costs 0.1."""
    states = 6
    successor = torch.tensor([[max(s - 1, 0), s, min(s + 1, states - 1)] for s in range(states)])
    reward = torch.full((states, 3), -0.1, dtype=torch.float64)
    reward[states - 2, 2] = reward[states - 1, 1] = reward[states - 1, 2] = 4.0
    reward[0, 0] = 0.3  # a lure at the left end
    return Toy((3,), reward, successor, reward == 4.0, span=(-1.0, 5.0))


def exact_values(toy: Toy) -> list[torch.Tensor]:
    """Fixed point of the branching operator under uniform data, by dynamic programming."""
    shape = (-1, *toy.actions)
    q = [torch.zeros(len(toy.reward), count, dtype=torch.float64) for count in toy.actions]
    for _ in range(400):
        bootstrap = torch.stack([values.amax(1) for values in q]).mean(0)[toy.successor]
        backup = (toy.reward + DISCOUNT * torch.where(toy.terminates, 0, bootstrap)).view(shape)
        others = [[d + 1 for d in range(len(q)) if d != b] for b in range(len(q))]
        q = [backup.mean(dims) if dims else backup for dims in others]
    return q


def optimal_joint_actions(toy: Toy) -> torch.Tensor:
    """Index of the best joint action of every state, by value iteration over joint actions."""
    value = torch.zeros(len(toy.reward), dtype=torch.float64)
    for _ in range(400):
        q = toy.reward + DISCOUNT * torch.where(toy.terminates, 0, value[toy.successor])
        value = q.amax(1)
    return q.argmax(1)


def solve(toy: Toy, trunk: str) -> torch.Tensor:
    """Learned values [states, branches, actions], from one-step episodes that try every joint action in every state.

    The episodes are cut by truncation (unless the toy terminates), so that a bootstrap across the cut is part of the
    problem; n_step 3 must shorten to 1 there.
    """
    torch.manual_seed(0)
    states, joint = toy.reward.shape
    widths, branches = {"market": states}, tuple((f"b{i}", count) for i, count in enumerate(toy.actions))
    network = Network(
        widths,
        branches,
        NetworkConfig(
            trunk=trunk, hidden1=48, hidden2=48, head_hidden=48, atoms=51, v_min=toy.span[0], v_max=toy.span[1]
        ),
    )
    config = LearnerConfig(
        discount=DISCOUNT,
        n_step=3,
        learning_rate=3e-3,
        learning_rate_end=3e-5,
        target_rate=0.05,
        priority_exponent=0.0,
        batch_size=states * joint,
        warmup_steps=states * joint,
        replay_capacity=8 * states * joint,
    )
    replay = Replay(widths, len(branches), states * joint, config, seed=0)
    one_hot = torch.eye(states)
    start = torch.arange(states).repeat_interleave(joint)
    action = torch.tensor(toy.joint).repeat(states, 1)
    ends, nothing = toy.terminates.flatten(), torch.zeros(states * joint, dtype=torch.bool)
    replay.add({"market": one_hot[start]}, action, toy.reward.flatten(), ends, ~ends, ignored=nothing)
    final = {"market": one_hot[toy.successor.flatten()]}
    replay.add(final, action, torch.zeros(states * joint), nothing, nothing, ignored=~nothing)
    learner = Learner(network, config, UPDATES)
    for _ in range(UPDATES):
        # Equal masses and as many draws as transitions: every update sees each of them exactly once.
        learner.update(replay.sample(states * joint, learner.importance_exponent()))
    with torch.no_grad():
        return network.values(network({"market": one_hot}).logits).double()


@pytest.mark.learn
@pytest.mark.parametrize("trunk", ["grn", "relu"])
@pytest.mark.parametrize("make", [independent_branches, corridor])
def test_toy_is_solved(make: type, trunk: str) -> None:
    toy = make()
    learned, exact = solve(toy, trunk), exact_values(toy)
    for branch, expected in enumerate(exact):
        torch.testing.assert_close(learned[:, branch, : expected.shape[1]], expected, rtol=0, atol=1e-2)
    greedy = learned.argmax(-1).tolist()
    best = optimal_joint_actions(toy).tolist()
    if len(toy.actions) > 1:
        assert [tuple(row) for row in greedy] == [toy.joint[index] for index in best]
    else:
        # Ties at the corridor's end are broken either way; the values reached must be the best.
        reached = toy.reward.gather(1, torch.tensor(greedy))
        assert torch.equal(reached[-1], toy.reward[-1].amax()[None])
        assert [row[0] for row in greedy[:-1]] == best[:-1]
