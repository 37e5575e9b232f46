"""The training run: collect, replay, update, evaluate; checkpoints that continue bit for bit."""

import json
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from foxhunt.config import TrainConfig, to_json
from foxhunt.errors import CheckpointError, ConfigError
from foxhunt.nn.isv import Slot
from foxhunt.rl.act import GreedyPolicy
from foxhunt.rl.agent import Agent, check_device, derive_seed, load_agent, make_network
from foxhunt.rl.checkpoint import load_training, replace_text, save_checkpoint, short_reason
from foxhunt.rl.collect import Collector, play_episodes
from foxhunt.rl.learner import Learner
from foxhunt.rl.monitor import monitor
from foxhunt.rl.profile import PhaseProfile
from foxhunt.rl.replay import Replay, ReplayOptions
from foxhunt.rl.task import make_task
from foxhunt.rl.tracking import Metrics

RECORDS = 200
"""Training records a run writes to metrics.jsonl."""

MONITORED = 512
"""States out of the replay that the monitor looks at with each evaluation."""


ALWAYS_RECORDED = ("loss", "td_error", "q", "gradient_norm", "learning_rate")
"""What a record holds even before the first update, as null; the losses of single heads join it then."""


@dataclass(frozen=True)
class Snapshot:
    """Where a run stands, for a display."""

    step: int
    total_steps: int
    record: dict[str, float | None]
    """The newest values of everything recorded."""
    shares: dict[str, float]
    """Share of time of each phase."""
    unit: str
    """What returns are counted in."""
    evaluated: bool
    """Whether the newest step brought an evaluation."""


class Display(Protocol):
    """Shows a run while it trains."""

    def show(self, snapshot: Snapshot) -> None:
        """The state of the run; called after every vector step."""
        ...


@dataclass(frozen=True)
class Summary:
    """How a call of `Trainer.train` ended."""

    run: Path
    step: int
    finished: bool
    """False when stopped before the configured number of steps."""
    last_evaluation: float | None
    """Mean validation return of the last evaluation."""
    best_evaluation: float | None
    """Mean validation return of the best one, whose network is the `best` checkpoint."""


class Trainer:
    """One run of `TrainConfig`, written to its `out` folder."""

    _saved_step: int | None = None
    _evaluated_step: int | None = None
    _stopping: bool = False
    origin: dict[str, Any] | None = None
    """Where a migrated run came from."""

    def __init__(self, config: TrainConfig, overwrite: bool = False) -> None:
        """Set up a new run; raises `ConfigError` when the folder already holds one, unless it may be overwritten."""
        if (config.out / "checkpoints").exists() and not overwrite:
            raise ConfigError(
                f"{config.out} already holds a run; continue it with --resume {config.out}, "
                "choose another --out, or give --overwrite"
            )
        self._build(config, fitted=None)
        for old in ("checkpoints", "tensorboard"):
            shutil.rmtree(config.out / old, ignore_errors=True)
        self.metrics = Metrics(config.out)
        replace_text(config.out / "config.json", json.dumps(to_json(config), indent=1))

    @classmethod
    def resume(cls, run: Path | str) -> "Trainer":
        """Set up the continuation of a run from its last checkpoint, bit for bit."""
        run = Path(run)
        state, agent = load_training(run), load_agent(run, "last")
        trainer = cls.__new__(cls)
        trainer._build(replace(agent.config, out=run), agent.fitted)
        trainer.origin = agent.origin
        try:
            trainer._load_state_dict(state)
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"{run}: the last checkpoint does not fit its config ({short_reason(error)})"
            ) from None
        trainer.metrics = Metrics(run, keep_bytes=state["metrics_bytes"], step=trainer.step)
        return trainer

    def train(self, stop_at: int | None = None, display: Display | None = None) -> Summary:
        """Train to the end, or to `stop_at` environment steps, or until `stop`; the last checkpoint is saved anyway."""
        limit = self.config.steps if stop_at is None else min(stop_at, self.config.steps)
        while self.step < limit and not self._stopping:
            self._iterate()
            if display:
                display.show(self.snapshot())
        self.save()
        return Summary(
            run=self.config.out,
            step=self.step,
            finished=self.step >= self.config.steps,
            last_evaluation=self.last_evaluation,
            best_evaluation=self.best_evaluation,
        )

    def stop(self) -> None:
        """Ask a running `train` to save and return after the current step; safe in a signal handler."""
        self._stopping = True

    def agent(self) -> Agent:
        """The agent as it is now."""
        environment = self.task.environment
        return Agent(
            self.learner.network,
            self.config,
            environment.widths,
            environment.branches,
            self.task.fitted,
            self.step,
            self.origin,
        )

    def snapshot(self) -> Snapshot:
        """Where the run stands."""
        return Snapshot(
            step=self.step,
            total_steps=self.config.steps,
            record=dict(self.newest),
            shares=self.profile.shares(),
            unit=self.task.unit,
            evaluated=self._evaluated_step == self.step,
        )

    def opaque(self) -> str | None:
        """What keeps the environment from being saved bit-exactly, None when nothing does."""
        reason = self.task.environment.state_dict().get("opaque")
        return None if reason is None else str(reason)

    def save(self) -> None:
        """Write the last checkpoint, unless this step's is written already."""
        if self._saved_step != self.step:
            save_checkpoint(self.config.out, "last", self.step, self.agent().state_dict(), self._state_dict())
            self._saved_step = self.step

    def _build(self, config: TrainConfig, fitted: dict[str, Any] | None) -> None:
        check_device(config.device)
        self.config = config
        self.task = task = make_task(config, fitted)
        environment, learner = task.environment, config.learner
        count, device, seed = environment.environments, config.device, config.seed
        network = make_network(environment.widths, environment.branches, config.network, seed).to(device)
        self.first_update = max(learner.warmup_steps, 2 * count)
        self.learner = Learner(network, learner, self._updates_due(_round_up(config.steps, count)), config.compile)
        branches, replay_seed = len(environment.branches), derive_seed(seed, "replay")
        options = ReplayOptions.of(network, learner)
        self.replay = Replay(environment.widths, branches, count, learner, replay_seed, device, options)
        self.collector = Collector(
            environment, network, self.replay, learner, config.acting, config.steps, derive_seed(seed, "collect")
        )
        self.profile = PhaseProfile()
        self.step = self.updates = 0
        self.newest: dict[str, float | None] = {}
        self.last_evaluation: float | None = None
        self.best_evaluation: float | None = None
        self._sums: dict[str, torch.Tensor] = {}
        self._summed = 0

    def _updates_due(self, step: int) -> int:
        """Updates that should have been made by a step."""
        return max(0, (step - self.first_update) // self.config.learner.steps_per_update)

    def _iterate(self) -> None:
        before = self.step
        with self.profile.phase("collect"):
            self.collector.collect()
        self.step += self.task.environment.environments
        while self.updates < self._updates_due(self.step):
            self._update()
        if self._passed(before, RECORDS):
            self._record()
        if self._passed(before, self.config.evaluations):
            self._evaluate()
            self.save()

    def _passed(self, before: int, marks: int) -> bool:
        """Whether the run has just passed one of `marks` equal parts of its length."""
        return self.step * marks // self.config.steps > before * marks // self.config.steps

    def _update(self) -> None:
        with self.profile.phase("replay"):
            batch = self.replay.sample(self.config.learner.batch_size, self.learner.importance_exponent())
        with self.profile.phase("update"):
            result = self.learner.update(batch)
        with self.profile.phase("replay"):
            self.replay.prioritise(batch.slot, result["priority"])
        for name, value in result.items():
            if name != "priority":
                self._sums[name] = self._sums.get(name, 0) + value
        self._summed += 1
        self.updates += 1

    def _record(self) -> None:
        """Write one training record: means since the last one (host sync)."""
        returns, episodes = self.collector.take_statistics()
        means: dict[str, float | None] = dict.fromkeys(ALWAYS_RECORDED)
        means |= {name: float(total) / self._summed for name, total in self._sums.items()}
        loss = means.get("loss")
        if loss is not None and not math.isfinite(loss):
            raise ConfigError(
                f"the loss became {loss} by step {self.step}; lower learner.learning-rate or widen network.v-min/v-max"
            )
        slots = self.learner.network.encoder.isv(self.collector.observation).mean(0).tolist()
        self._write(
            {
                "updates": self.updates,
                "episodes": episodes,
                "return": returns / episodes if episodes else None,
                "epsilon": float(self.collector.epsilon()),
                **means,
                **{f"isv_{slot.name.lower()}": slots[slot] for slot in Slot},
            }
        )
        self._sums, self._summed = {}, 0

    def _evaluate(self) -> None:
        """Play the validation episodes greedily; a new best network becomes the `best` checkpoint."""
        with self.profile.phase("evaluate"):
            policy = GreedyPolicy(self.learner.network, self.config.acting)
            seed = derive_seed(self.config.seed, "evaluate")
            self.last_evaluation = float(play_episodes(policy, self.task.validation, seed).mean())
        self._evaluated_step = self.step
        self._write({"evaluation_return": self.last_evaluation, **self._monitored()})
        if self.best_evaluation is None or self.last_evaluation >= self.best_evaluation:
            self.best_evaluation = self.last_evaluation
            save_checkpoint(self.config.out, "best", self.step, self.agent().state_dict())

    def _monitored(self) -> dict[str, float | None]:
        """What the monitor sees in states that the replay holds."""
        observation = self.replay.spread(MONITORED)
        if observation is None:
            return {}
        return {f"monitor_{name}": value for name, value in monitor(self.learner.network, observation).items()}

    def _write(self, record: dict[str, float | None]) -> None:
        self.metrics.write(self.step, record)
        self.newest |= {name: value for name, value in record.items() if value is not None}

    def _state_dict(self) -> dict[str, Any]:
        return {
            "learner": self.learner.state_dict(),
            "replay": self.replay.state_dict(),
            "collector": self.collector.state_dict(),
            "sums": self._sums,
            "summed": self._summed,
            "newest": self.newest,
            "last_evaluation": self.last_evaluation,
            "best_evaluation": self.best_evaluation,
            "step": self.step,
            "updates": self.updates,
            "metrics_bytes": self.metrics.written_bytes(),
        }

    def _load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state["learner"])
        self.replay.load_state_dict(state["replay"])
        self.collector.load_state_dict(state["collector"])
        self._sums = {name: total.to(self.config.device) for name, total in state["sums"].items()}
        self._summed, self.newest = state["summed"], state["newest"]
        self.last_evaluation, self.best_evaluation = state["last_evaluation"], state["best_evaluation"]
        self.step, self.updates = state["step"], state["updates"]


def _round_up(steps: int, multiple: int) -> int:
    return -(-steps // multiple) * multiple
