"""States to compare two networks on: an agent replays its task, and each network sees what it would have seen."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import ActingConfig
from foxhunt.interface import VectorEnvironment
from foxhunt.nn.encoder import HISTORY, HISTORY_VALID
from foxhunt.nn.network import Network, NetworkOutput
from foxhunt.rl.act import GREEDY, Actor, explore

CHUNK = 2_048
"""States a network looks at in one pass."""


@dataclass(frozen=True)
class States:
    """What an agent met, time-major: one row a vector step."""

    observation: dict[str, Float[Tensor, "steps environments width"]]
    depth: Int[Tensor, "steps environments"]
    """Earlier steps of the same episode."""
    places: Int[Tensor, " states"]
    """Places that count, step * environments + environment: in a sweep those before an account's end."""

    def sample(self, count: int) -> Int[Tensor, " states"]:
        """At most `count` of the places, evenly spread."""
        return self.places[:: -(-len(self.places) // count)]


@torch.no_grad()
def play(
    network: Network,
    acting: ActingConfig,
    environment: VectorEnvironment,
    seed: int,
    steps: int | None = None,
    epsilon: float = 0.0,
) -> tuple[States, float]:
    """Let a network act and keep what it saw, and the mean over environments of the return of their first episode.

    With `steps`, that many vector steps, random for a share `epsilon` of the time, and every state counts; without,
    one episode in every environment, whose states count.
    """
    count, device = environment.environments, network.atoms.device
    actor, generator = Actor(network, acting, count), torch.Generator(device).manual_seed(seed)
    observation = environment.reset(seed)
    ended = torch.zeros(count, dtype=torch.bool, device=device)
    first, depth = ~ended, torch.zeros(count, dtype=torch.long, device=device)
    free = torch.full((count, len(environment.branches)), GREEDY, device=device)
    total = torch.zeros(count, dtype=torch.float64, device=device)
    seen: list[dict[str, Tensor]] = []
    depths, counted = [], []
    while len(seen) < steps if steps is not None else bool(first.any()):
        output = actor.look(observation)
        share = torch.tensor(epsilon, device=device)
        action, _ = explore(actor.best(output), free, network.action_counts, share, 1.0, generator)
        seen.append(observation)
        depths.append(depth)
        counted.append(first if steps is None else torch.ones_like(first))
        result = environment.step(action, actor.limits(output))
        actor.remember(output, begins=ended)
        total += torch.where(first, result.reward, 0)
        depth = torch.where(ended, 0, depth + 1)
        observation, ended = result.observation, result.terminated | result.truncated
        first = first & ~ended
    states = States(
        {part: torch.stack([one[part] for one in seen]) for part in seen[0]},
        torch.stack(depths),
        torch.stack(counted).flatten().nonzero().squeeze(1),
    )
    return states, float(total.mean())


class View:
    """A network's view of states; its own past goes with it, so that nothing of another network's leaks in."""

    def __init__(self, network: Network, states: States) -> None:
        self.network, self.states = network, states
        self.past = network.config.past if network.config.temporal else 0
        self.memory: Float[Tensor, "steps environments memory"] | None = None
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Have the network look at every step again, for what each leaves to the history of later ones."""
        if self.past:
            steps, environments = self.states.depth.shape
            flat = {part: tensor.flatten(0, 1) for part, tensor in self.states.observation.items()}
            self.memory = memories(self.network, flat).view(steps, environments, -1)

    def observe(self, index: Int[Tensor, " batch"]) -> dict[str, Tensor]:
        """Observations at places, with the history before them where the network reads one."""
        observation = {part: tensor.flatten(0, 1)[index] for part, tensor in self.states.observation.items()}
        if self.memory is not None:
            environments = self.states.depth.shape[1]
            back = torch.arange(self.past, 0, -1, device=index.device)
            valid: Bool[Tensor, "batch past"] = back <= self.states.depth.flatten()[index].unsqueeze(1)
            before = (index.unsqueeze(1) - back * environments).clamp(min=0)
            observation[HISTORY] = self.memory.flatten(0, 1)[before]
            observation[HISTORY_VALID] = valid
        return observation

    def look(self, index: Int[Tensor, " batch"]) -> NetworkOutput:
        """What the network makes of the states at places."""
        output: NetworkOutput = self.network(self.observe(index))
        return output


@torch.no_grad()
def memories(network: Network, observation: dict[str, Float[Tensor, "batch width"]]) -> Float[Tensor, "batch memory"]:
    """What each observation leaves to the history; that depends on no history itself."""
    count, past, width = len(next(iter(observation.values()))), network.config.past, network.encoder.memory_width
    pieces = []
    for start in range(0, count, CHUNK):
        piece = {part: tensor[start : start + CHUNK] for part, tensor in observation.items()}
        size = min(CHUNK, count - start)
        empty = torch.zeros(1, device=network.atoms.device)
        piece[HISTORY] = empty.expand(size, past, width)
        piece[HISTORY_VALID] = empty.bool().expand(size, past)
        pieces.append(network(piece).memory)
    return torch.cat(pieces)
