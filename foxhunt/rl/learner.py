"""The learner: one update from a batch, with fixed shapes and no host sync, so that it can be compiled or captured."""

from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.config import LearnerConfig
from foxhunt.nn.isv import Slot
from foxhunt.nn.network import Network
from foxhunt.rl import schedule
from foxhunt.rl.objective import Findings, Objective
from foxhunt.rl.optimizer import AdamW, FlatParameters, clip_gradient
from foxhunt.rl.replay import Batch
from foxhunt.rl.targets import bootstrap

SEEDS = 8
"""Draws that an update may make: update number times this is the first one's seed."""


class Learner:
    """Branching dueling C51 and every head beside it, with Double-Q, n-step targets and importance weights.

    `update` is one function for eager, compiled and captured runs; every number in it that changes lives in a tensor.
    Source: Tavakoli et al. 2018 for branches, Bellemare et al. 2017 for C51, Hessel et al. 2018 for the combination.
    """

    def __init__(self, network: Network, config: LearnerConfig, total_updates: int, compile: bool = False) -> None:
        """Take over `network`; its parameters become views of one flat vector.

        Args:
            network: the online network, moved in place by updates.
            config: losses, optimizer and target sync.
            total_updates: length of the run, for the schedules of step size and importance exponent.
            compile: run the update through torch.compile, as one graph.
        """
        self.config, self.total_updates = config, total_updates
        self.network, self.target = network, deepcopy(network)
        self._objective = Objective(self.network, config)
        self._flat = FlatParameters(self._objective)
        self.parameters = self._flat.vector
        self.target_parameters = FlatParameters(self.target).vector
        self._measured = tuple(zip(self.target.measurements(), self.network.measurements(), strict=True))
        self.optimizer = AdamW(self.parameters, config.weight_decay)
        self.updates = torch.zeros((), dtype=torch.long, device=self.parameters.device)
        self._update = torch.compile(self._eager_update, fullgraph=True) if compile else self._eager_update

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Learn from one batch.

        Returns tensors: `priority` [batch] (sum over branches of |TD error|), and the scalars `loss`, `td_error`,
        `q` (mean value of the actions taken), `gradient_norm` (before clipping), `learning_rate` and one
        `loss_NAME` for every head that learns.
        """
        return self._update(batch)

    def importance_exponent(self) -> Float[Tensor, ""]:
        """Exponent of the importance weights: linear, 1 at the last update."""
        return schedule.linear(self.config.importance_start, 1.0, self._share())

    def state_dict(self) -> dict[str, Any]:
        """Network, target, optimizer and number of updates."""
        return {
            "network": self.network.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from `state_dict`."""
        self.network.load_state_dict(state["network"])
        self.target.load_state_dict(state["target"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates.copy_(state["updates"])

    def _share(self) -> Float[Tensor, ""]:
        return schedule.progress(self.updates, self.total_updates)

    def _eager_update(self, batch: Batch) -> dict[str, Tensor]:
        seed = self.updates * SEEDS
        targets = bootstrap(self.network, self.target, batch, seed)

        def loss_of(parameters: Tensor) -> tuple[Tensor, Findings]:
            views = self._flat.by_name(parameters)
            result: tuple[Tensor, Findings] = torch.func.functional_call(
                self._objective, views, (batch, targets, seed + 1)
            )
            return result

        gradient, (loss, found) = torch.func.grad_and_value(loss_of, has_aux=True)(self.parameters)
        learning_rate = schedule.linear(self.config.learning_rate, self.config.learning_rate_end, self._share())
        gradient, norm = clip_gradient(gradient, self.config.gradient_clip)
        norm_slot = {Slot.GRADIENT_NORM: norm.clamp(min=1e-12).log()}
        self.network.encoder.isv.measure(found.measured | norm_slot)
        self.optimizer.step(gradient, learning_rate)
        self.updates += 1
        self._sync_target()
        return {
            "priority": found.td_error,
            "loss": loss,
            "td_error": found.td_error.mean() / found.q.shape[1],
            "q": found.q.mean(),
            "gradient_norm": norm,
            "learning_rate": learning_rate,
            **{f"loss_{name}": part for name, part in found.losses.items()},
        }

    @torch.no_grad()
    def _sync_target(self) -> None:
        """Move the target by `target_rate` at every `target_period`-th update, counted from 1."""
        due = self.updates % self.config.target_period == 0
        rate = due.to(self.parameters.dtype) * self.config.target_rate
        self.target_parameters.lerp_(self.parameters, rate)
        for ours, theirs in self._measured:
            ours.lerp_(theirs, rate)
