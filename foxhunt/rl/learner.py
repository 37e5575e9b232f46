"""The learner: one update from a batch, with fixed shapes and no host sync, so that it can be compiled or captured."""

from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.config import LearnerConfig
from foxhunt.nn.network import Network, NetworkOutput
from foxhunt.rl import branching, categorical, losses, schedule
from foxhunt.rl.optimizer import AdamW, FlatParameters, clip_gradient
from foxhunt.rl.replay import Batch


class Learner:
    """Branching dueling C51 with Double-Q, n-step targets and importance weights.

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
        self._flat = FlatParameters(self.network)
        self.parameters = self._flat.vector
        self.target_parameters = FlatParameters(self.target).vector
        self._measured = tuple(zip(self.target.measurements(), self.network.measurements(), strict=True))
        self.optimizer = AdamW(self.parameters, config.weight_decay)
        self.updates = torch.zeros((), dtype=torch.long, device=self.parameters.device)
        self._update = torch.compile(self._eager_update, fullgraph=True) if compile else self._eager_update

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Learn from one batch.

        Returns tensors: `priority` [batch] (sum over branches of |TD error|), and the scalars `loss`, `td_error`,
        `q` (mean value of the actions taken), `gradient_norm` (before clipping) and `learning_rate`.
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
        target = self._target_distribution(batch)

        def loss_of(parameters: Tensor) -> tuple[Tensor, tuple[NetworkOutput, Tensor]]:
            views = self._flat.by_name(parameters)
            output: NetworkOutput = torch.func.functional_call(self.network, views, (batch.observation,))
            taken = branching.take_actions(output.logits, batch.action)
            return losses.branching_c51_loss(taken, target, batch.weight), (output, taken)

        gradient, (loss, (output, taken)) = torch.func.grad_and_value(loss_of, has_aux=True)(self.parameters)
        q = categorical.mean(taken, self.network.atoms)
        priority = losses.branching_td_error(q, target @ self.network.atoms)
        learning_rate = schedule.linear(self.config.learning_rate, self.config.learning_rate_end, self._share())
        gradient, norm = clip_gradient(gradient, self.config.gradient_clip)
        self.optimizer.step(gradient, learning_rate)
        self.network.measure(output)
        self.updates += 1
        self._sync_target()
        return {
            "priority": priority,
            "loss": loss,
            "td_error": priority.mean() / q.shape[1],
            "q": q.mean(),
            "gradient_norm": norm,
            "learning_rate": learning_rate,
        }

    @torch.no_grad()
    def _target_distribution(self, batch: Batch) -> Float[Tensor, "batch atoms"]:
        selector = self.network.values(self.network(batch.next_observation).logits)
        next_probabilities = branching.double_q_mixture(selector, self.target(batch.next_observation).logits)
        return categorical.project(batch.reward, batch.discount, next_probabilities, self.network.atoms)

    @torch.no_grad()
    def _sync_target(self) -> None:
        """Move the target by `target_rate` at every `target_period`-th update, counted from 1."""
        due = self.updates % self.config.target_period == 0
        rate = due * self.config.target_rate
        self.target_parameters.lerp_(self.parameters, rate)
        for ours, theirs in self._measured:
            ours.lerp_(theirs, rate)
