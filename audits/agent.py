"""The trading agent as the auditor runs it: one step of acting, one update, on a simulated market.

    foxhunt audit audits/agent.py:full --out docs/h_s2_consumers_audit.md

`full` has every consumer of the trunk output switched on and declares the 28 that the network's design names; `default`
is the agent that trains out of the box, with nothing declared.
"""

from dataclasses import replace
from functools import cache
from typing import Final

from foxhunt.audit import Consumer, Spec
from foxhunt.config import ActingConfig, TapeConfig, TrainConfig
from foxhunt.data.simulator import SimulatorConfig, simulate
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.tape import Tape
from foxhunt.market.tape_build import build_tape
from foxhunt.presets import PRESETS
from foxhunt.rl.agent import make_network
from foxhunt.rl.collect import Collector
from foxhunt.rl.learner import Learner
from foxhunt.rl.replay import Replay, ReplayOptions

ENVIRONMENTS, HISTORY, BATCH, HIDDEN, WARMUP = 4, 4, 8, 16, 12
"""Sizes do not matter to the audit, time does: the smallest that run every line."""

PLACES: Final = ("Encoder.forward:h", "BranchHeads.forward:h")
"""Where h_s2 is made: by the trunk and by what works on it before the heads, and again where its gradient is scaled."""

BESIDE: Final = ("BranchHeads.forward:matched",)
"""What a layer reads beside h through weights of its own, W_h h + W_x x, and so wants of the same size."""

BRANCH_STEM: Final = ("online.heads.stem.select", "online.heads.stem.linear")
"""First layer of all branches; each branch reads h through its own rows of it."""

CONSUMERS: Final = (
    Consumer("value head", ("online.heads.stem.value",)),
    Consumer("direction branch", BRANCH_STEM),
    Consumer("magnitude branch", (*BRANCH_STEM, "online.heads.context.magnitude", "BranchHeads.forward:matched")),
    Consumer("order and urgency branches", BRANCH_STEM),
    Consumer("variable-selection bottleneck", ("online.heads.stem.select",)),
    Consumer("history insert", ("temporal.py:insert",)),
    Consumer("history enrichment", ("online.encoder.temporal",)),
    Consumer("feature attention", ("online.encoder.attention",)),
    Consumer("quantile head, rectified form", ("online.quantile",)),
    Consumer("quantile head, tiled sigmoid form", ("online.quantile",)),
    Consumer("quantile target", ("target.quantile",)),
    Consumer("risk-budget head", ("online.risk",)),
    Consumer("recursive confidence head", ("online.confidence",)),
    Consumer("selectivity head", ("online.selectivity",)),
    Consumer("internal-state feature gate", ("online.encoder.gate",)),
    Consumer("internal-state temporal route", ("online.encoder.temporal.route",)),
    Consumer("trade-plan head", ("online.plan",)),
    Consumer("regime-aware dropout", ("online.encoder.dropout",)),
    Consumer("predictive coding loss", ("predictive_coding",)),
    Consumer("backward of the values beside h", ("BranchHeads.scaled_values",)),
    Consumer("branch gates: linear unit and spline", ("SplineGate", "GatedActivation")),
    Consumer("trunk backward", ("GatedResidualBlock",)),
    Consumer("target network: trunk and heads", ("target",)),
    Consumer("experience storage", ("Encoder.forward:memory",)),
    Consumer("statistics and monitoring", ("measure.py:measure",)),
    Consumer("coordination of the branches", ("BranchAttention",)),
    Consumer("value ensemble", ("online.ensemble",)),
    Consumer("gradient of the branch heads", ("scale_gradient",)),
)
"""Who is believed to read h_s2, in the order of the network's design; some do not, and the audit says so."""


@cache
def _tape() -> Tape:
    simulation = simulate(SimulatorConfig(seconds=400))
    return build_tape([(simulation.book, simulation.trades, simulation.instrument)], TapeConfig())


def _program(config: TrainConfig, declare: tuple[Consumer, ...]) -> Spec:
    """An agent some updates into its training, so that what it measures of itself is measured."""
    learning = replace(config.learner, batch_size=BATCH, replay_capacity=256, warmup_steps=BATCH)
    sizes = replace(config.network, hidden1=HIDDEN, hidden2=HIDDEN, head_hidden=HIDDEN, history=HISTORY, plan_horizon=3)
    environment = TradingEnvironment(_tape(), config.market, ENVIRONMENTS)
    network = make_network(environment.widths, environment.branches, sizes, config.seed)
    learner = Learner(network, learning, total_updates=100)
    options = ReplayOptions.of(network, learning)
    replay = Replay(environment.widths, len(environment.branches), ENVIRONMENTS, learning, 0, "cpu", options)
    collector = Collector(environment, network, replay, learning, config.acting, total_steps=1000, seed=0)

    def step() -> None:
        # Learns first: what is acted on now would colour all that is observed, and learned from, afterwards.
        batch = replay.sample(BATCH, learner.importance_exponent())
        result = learner.update(batch)
        replay.prioritise(batch.slot, result["priority"])
        collector.collect()

    for _ in range(WARMUP):
        collector.collect()
    for _ in range(WARMUP):
        step()
    # A target that has caught up, as after any long run.
    learner.target.load_state_dict(learner.network.state_dict())
    models = {"online": learner.network, "target": learner.target}
    return Spec(step, (), PLACES, becomes="signed,rms=1", declare=declare, models=models, beside=BESIDE, title="h_s2")


def default() -> Spec:
    """The default agent."""
    return _program(PRESETS["default"], ())


def full() -> Spec:
    """Every consumer, with every head that can act doing so."""
    acting = ActingConfig("quantile", cvar=0.5, risk_budget=True, selectivity=True, trade_plan=True)
    return _program(replace(PRESETS["full"], acting=acting), CONSUMERS)
