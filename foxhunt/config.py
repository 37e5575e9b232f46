"""Every setting of foxhunt, typed, with units; impossible combinations are refused when a config is built.

The command line is generated from these classes: `foxhunt train --learner.learning-rate 3e-4`.
"""

import re
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args, get_type_hints

from foxhunt.errors import ConfigError

_UNITS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)")
_EVENTS: Final = re.compile(r"(\d+)ev")


def duration_ns(text: str) -> int:
    """Nanoseconds in a duration such as "250ms" or "1.5s"; raises `ConfigError` on anything else."""
    if not (match := _DURATION.fullmatch(text)):
        raise ConfigError(f"{text!r} is not a duration; write a number and one of {', '.join(_UNITS)}, such as 250ms")
    return round(float(match[1]) * _UNITS[match[2]])


def event_count(text: str) -> int | None:
    """Number of events in "50ev", None when the text is a duration."""
    return int(match[1]) if (match := _EVENTS.fullmatch(text)) else None


def require(condition: bool, message: str) -> None:
    """Raise `ConfigError(message)` unless the condition holds."""
    if not condition:
        raise ConfigError(message)


@dataclass(frozen=True)
class TapeConfig:
    """How market data becomes the tape that the environment replays."""

    every: str = "1s"
    """Decision clock: a duration (250ms, 1s, 5m) or a number of book events (10ev)."""
    levels: int = 10
    """Book levels kept a side."""
    latency: str = "0ms"
    """Order-entry latency: an order decided at t can fill from the first event after t + latency on."""
    data_latency: str = "0ms"
    """Market-data latency: a decision at t knows the market, and its own fills, of t - data_latency."""
    execution: Literal["next", "known"] = "next"
    """Book that an arriving order meets: the first tradable one after its arrival, or the one standing then."""
    stale_after: str = "30s"
    """A book older than this is stale: nothing fills and nothing is decided on it."""
    ofi_levels: int = 5
    """Levels of multi-level order-flow imbalance."""
    ofi_horizons: tuple[int, int, int] = (1, 5, 20)
    """Horizons of order-flow imbalance, in decision steps."""
    volatility_windows: tuple[int, int] = (30, 300)
    """Short and long window of realised volatility, in decision steps."""

    def __post_init__(self) -> None:
        if (events := event_count(self.every)) is None:
            require(duration_ns(self.every) > 0, "tape.every must be longer than 0")
        else:
            require(events > 0, "tape.every must be at least 1ev")
        for name in ("latency", "data_latency"):
            require(duration_ns(getattr(self, name)) >= 0, f"tape.{name} must not be negative")
        require(self.execution in ("next", "known"), f"tape.execution must be next or known, not {self.execution!r}")
        require(duration_ns(self.stale_after) > 0, "tape.stale_after must be longer than 0")
        require(1 <= self.levels <= 10, "tape.levels must be 1 to 10")
        require(1 <= self.ofi_levels <= self.levels, "tape.ofi_levels must be 1 to tape.levels")
        require(min(self.ofi_horizons) >= 1, "tape.ofi_horizons must be at least 1 step each")
        short, long = self.volatility_windows
        require(2 <= short < long, "tape.volatility_windows needs 2 <= short < long")


@dataclass(frozen=True)
class MarketConfig:
    """The account, the orders and how they fill."""

    initial_cash: float = 100_000.0
    """Money each episode starts with."""
    leverage: float = 1.0
    """Largest position, as a multiple of equity at the time of the order; shorts count like longs."""
    maintenance: float = 0.1
    """Liquidation when equity falls to this share of the position's value."""
    episode_steps: int = 256
    """Decisions in a training episode; back-tests run to the end of the split."""
    magnitudes: tuple[float, float, float] = (0.25, 0.5, 1.0)
    """Position sizes as shares of the cap: quarter, half, full."""
    patience: tuple[int, int, int] = (8, 3, 1)
    """Steps an order rests under urgency patient, normal, urgent; then it is repriced, and under urgent crosses."""
    queue: Literal["risk-averse", "linear", "logarithmic"] = "risk-averse"
    """Queue model: how cancellations ahead move a resting order forward."""
    through: Literal["evidenced", "full"] = "evidenced"
    """Quantity filled when the market trades through a resting order: what the data shows, or all of it."""
    maker_bps: float | None = None
    """Fee on passive fills in basis points; None takes the instrument's."""
    taker_bps: float | None = None
    """Fee on aggressive fills in basis points; None takes the instrument's."""

    def __post_init__(self) -> None:
        require(self.initial_cash > 0, "market.initial_cash must be positive")
        require(self.leverage > 0, "market.leverage must be positive")
        require(0 <= self.maintenance < 1 / self.leverage, "market.maintenance must be in [0, 1/leverage)")
        require(self.episode_steps >= 2, "market.episode_steps must be at least 2")
        require(min(self.magnitudes) > 0 and max(self.magnitudes) <= 1, "market.magnitudes must be in (0, 1]")
        require(min(self.patience) >= 1, "market.patience must be at least 1 step each")


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes and switches of the network."""

    trunk: Literal["grn", "relu"] = "grn"
    """Gated residual blocks, or the legacy Linear-ReLU pair."""
    hidden1: int = 128
    """Units of the trunk's first block (h_s1)."""
    hidden2: int = 128
    """Units of the trunk's output h_s2, which every head reads."""
    head_hidden: int = 64
    """Hidden units of the value head and of each branch."""
    atoms: int = 51
    """Atoms of the return distribution."""
    v_min: float = -10.0
    """Lowest atom, in reward units."""
    v_max: float = 10.0
    """Highest atom, in reward units."""
    gated_branches: bool = False
    """Variable-selection bottleneck, gated linear unit and spline gate in every branch; else a plain ReLU layer."""
    internal_state: bool = False
    """Gate the features, and route the scan, by the twelve measured slots of the internal state vector."""
    temporal: bool = False
    """Enrich h by a selective scan over its history."""
    history: int = 32
    """Steps the scan sees, the present included."""
    attention_heads: int = 0
    """Heads of the feature attention; 0 leaves it out."""
    quantiles: int = 0
    """Quantile samples of the implicit quantile head; 0 leaves it out."""
    ensemble: int = 0
    """Members of the value ensemble; 0 leaves it out."""
    coordination: bool = False
    """Act on values coordinated across branches by attention over them."""
    confidence: bool = False
    """Forecast the relative size of the TD error."""
    risk_budget: bool = False
    """Forecast the share of the cap worth risking; needs confidence."""
    selectivity: bool = False
    """Forecast whether a trade pays for its costs."""
    trade_plan: bool = False
    """Forecast profit target, stop and horizon."""
    plan_horizon: int = 20
    """Steps after a decision over which a trade's outcome is judged."""
    dropout: float = 0.0
    """Largest regime-aware dropout rate; applied in full where the regime is least stable."""

    @property
    def past(self) -> int:
        """Steps before the present that the scan sees."""
        return self.history - 1

    @property
    def forecasts_trades(self) -> bool:
        """Whether a head learns from what became of trades."""
        return self.risk_budget or self.selectivity or self.trade_plan

    def __post_init__(self) -> None:
        require(min(self.hidden1, self.hidden2, self.head_hidden) >= 1, "network sizes must be at least 1")
        require(self.atoms >= 2, "network.atoms must be at least 2")
        require(self.v_min < self.v_max, "network.v_min must be below network.v_max")
        require(self.history >= 2, "network.history must be at least 2")
        require(self.plan_horizon >= 1, "network.plan_horizon must be at least 1")
        require(0 <= self.dropout < 1, "network.dropout must be in [0, 1)")
        require(min(self.attention_heads, self.quantiles, self.ensemble) >= 0, "network counts must not be negative")
        if self.attention_heads:
            require(self.hidden2 % self.attention_heads == 0, "network.attention_heads must divide network.hidden2")
        require(not self.risk_budget or self.confidence, "network.risk_budget needs network.confidence")
        require(self.ensemble != 1, "network.ensemble needs at least 2 members")
        require(not self.temporal or self.hidden2 % 4 == 0, "network.temporal needs a multiple of 4 as network.hidden2")


@dataclass(frozen=True)
class ActingConfig:
    """How the network's outputs become decisions; every switch needs the head it names in the network."""

    values: Literal["categorical", "quantile"] = "categorical"
    """Values acted on: mean of the categorical distribution, or of the quantile head."""
    cvar: float = 1.0
    """Share of worst outcomes that the quantile head's mean is taken over; 1 is risk-neutral."""
    risk_budget: bool = False
    """Let the risk budget cap the position."""
    selectivity: bool = False
    """Stay flat where a trade is unlikely to pay for its costs."""
    selectivity_threshold: float = 0.5
    """Least chance of paying at which a trade is taken."""
    trade_plan: bool = False
    """Run the trade plan as bracket orders: profit target, stop, horizon."""

    def __post_init__(self) -> None:
        require(0 < self.cvar <= 1, "acting.cvar must be in (0, 1]")
        require(self.cvar == 1 or self.values == "quantile", "acting.cvar below 1 needs acting.values quantile")
        require(0 <= self.selectivity_threshold <= 1, "acting.selectivity_threshold must be in [0, 1]")


@dataclass(frozen=True)
class LearnerConfig:
    """Losses, optimizer, replay and exploration."""

    discount: float = 0.99
    """Discount a step."""
    n_step: int = 3
    """Steps of reward summed before bootstrapping."""
    learning_rate: float = 5e-4
    """AdamW step size at the start."""
    learning_rate_end: float = 5e-5
    """AdamW step size at the end; linear in between."""
    weight_decay: float = 0.0
    """Decoupled weight decay."""
    gradient_clip: float = 10.0
    """Largest global gradient norm."""
    batch_size: int = 256
    """Transitions an update."""
    replay_capacity: int = 200_000
    """Transitions kept, over all environments."""
    warmup_steps: int = 2_000
    """Environment steps before the first update."""
    steps_per_update: int = 16
    """Environment steps (over all environments) for each update."""
    priority_exponent: float = 0.6
    """Exponent of priorities; 0 samples uniformly."""
    importance_start: float = 0.4
    """Importance exponent at the start; grows linearly to 1."""
    target_rate: float = 0.005
    """Polyak rate of the target network each update; with target_period, the share copied at each sync."""
    target_period: int = 1
    """Updates between target syncs, counted from 1."""
    quantile_weight: float = 0.5
    """Weight of the quantile loss beside the categorical one."""
    ensemble_weight: float = 0.1
    """Weight of the ensemble's loss."""
    coordination_weight: float = 0.1
    """Weight of the TD loss of the coordinated values."""
    forecast_weight: float = 0.1
    """Weight of each forecasting head's loss: confidence, risk budget, selectivity, trade plan."""
    predictive_coding: float = 0.0
    """Weight of the distance between h of consecutive steps; replay then hands out pairs of them."""
    epsilon_start: float = 1.0
    """Chance of a random action in each branch at the start."""
    epsilon_end: float = 0.02
    """Chance of a random action at the end."""
    epsilon_fraction: float = 0.3
    """Share of training over which epsilon falls linearly."""
    exploration_steps: float = 1.0
    """Mean steps that a random action is repeated; positions that cost to change want many."""

    def __post_init__(self) -> None:
        require(0 < self.discount <= 1, "learner.discount must be in (0, 1]")
        require(self.n_step >= 1, "learner.n_step must be at least 1")
        require(self.learning_rate > 0, "learner.learning_rate must be positive")
        require(self.batch_size >= 1, "learner.batch_size must be at least 1")
        require(self.replay_capacity >= self.batch_size, "learner.replay_capacity must hold a batch")
        require(self.warmup_steps >= self.batch_size, "learner.warmup_steps must be at least learner.batch_size")
        require(self.steps_per_update >= 1, "learner.steps_per_update must be at least 1")
        require(0 <= self.priority_exponent <= 1, "learner.priority_exponent must be in [0, 1]")
        for name in ("quantile", "ensemble", "coordination", "forecast"):
            require(getattr(self, f"{name}_weight") >= 0, f"learner.{name}_weight must not be negative")
        require(self.predictive_coding >= 0, "learner.predictive_coding must not be negative")
        require(
            not self.predictive_coding or self.batch_size % 2 == 0,
            "learner.predictive_coding draws pairs; learner.batch_size must be even",
        )
        require(0 < self.target_rate <= 1, "learner.target_rate must be in (0, 1]")
        require(self.target_period >= 1, "learner.target_period must be at least 1")
        require(self.exploration_steps >= 1, "learner.exploration_steps must be at least 1")
        for name in ("epsilon_start", "epsilon_end", "epsilon_fraction", "importance_start"):
            require(0 <= getattr(self, name) <= 1, f"learner.{name} must be in [0, 1]")


@dataclass(frozen=True)
class SplitConfig:
    """Which time trains, which selects the model, which judges it.

    A range is START/STOP, half-open: shares of the data (0%/60%), local clock times on every day (09:30/11:30)
    or ISO stamps (2022-06-01T09:30/2022-06-01T11:30).
    """

    train: str = "0%/60%"
    validate: str = "60%/80%"
    test: str = "80%/100%"
    embargo: str = "0s"
    """Time left out at the start of validate and test, after the split before."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    data: Path | None = None
    """Dataset folder written by `foxhunt data import`."""
    env: str | None = None
    """Gymnasium environment to train on instead of market data, such as CartPole-v1."""
    symbols: tuple[str, ...] = ()
    """Instruments to train on; empty takes all of the dataset."""
    out: Path = Path("runs/train")
    """Run folder: config, checkpoints, metrics, TensorBoard events."""
    steps: int = 200_000
    """Environment steps, over all environments."""
    environments: int = 16
    """Environments stepped at once."""
    evaluations: int = 10
    """Evaluations on the validation split during training."""
    evaluation_episodes: int = 20
    """Episodes of each evaluation on a Gymnasium environment. On a market, one plays the whole validation split, cut
    into episodes of market.episode_steps."""
    seed: int = 0
    """Seed of everything random."""
    device: str = "cpu"
    """Torch device: cpu, cuda, cuda:1."""
    compile: bool = False
    """Compile the update with torch.compile; pays off on long runs and GPUs."""
    tape: TapeConfig = field(default_factory=TapeConfig)
    market: MarketConfig = field(default_factory=MarketConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    split: SplitConfig = field(default_factory=SplitConfig)

    def __post_init__(self) -> None:
        require(self.environments >= 1, "environments must be at least 1")
        require(self.steps >= self.environments, "steps must be at least the number of environments")
        require(self.evaluations >= 1, "evaluations must be at least 1")
        require(self.evaluation_episodes >= 1, "evaluation_episodes must be at least 1")
        require(self.data is None or self.env is None, "give --data or --env, not both")
        require(
            self.env is None or not self.network.forecasts_trades,
            "network.risk_budget, selectivity and trade_plan learn from trades; they need --data, not --env",
        )
        check_acting(self.acting, self.network)


def check_acting(acting: ActingConfig, network: NetworkConfig) -> None:
    """Raise `ConfigError` when acting asks for a head that the network does not have."""
    require(acting.values == "categorical" or network.quantiles > 0, "acting.values quantile needs network.quantiles")
    for head in ("risk_budget", "selectivity", "trade_plan"):
        require(not getattr(acting, head) or getattr(network, head), f"acting.{head} needs network.{head}")


Config = TypeVar("Config")


def to_json(config: Any) -> dict[str, Any]:
    """JSON-ready form of a config; `from_json` reads it back."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, tuple):
            return [plain(item) for item in value]
        return str(value) if isinstance(value, Path) else value

    return {name: plain(value) for name, value in asdict(config).items()}


def from_json(kind: type[Config], record: dict[str, Any]) -> Config:
    """Rebuild a config from `to_json`; raises `ConfigError` on a field that this version does not know."""
    hints = get_type_hints(kind)

    def typed(name: str, value: Any) -> Any:
        if name not in hints:
            raise ConfigError(f"{kind.__name__} has no field {name!r}; the file comes from another version")
        hint = hints[name]
        if is_dataclass(hint) and isinstance(hint, type):
            return from_json(hint, value)
        if value is not None and Path in (hint, *get_args(hint)):
            return Path(value)
        return tuple(value) if isinstance(value, list) else value

    return kind(**{name: typed(name, value) for name, value in record.items()})
