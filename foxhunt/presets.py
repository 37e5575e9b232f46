"""Named starting points for a training run; the command line's flags override them."""

from dataclasses import replace
from typing import Final

from foxhunt.config import LearnerConfig, MarketConfig, NetworkConfig, TapeConfig, TrainConfig

MARKET: Final = TrainConfig(
    steps=60_000,
    environments=32,
    evaluations=20,
    tape=TapeConfig(every="5s"),
    market=MarketConfig(episode_steps=256),
    network=NetworkConfig(hidden1=64, hidden2=64, v_min=-15.0, v_max=15.0),
    learner=LearnerConfig(
        discount=0.95,
        weight_decay=1.0,
        steps_per_update=8,
        priority_exponent=0.0,
        exploration_steps=10.0,
        epsilon_fraction=0.15,
        epsilon_end=0.05,
    ),
)
"""What learns a planted signal (docs/results.md): few decisions, so that what a position gains between two of them
stands out from noise; random positions that last; weights that decay, for a market's noise is easily learned by heart.
"""

FULL: Final = replace(
    MARKET.network,
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
"""The market network with every consumer of h on."""

PRESETS: Final[dict[str, TrainConfig]] = {
    "default": MARKET,
    # All 28 rows of docs/network.md, each with a loss that trains it.
    "full": replace(
        MARKET,
        network=FULL,
        learner=replace(MARKET.learner, predictive_coding=0.01),
    ),
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
    "demo": replace(
        MARKET,
        environments=16,
        evaluations=6,
        tape=TapeConfig(every="500ms"),
        network=replace(MARKET.network, v_min=-30.0, v_max=30.0),
        learner=replace(
            MARKET.learner,
            discount=0.99,
            exploration_steps=20.0,
            batch_size=128,
            replay_capacity=60_000,
            steps_per_update=16,
        ),
    ),
}
