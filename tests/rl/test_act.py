"""Acting: greedy choice, epsilon drawn per branch and per environment."""

import torch

from foxhunt.config import ActingConfig, NetworkConfig
from foxhunt.nn.network import Network
from foxhunt.rl.act import GREEDY, Actor, GreedyPolicy, explore, greedy, uniform


def test_greedy_takes_the_best_of_every_branch() -> None:
    q = torch.tensor([[[1.0, 3.0, 2.0], [0.0, -1.0, -torch.inf]]])
    assert greedy(q).tolist() == [[1, 0]]


COUNTS = torch.tensor([1000, 1000, 1000])


def explored(epsilon: float, batch: int = 20_000, seed: int = 3) -> torch.Tensor:
    """Where a choice among 1000 actions is not the greedy one: exploration, but for one draw in a thousand."""
    best = torch.zeros(batch, 3, dtype=torch.long)
    generator = torch.Generator().manual_seed(seed)
    action, _ = explore(best, torch.full_like(best, GREEDY), COUNTS, torch.tensor(epsilon), 1.0, generator)
    return action != 0


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


def test_random_actions_last_as_long_as_asked_and_take_their_share_of_time() -> None:
    """Runs of one random action have a geometric length of mean 1/renewal; epsilon stays the share of time."""
    generator, epsilon, renewal = torch.Generator().manual_seed(5), torch.tensor(0.3), 1 / 8
    best = torch.zeros(400, 3, dtype=torch.long)
    held, actions = torch.full_like(best, GREEDY), []
    for _ in range(600):
        action, held = explore(best, held, COUNTS, epsilon, renewal, generator)
        actions.append(action)
    path = torch.stack(actions[100:]).flatten(1)
    assert abs((path != 0).double().mean().item() - 0.3) < 0.01
    starts = (path[1:] != path[:-1]) & (path[1:] != 0)
    assert abs((path[1:] != 0).sum().item() / starts.sum().item() - 8) < 0.3


def test_greedy_branches_follow_the_network_between_choices() -> None:
    held = torch.tensor([[GREEDY, 2]])
    action, kept = explore(
        torch.tensor([[7, 7]]), held, torch.tensor([9, 9]), torch.tensor(1.0), 0.0, torch.Generator().manual_seed(0)
    )
    assert action.tolist() == [[7, 2]]
    assert torch.equal(kept, held)


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
    policy, observation = GreedyPolicy(network, ActingConfig()), {"market": torch.randn(64, 3)}
    action, limits = policy(observation)
    assert limits is None
    assert torch.equal(action, network.values(network(observation).logits).argmax(-1))
    assert not action.requires_grad
    assert action[:, 1].max() <= 1


TRADING = (("direction", 3), ("magnitude", 3), ("order", 3), ("urgency", 3))
WIDTHS = {"market": 4, "ofi3": 3}
SIZES = {"hidden1": 8, "hidden2": 8, "head_hidden": 8, "atoms": 11}


def trading_actor(acting: ActingConfig, **heads: int) -> tuple[Actor, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    network = Network(WIDTHS, TRADING, NetworkConfig(**SIZES, **heads))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return Actor(network, acting, 64), {name: torch.randn(64, width) for name, width in WIDTHS.items()}


def test_selectivity_keeps_the_agent_flat_below_its_threshold() -> None:
    acting = ActingConfig(selectivity=True, selectivity_threshold=0.6)
    actor, observation = trading_actor(acting, selectivity=True)
    middle = actor.look(observation).selectivity_logit.median()
    actor.network.selectivity.linear.bias.data += torch.tensor(0.6).logit() - middle
    output = actor.look(observation)
    free, held = greedy(actor.values(output)), actor.best(output)
    doubtful = output.selectivity_logit.sigmoid() < 0.6
    assert 5 < int(doubtful.sum()) < 60
    assert (held[doubtful, 0] == 1).all()
    assert torch.equal(held[~doubtful], free[~doubtful])
    assert torch.equal(held[:, 1:], free[:, 1:])


def test_cvar_acts_on_the_mean_of_the_lower_tail() -> None:
    actor, observation = trading_actor(ActingConfig(values="quantile", cvar=0.25), quantiles=8)
    output = actor.look(observation)
    tau = ((torch.arange(32) + 0.5) / 32 * 0.25).expand(64, -1)
    torch.testing.assert_close(actor.values(output), actor.network.quantiles(output.h, tau).mean(1))
    neutral, _ = trading_actor(ActingConfig(values="quantile"), quantiles=8)
    assert not torch.equal(neutral.best(output), actor.best(output))


class Gamble(torch.nn.Module):
    """Quantiles made by hand: in each branch the first action brings 1 for sure, the second 8 in the best quarter,
    the third nothing; the second has the larger mean, the first the larger median and lower tail."""

    def forward(self, h: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        one, gamble = torch.ones_like(tau), 8.0 * (tau > 0.75)
        return torch.stack((one, gamble, torch.zeros_like(tau)), -1).repeat(1, 1, len(TRADING))


def test_quantiles_are_acted_on_by_their_mean_over_tau() -> None:
    for cvar, values, chosen in ((1.0, [1.0, 2.0, 0.0], 1), (0.75, [1.0, 0.0, 0.0], 0)):
        actor, observation = trading_actor(ActingConfig(values="quantile", cvar=cvar), quantiles=8)
        actor.network.quantile = Gamble()
        output = actor.look(observation)
        torch.testing.assert_close(actor.values(output), torch.tensor(values).expand(64, 4, 3))
        assert (actor.best(output) == chosen).all()


def test_limits_carry_what_is_switched_on_only() -> None:
    heads = {"confidence": True, "risk_budget": True, "trade_plan": True}
    actor, observation = trading_actor(ActingConfig(risk_budget=True), **heads)
    output = actor.look(observation)
    limits = actor.limits(output)
    assert limits is not None
    assert torch.equal(limits.risk, output.risk)
    assert limits.target is limits.stop is limits.horizon is None
    both, _ = trading_actor(ActingConfig(risk_budget=True, trade_plan=True), **heads)
    assert torch.equal(both.limits(output).stop, output.plan.stop)
    neither, _ = trading_actor(ActingConfig(), **heads)
    assert neither.limits(output) is None


def test_coordinated_values_are_acted_on() -> None:
    actor, observation = trading_actor(ActingConfig(), coordination=True)
    output = actor.look(observation)
    q = actor.network.values(output.logits)
    torch.testing.assert_close(actor.values(output), actor.network.coordinator(q))
    assert not torch.allclose(actor.values(output), q)


def test_history_begins_anew_with_an_episode() -> None:
    actor, observation = trading_actor(ActingConfig(), temporal=True, history=4)
    begins = torch.zeros(64, dtype=torch.bool)
    for _ in range(2):
        output = actor.look(observation)
        actor.remember(output, begins)
    assert actor.history.valid.sum(1).tolist() == [2] * 64
    torch.testing.assert_close(actor.history.memory[:, -1], output.memory)
    begins[0] = True
    actor.remember(output, begins)
    assert actor.history.valid.sum(1).tolist() == [0] + [3] * 63
