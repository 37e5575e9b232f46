"""Named starting points for a training run; the command line's flags override them."""

from typing import Final

from foxhunt.config import LearnerConfig, NetworkConfig, TapeConfig, TrainConfig

FULL: Final = NetworkConfig(
    gated_branches=True,
    internal_state=True,
    temporal=True,
    attention_heads=4,
    quantiles=8,
    ensemble=5,
    coordination=True,
    confidence=True,
    risk_budget=True,
    selectivity=True,
    trade_plan=True,
    dropout=0.1,
)
"""Every consumer of h on."""

PRESETS: Final[dict[str, TrainConfig]] = {
    "default": TrainConfig(),
    # All 28 rows of docs/network.md, each with a loss that trains it.
    "full": TrainConfig(network=FULL, learner=LearnerConfig(predictive_coding=0.01)),
    # Classic control and the like; the atoms span CartPole's discounted returns, other tasks set v-min and v-max.
    "gymnasium": TrainConfig(
        steps=60_000,
        environments=8,
        network=NetworkConfig(hidden1=64, hidden2=64, head_hidden=64, v_min=0.0, v_max=100.0),
        learner=LearnerConfig(
            learning_rate=1e-3,
            learning_rate_end=1e-4,
            n_step=5,
            batch_size=128,
            replay_capacity=60_000,
            warmup_steps=1_000,
            steps_per_update=8,
            target_rate=0.01,
        ),
    ),
    # Half an hour of order book: decisions twice a second, so that there are enough of them.
    "demo": TrainConfig(
        steps=60_000,
        environments=16,
        evaluations=6,
        tape=TapeConfig(every="500ms"),
        learner=LearnerConfig(batch_size=128, replay_capacity=60_000, warmup_steps=2_000, steps_per_update=16),
    ),
}
