"""Experience: acting in the environment and storing what happens, and playing whole episodes for evaluation."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.config import ActingConfig, LearnerConfig
from foxhunt.interface import Hold, Observation, VectorEnvironment
from foxhunt.nn.network import Network
from foxhunt.rl import schedule
from foxhunt.rl.act import GREEDY, Actor, GreedyPolicy, explore
from foxhunt.rl.replay import Replay


class Collector:
    """Steps the environment with an exploring policy and fills the replay; no host sync of its own."""

    def __init__(
        self,
        environment: VectorEnvironment,
        network: Network,
        replay: Replay,
        config: LearnerConfig,
        acting: ActingConfig,
        total_steps: int,
        seed: int,
    ) -> None:
        """Reset the environment with `seed`; rewards are divided by its `reward_unit` before they are stored."""
        self.environment, self.network, self.replay = environment, network, replay
        self.config, self.total_steps = config, total_steps
        device = network.atoms.device
        self.counts = network.action_counts
        self.actor = Actor(network, acting, environment.environments)
        self.observation = environment.reset(seed)
        self.generator = torch.Generator(device).manual_seed(seed)
        shape = environment.environments, len(environment.branches)
        self.held = torch.full(shape, GREEDY, device=device)
        """Random actions that exploration holds on to."""
        self.ended = torch.zeros(environment.environments, dtype=torch.bool, device=device)
        """Environments whose next action the autoreset will ignore."""
        self.steps = torch.zeros((), dtype=torch.long, device=device)
        """Environment steps taken, over all environments."""
        self.running_return = torch.zeros(environment.environments, dtype=torch.float64, device=device)
        self.finished_return = torch.zeros((), dtype=torch.float64, device=device)
        self.finished_episodes = torch.zeros((), dtype=torch.long, device=device)

    def epsilon(self) -> Float[Tensor, ""]:
        """Chance of a random action: 1 during warm-up, then linear over the first `epsilon_fraction` of the run."""
        c = self.config
        share = schedule.progress(self.steps, self.total_steps) / max(c.epsilon_fraction, 1e-9)
        planned = schedule.linear(c.epsilon_start, c.epsilon_end, share.clamp(max=1))
        return torch.where(self.steps < c.warmup_steps, 1.0, planned)

    @torch.no_grad()
    def collect(self) -> None:
        """Take one step in every environment."""
        output = self.actor.look(self.observation)
        action, self.held = explore(
            self.actor.best(output),
            self.held,
            self.counts,
            self.epsilon(),
            1 / self.config.exploration_steps,
            self.generator,
        )
        result = self.environment.step(action, self.actor.limits(output))
        unit = self.environment.reward_unit
        self.replay.add(
            self.observation,
            action,
            result.reward / unit,
            result.terminated,
            result.truncated,
            ignored=self.ended,
            memory=output.memory,
            hold=None if result.hold is None else Hold(result.hold.move / unit, result.hold.cost / unit),
        )
        self.actor.remember(output, begins=self.ended)
        self.observation = result.observation
        self.ended = result.terminated | result.truncated
        self.steps += self.environment.environments
        self.running_return += result.reward
        self.finished_return += (self.running_return * self.ended).sum()
        self.finished_episodes += self.ended.sum()
        self.running_return *= ~self.ended

    def restart(self) -> None:
        """Begin new episodes where the environment's state is lost; the open ones end as truncated.

        The observation at hand becomes the final one of its episode, as if a time limit had cut it.
        """
        replay, newest = self.replay, (self.replay.head - 1) % self.replay.rows
        open_episodes = ~(replay.terminated[newest] | replay.truncated[newest])
        replay.truncated[newest] |= open_episodes
        nothing = torch.zeros_like(self.ended)
        replay.add(
            self.observation,
            torch.zeros_like(replay.action[0]),
            nothing.float(),
            nothing,
            nothing,
            ignored=torch.ones_like(self.ended),
            memory=torch.zeros_like(replay.memory[0]),
            hold=Hold(nothing.float(), nothing.float()),
        )
        self.actor.forget()
        self.observation = self.environment.reset(int(self.steps))
        self.ended, self.running_return = nothing, torch.zeros_like(self.running_return)

    def take_statistics(self) -> tuple[float, int]:
        """Sum of returns and number of the episodes finished since the last call (host sync)."""
        taken = float(self.finished_return), int(self.finished_episodes)
        self.finished_return.zero_()
        self.finished_episodes.zero_()
        return taken

    def state_dict(self) -> dict[str, Any]:
        """Environment, observation at hand, random state and counters."""
        return {
            "environment": self.environment.state_dict(),
            "observation": self.observation,
            "generator": self.generator.get_state(),
            "actor": self.actor.state_dict(),
            **{name: getattr(self, name) for name in self._TENSORS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state; an environment that could not be saved begins new episodes."""
        self.observation = {part: tensor.to(self.steps.device) for part, tensor in state["observation"].items()}
        self.generator.set_state(state["generator"].cpu())
        self.actor.load_state_dict(state["actor"])
        for name in self._TENSORS:
            setattr(self, name, state[name].to(self.steps.device))
        if "opaque" in state["environment"]:
            self.restart()
        else:
            self.environment.load_state_dict(state["environment"])

    _TENSORS = ("held", "ended", "steps", "running_return", "finished_return", "finished_episodes")


@torch.no_grad()
def play_episodes(policy: GreedyPolicy, environment: VectorEnvironment, seed: int) -> Float[Tensor, " environments"]:
    """Return of one episode in every environment: the same number of each, so that short ones do not count more."""
    observation: Observation = environment.reset(seed)
    total = torch.zeros(environment.environments, dtype=torch.float64, device=policy.network.atoms.device)
    open_episode = torch.ones_like(total, dtype=torch.bool)
    while open_episode.any():
        result = environment.step(*policy(observation))
        observation = result.observation
        total += torch.where(open_episode, result.reward, 0)
        open_episode &= ~(result.terminated | result.truncated)
    return total
