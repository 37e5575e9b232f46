"""How far two networks agree on the same states."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.config import ActingConfig
from foxhunt.rl.act import Actor
from foxhunt.rl.rehearse import CHUNK, View


@dataclass(frozen=True)
class Agreement:
    """What the new network makes of states, against the old one."""

    states: int
    joint: float
    """Share of states in which every branch chooses the same action."""
    branches: dict[str, float]
    """The same branch by branch."""
    rank_correlation: dict[str, float]
    """Spearman's correlation of the values of a branch's actions, over all states."""
    h_rms: tuple[float, float]
    """RMS of h before and after."""


class _Seen(NamedTuple):
    action: Tensor
    values: Tensor
    h_square: Tensor


def agree(old: View, new: View, acting: ActingConfig) -> Agreement:
    """Compare greedy actions, values acted on and h; each view's network follows its own history."""
    before, after = _look(old, acting), _look(new, acting)
    same, names = before.action == after.action, old.network.heads.names
    counts = old.network.action_counts.tolist()
    return Agreement(
        states=len(same),
        joint=float(same.all(1).double().mean()),
        branches={name: float(same[:, i].double().mean()) for i, name in enumerate(names)},
        rank_correlation={
            name: spearman(before.values[:, i, :count].flatten(), after.values[:, i, :count].flatten())
            for i, (name, count) in enumerate(zip(names, counts, strict=True))
        },
        h_rms=(float(before.h_square.mean().sqrt()), float(after.h_square.mean().sqrt())),
    )


def spearman(x: Float[Tensor, " values"], y: Float[Tensor, " values"]) -> float:
    """Spearman's rank correlation, ties at their mean rank; 0 where either is constant."""
    ranks = torch.stack((_ranks(x), _ranks(y)))
    centred = ranks - ranks.mean(1, keepdim=True)
    spread = centred.square().sum(1).prod().sqrt()
    return float(centred.prod(0).sum() / spread) if spread else 0.0


def _ranks(values: Float[Tensor, " values"]) -> Float[Tensor, " values"]:
    _, place, count = torch.unique(values, return_inverse=True, return_counts=True)
    rank: Tensor = (count.cumsum(0) - (count - 1) / 2).double()
    return rank[place]


@torch.no_grad()
def _look(view: View, acting: ActingConfig) -> _Seen:
    judge = Actor(view.network, acting, 1)
    seen = []
    for piece in torch.split(view.states.places, CHUNK):
        output = view.look(piece)
        seen.append(_Seen(judge.best(output), judge.values(output), output.h.square().mean(1)))
    return _Seen(*(torch.cat(parts) for parts in zip(*seen, strict=True)))
