"""What an agent's heads forecast, and what came of it: calibration, risk used, plans kept.

Everything is computed from the decisions of a finished back-test. Outcomes lie after the decisions that they judge;
they are shown, and no policy ever sees them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool, Float64, Int64

from foxhunt.config import TrainConfig
from foxhunt.evaluate.record import Backtest
from foxhunt.market.actions import FLAT
from foxhunt.nn.isv import Slot
from foxhunt.nn.network import Network
from foxhunt.rl import auxiliary
from foxhunt.rl.objective import HORIZON_LEVEL, STOP_LEVEL, TARGET_LEVEL
from foxhunt.rl.outcome import Trade, judge_trade

BINS: Final = 15

ENDS: Final = ("target", "stop", "horizon")
"""How a trade plan ends."""


@dataclass(frozen=True)
class Terms:
    """What the heads were trained to forecast."""

    n_step: int
    discount: float
    v_min: float
    v_max: float
    usual_error: float
    """Mean |TD error| a branch at the end of training, reward units: forecast errors are relative to it."""
    horizon: int
    """Decisions over which a trade is judged."""

    @classmethod
    def of(cls, network: Network, config: TrainConfig) -> "Terms":
        """The terms of a trained network."""
        return cls(
            n_step=config.learner.n_step,
            discount=config.learner.discount,
            v_min=config.network.v_min,
            v_max=config.network.v_max,
            usual_error=max(float(network.encoder.isv.slots[Slot.TD_ERROR]), 1e-6),
            horizon=config.network.plan_horizon,
        )


@dataclass(frozen=True)
class Calibration:
    """Forecasts in equal, left-closed bins of [0, 1] beside what came true."""

    samples: int
    error: float
    """Expected calibration error."""
    mean_forecast: float
    mean_outcome: float
    count: tuple[int, ...]
    """Samples in each bin."""
    forecast: tuple[float | None, ...]
    """Mean forecast in each bin; None where it is empty."""
    outcome: tuple[float | None, ...]
    """Mean outcome in each bin."""


@dataclass(frozen=True)
class RiskUse:
    """How much of the cap the risk budget would allow, did allow, and was used; means over decisions, shares of it."""

    budget: float
    """What the head says."""
    allowed: float
    """What was allowed: all of it unless the budget acts."""
    used: float
    """Size of the position held."""


@dataclass(frozen=True)
class PlanOutcome:
    """What became of the trade plans made at decisions that wanted a position."""

    plans: int
    ended: dict[str, float]
    """Share of plans that their target, stop or horizon ended first."""
    promised: dict[str, float]
    """What the forecast quantiles promise: share whose target, or stop, is reached within the horizon judged, and whose
    best moment comes no later than the plan's own horizon."""
    kept: dict[str, float]
    """The same shares as they came out."""
    exits: dict[str, int]
    """Positions that brackets closed, by reason; all 0 where brackets do not act."""


@dataclass(frozen=True)
class HeadReport:
    """What a back-test shows of the heads; None for heads that the network lacks or nothing could be judged of."""

    confidence: Calibration | None
    selectivity: Calibration | None
    risk: RiskUse | None
    plan: PlanOutcome | None
    unjudged: tuple[str, ...]
    """Heads that the network has and nothing could be judged of."""


def judge_heads(backtest: Backtest, terms: Terms) -> HeadReport:
    """Compare every head of the agent with what came of its forecasts."""
    said = backtest.decisions
    has = {name for name in ("forecast_error", "risk_budget", "selectivity", "plan_target") if _any(said, name)}
    confidence = calibrate(*error_outcomes(backtest, terms)) if "forecast_error" in has else None
    selectivity = calibrate(*pay_outcomes(backtest, terms.horizon)) if "selectivity" in has else None
    plan = plan_outcome(backtest, terms.horizon) if "plan_target" in has else None
    judged = (("confidence", "forecast_error", confidence), ("selectivity", "selectivity", selectivity))
    return HeadReport(
        confidence=confidence,
        selectivity=selectivity,
        risk=risk_use(backtest) if "risk_budget" in has else None,
        plan=plan,
        unjudged=tuple(
            name
            for name, column, found in (*judged, ("trade plans", "plan_target", plan))
            if column in has and found is None
        ),
    )


def calibrate(
    forecast: Float64[np.ndarray, " samples"], outcome: Float64[np.ndarray, " samples"]
) -> Calibration | None:
    """Put forecasts in [0, 1] beside outcomes; None without a sample."""
    if not len(forecast):
        return None
    bins = auxiliary.calibration(torch.from_numpy(forecast), torch.from_numpy(outcome), BINS)
    count = tuple(int(n) for n in bins.samples)

    def means(sums: torch.Tensor) -> tuple[float | None, ...]:
        return tuple(float(s) / n if n else None for s, n in zip(sums, count, strict=True))

    return Calibration(
        samples=len(forecast),
        error=float(bins.error),
        mean_forecast=float(forecast.mean()),
        mean_outcome=float(outcome.mean()),
        count=count,
        forecast=means(bins.predicted),
        outcome=means(bins.outcome),
    )


def error_outcomes(
    backtest: Backtest, terms: Terms
) -> tuple[Float64[np.ndarray, " samples"], Float64[np.ndarray, " samples"]]:
    """Forecast and realised relative TD error |delta| / (|delta| + usual) of every decision with n more behind it.

    The value target is the discounted reward of n steps and the network's own best value after them, clipped to the
    atoms' range (training bootstraps from the target network and clips the distribution); delta is averaged over
    branches.
    """
    forecasts, shares = [], []
    for steps, unit in _accounts(backtest):
        count = steps.height - terms.n_step
        if count <= 0:
            continue
        reward = steps["reward"].to_numpy() / unit
        best = steps["best_value"].to_numpy().astype(np.float64)
        target = terms.discount**terms.n_step * best[terms.n_step :]
        for k in range(terms.n_step):
            target += terms.discount**k * reward[k : k + count]
        values = steps.select(f"value_{branch}" for branch in backtest.branches).to_numpy()[:count]
        delta = np.abs(np.clip(target, terms.v_min, terms.v_max)[:, None] - values).mean(1)
        forecasts.append(steps["forecast_error"].to_numpy()[:count].astype(np.float64))
        usual = torch.tensor(terms.usual_error, dtype=torch.float64)
        shares.append(auxiliary.error_share(torch.from_numpy(delta), usual).numpy())
    return _joined(forecasts), _joined(shares)


def pay_outcomes(
    backtest: Backtest, horizon: int
) -> tuple[Float64[np.ndarray, " samples"], Float64[np.ndarray, " samples"]]:
    """Forecast chance that a trade in the wanted direction pays for its costs, and 1 where it did, else 0.

    Judged as in training: the full cap, entered at the decision's mid and marked `horizon` decisions later, less the
    spread and taker fees of entering and leaving. Decisions that want no position are left out, and so are those
    closer than that to the end of their account.
    """
    forecasts, paid = [], []
    for steps, unit in _accounts(backtest):
        if (judged := _trades(steps, unit, horizon)) is not None:
            _, trade, rows = judged
            forecasts.append(steps["selectivity"].to_numpy()[rows].astype(np.float64))
            paid.append(trade.pays.numpy())
    return _joined(forecasts), _joined(paid)


def risk_use(backtest: Backtest) -> RiskUse:
    """Budget said, share of the cap allowed and share held, averaged over all decisions."""
    budget, allowed, used = risk_shares(backtest.decisions).select(pl.all().mean()).row(0)
    return RiskUse(float(budget), float(allowed), float(used))


def risk_shares(decisions: pl.DataFrame) -> pl.DataFrame:
    """Columns `budget`, `allowed` and `used` of every decision, as shares of the cap."""
    return decisions.select(
        budget=pl.col("risk_budget").cast(pl.Float64),
        allowed=pl.col("allowed_lots") / pl.col("cap_lots"),
        used=pl.col("position_lots").abs() / pl.col("cap_lots"),
    )


def plan_outcome(backtest: Backtest, horizon: int) -> PlanOutcome | None:
    """Follow the plan of every decision that wanted a position; None where none could be followed to the end.

    Plans are looked at once a decision, at mid prices, the stop before the target before the plan's horizon, as
    brackets are.
    """
    ends, reached = [], []
    for steps, unit in _accounts(backtest):
        if (judged := _trades(steps, unit, horizon)) is None:
            continue
        path, trade, rows = judged
        target, stop, last = (
            steps[f"plan_{name}"].to_numpy()[rows].astype(np.float64) for name in ("target", "stop", "horizon")
        )
        ends.append(plan_ends(path, target, stop, last))
        reached.append(
            np.stack([trade.favourable.numpy() >= target, trade.adverse.numpy() >= stop, trade.peak.numpy() <= last], 1)
        )
    if not ends:
        return None
    how = np.concatenate(ends)
    kept = np.concatenate(reached).mean(0)
    return PlanOutcome(
        plans=len(how),
        ended={name: float((how == k).mean()) for k, name in enumerate(ENDS)},
        promised=dict(zip(ENDS, (1 - TARGET_LEVEL, 1 - STOP_LEVEL, HORIZON_LEVEL), strict=True)),
        kept={name: float(share) for name, share in zip(ENDS, kept, strict=True)},
        exits=bracket_exits(backtest.decisions),
    )


def plan_ends(
    path: Float64[np.ndarray, "steps plans"],
    target: Float64[np.ndarray, " plans"],
    stop: Float64[np.ndarray, " plans"],
    horizon: Float64[np.ndarray, " plans"],
) -> Int64[np.ndarray, " plans"]:
    """Index into `ENDS` of what ends each plan first.

    Args:
        path: gain after 1, 2, ... decisions; the last row is at least as late as the longest horizon.
        target: gain at which a plan ends.
        stop: loss at which it ends.
        horizon: decisions after which it ends.
    """
    at_target, at_stop = path >= target, -path >= stop
    late = np.arange(1, len(path) + 1)[:, None] >= horizon
    first = (at_target | at_stop | late).argmax(0)
    plan = np.arange(path.shape[1])
    return np.where(at_stop[first, plan], 1, np.where(at_target[first, plan], 0, 2))


def bracket_exits(decisions: pl.DataFrame) -> dict[str, int]:
    """Positions that brackets closed, by reason; a bracket that needs several decisions to close counts once."""
    own = pl.col("bracket_exit")
    fresh = own.is_not_null() & own.shift(1).over("segment").is_null()
    counts = dict(decisions.filter(fresh)["bracket_exit"].value_counts().iter_rows())
    return {name: int(counts.get(name, 0)) for name in ENDS}


def _trades(
    steps: pl.DataFrame, unit: float, horizon: int
) -> tuple[Float64[np.ndarray, "horizon trades"], Trade, Bool[np.ndarray, " decisions"]] | None:
    """Path, outcome and mask of the decisions of one account that wanted a position and lie early enough to judge."""
    count = steps.height - horizon + 1
    if count <= 0:
        return None
    side = steps["wanted"].to_numpy().astype(np.int64) - FLAT
    rows = (side != 0) & (np.arange(steps.height) < count)
    if not rows.any():
        return None
    at = np.flatnonzero(rows)
    moves = steps["hold_move"].to_numpy()[at + np.arange(horizon)[:, None]] / unit
    sides = torch.from_numpy(side[at])
    cost = torch.from_numpy(steps["hold_cost"].to_numpy()[at] / unit)
    trade = judge_trade(torch.from_numpy(moves), torch.ones(len(at), dtype=torch.bool), sides, cost)
    return side[at] * moves.cumsum(0), trade, rows


def _accounts(backtest: Backtest) -> Iterator[tuple[pl.DataFrame, float]]:
    """Decisions and reward unit of every account."""
    for steps in backtest.decisions.partition_by("segment", maintain_order=True):
        yield steps, backtest.accounts[steps["segment"][0]].reward_unit


def _any(decisions: pl.DataFrame, column: str) -> bool:
    return decisions[column].null_count() < decisions.height


def _joined(parts: list[Float64[np.ndarray, " samples"]]) -> Float64[np.ndarray, " samples"]:
    return np.concatenate(parts) if parts else np.zeros(0)
