"""What a back-test leaves behind: three tables, and the accounts they belong to.

The tables are the ledger as it is written, so that whatever a report says can be recomputed from the files.
Times are UTC with nanoseconds. An order decided at `time` fills in (`time`, `until`]: the tape knows no finer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

STAMP: Final = pl.Datetime("ns", "UTC")

_STEP: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "segment": pl.Int32,
    "symbol": pl.String,
    "step": pl.Int32,
    "row": pl.Int64,
    "time": STAMP,
    "until": STAMP,
}

DECISIONS: Final = {
    **_STEP,
    "mid": pl.Float64,
    "target_lots": pl.Int64,
    "position_lots": pl.Int64,
    "position": pl.Float64,
    "cash": pl.Float64,
    "equity": pl.Float64,
    "reward": pl.Float64,
    "fees": pl.Float64,
    "liquidated": pl.Boolean,
    "cap_lots": pl.Int64,
    "allowed_lots": pl.Int64,
    "bracket_exit": pl.String,
    "hold_move": pl.Float64,
    "hold_cost": pl.Float64,
}
"""One row a decision: what was known, wanted and held; position, cash and equity are those at `until`.

`cap_lots` is the largest position of the account, `allowed_lots` what a risk budget left of it; `bracket_exit` is why
a bracket took the decision over, null where none did. `hold_move` is what the cap held long would have gained up to
`until`, `hold_cost` what entering and leaving it cost at `time`. Each action branch adds a column of its name with the
number of the action taken, and the agent's heads add `HEADS`. Money is in the account's currency.
"""

HEADS: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "wanted": pl.Int8,
    "best_value": pl.Float32,
    "value_direction": pl.Float32,
    "value_magnitude": pl.Float32,
    "value_order": pl.Float32,
    "value_urgency": pl.Float32,
    "forecast_error": pl.Float32,
    "risk_budget": pl.Float32,
    "selectivity": pl.Float32,
    "plan_target": pl.Float32,
    "plan_stop": pl.Float32,
    "plan_horizon": pl.Float32,
    "volatility_ratio": pl.Float32,
    "stability": pl.Float32,
}
"""What the agent's network said at a decision; null for policies without one, and for heads that it lacks.

`wanted` is the direction of the highest value, before selectivity or a bracket had their say. `value_BRANCH` is the
value of the branch's chosen action and `best_value` the mean over branches of the highest one; values, plan_target and
plan_stop are in reward units (`Account.reward_unit`), plan_horizon in decisions. The last two are the slots of the
internal state vector that each environment measures itself.
"""

ORDERS: Final = {
    **_STEP,
    "order": pl.Int32,
    "event": pl.String,
    "side": pl.String,
    "kind": pl.String,
    "price_ticks": pl.Int64,
    "price": pl.Float64,
    "quantity_lots": pl.Int64,
    "quantity": pl.Float64,
}
"""One row for each thing that happens to an order: placed, repriced, resized, cancelled, expired.

`order` numbers the orders of an account; price is null for an order that takes whatever the book offers.
"""

FILLS: Final = {
    **_STEP,
    "side": pl.String,
    "liquidity": pl.String,
    "price_ticks": pl.Int64,
    "price": pl.Float64,
    "quantity_lots": pl.Int64,
    "quantity": pl.Float64,
    "notional": pl.Float64,
    "fee": pl.Float64,
    "mid": pl.Float64,
    "slippage": pl.Float64,
}
"""One row a fill. `slippage` is the money lost against the mid at the decision; a gain is negative."""


@dataclass(frozen=True)
class Account:
    """One account: an instrument over one uninterrupted stretch of time."""

    symbol: str
    currency: str
    timezone: str
    initial_cash: float
    tick_value: float
    """Money that one lot gains when the price rises one tick."""
    tick_size: float
    """Currency."""
    start_ns: int
    """First decision."""
    stop_ns: int
    """End of the last interval, whether or not the account lived that long."""
    reward_unit: float
    """Money that the agent counts as one."""


@dataclass(frozen=True)
class Backtest:
    """A policy's way through a stretch of market, in tables sorted by segment and step.

    Columns are `DECISIONS`, branches and `HEADS`; `ORDERS`; `FILLS`. Row i of `accounts` is segment i of the tables.
    """

    policy: str
    branches: Mapping[str, tuple[str, ...]]
    """Name of each action branch, and of its actions."""
    accounts: tuple[Account, ...]
    decisions: pl.DataFrame
    orders: pl.DataFrame
    fills: pl.DataFrame

    @property
    def capital(self) -> float:
        """Money at work: the initial cash of one account for each instrument."""
        cash: dict[str, float] = {}
        for account in self.accounts:
            cash[account.symbol] = max(cash.get(account.symbol, 0.0), account.initial_cash)
        return sum(cash.values())

    @property
    def currency(self) -> str:
        """The one currency of all accounts."""
        return self.accounts[0].currency


def empty(schema: dict[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """A table of no rows."""
    return pl.DataFrame(schema=schema)
