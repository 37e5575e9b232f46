"""Made-up back-tests whose accounts are kept by hand, for tests that need no environment."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from foxhunt.evaluate.record import DECISIONS, FILLS, HEADS, ORDERS, Account, Backtest

BRANCHES = {
    "direction": ("short", "flat", "long"),
    "magnitude": ("quarter", "half", "full"),
    "order": ("passive", "improve", "cross"),
    "urgency": ("patient", "normal", "urgent"),
}
SECOND = 1_000_000_000
TICK, FEE_BPS = 0.5, 1.0
CAP = 4
"""Lots."""


def account(symbol: str = "ABC", start: int = 0, steps: int = 4, cash: float = 1000.0) -> Account:
    """An account that decides once a second from second `start` on."""
    return Account(symbol, "USD", "UTC", cash, TICK, TICK, start * SECOND, (start + steps) * SECOND, 1.0)


def backtest(
    accounts: Sequence[Account],
    mids: Sequence[Sequence[float]],
    positions: Sequence[Sequence[int]],
    *,
    half_spread: float = 0.5,
    policy: str = "agent",
    seed: int = 0,
) -> Backtest:
    """Hold `positions` (lots after each decision) against `mids` (one more than decisions), paying half the spread.

    The first of two lots bought or sold in a step is a maker's, at the near side of the spread, so that both kinds of
    fill occur. Actions are drawn at random, except that the direction is that of the position.
    """
    generator = np.random.default_rng(seed)
    decisions, orders, fills = [], [], []
    for segment, (owner, prices, held) in enumerate(zip(accounts, mids, positions, strict=True)):
        cash, before = owner.initial_cash, 0
        equity = cash
        for step, position in enumerate(held):
            time = owner.start_ns + step * SECOND
            place = {
                "segment": segment, "symbol": owner.symbol, "step": step, "row": step,
                "time": time, "until": time + SECOND,
            }  # fmt: skip
            change, fees = position - before, 0.0
            parts = [("maker", np.sign(change)), ("taker", change - np.sign(change))] if abs(change) > 1 else []
            for liquidity, quantity in parts or ([("taker", change)] if change else []):
                against = half_spread if liquidity == "taker" else -half_spread
                side = "buy" if quantity > 0 else "sell"
                price = prices[step] + np.sign(quantity) * against
                notional = price * abs(quantity)
                fee = notional * FEE_BPS / 1e4
                cash -= price * quantity + fee
                fees += fee
                common = {
                    "side": side, "price_ticks": round(price / TICK), "price": price,
                    "quantity_lots": abs(quantity), "quantity": float(abs(quantity)),
                }  # fmt: skip
                fills.append(
                    place | common
                    | {"liquidity": liquidity, "notional": notional, "fee": fee, "mid": prices[step],
                       "slippage": abs(quantity) * against}
                )  # fmt: skip
                kind = "cross" if liquidity == "taker" else "passive"
                orders.append(place | common | {"order": len(orders), "event": "placed", "kind": kind})
            now = cash + position * prices[step + 1]
            actions = {branch: int(generator.integers(len(names))) for branch, names in BRANCHES.items()}
            decisions.append(
                place | actions | {"direction": int(np.sign(position)) + 1}
                | {"mid": prices[step], "target_lots": position, "position_lots": position,
                   "position": float(position), "cash": cash, "equity": now, "reward": now - equity, "fees": fees,
                   "liquidated": False, "cap_lots": CAP, "allowed_lots": CAP,
                   "hold_move": CAP * (prices[step + 1] - prices[step]), "hold_cost": CAP * 2 * half_spread}
            )  # fmt: skip
            before, equity = position, now
    schema = DECISIONS | dict.fromkeys(BRANCHES, pl.Int8) | HEADS
    return Backtest(
        policy, BRANCHES, tuple(accounts),
        pl.DataFrame(decisions, schema=schema), pl.DataFrame(orders, schema=ORDERS), pl.DataFrame(fills, schema=FILLS),
    )  # fmt: skip


def random_backtest(
    steps: int = 600, symbols: Sequence[str] = ("ABC",), seed: int = 0, policy: str = "agent"
) -> Backtest:
    """A random walk of the mid, and positions that change now and then."""
    generator = np.random.default_rng(seed)
    walk = np.random.default_rng(99)  # the same market whatever the policy
    accounts, mids, positions = [], [], []
    for symbol in symbols:
        accounts.append(account(symbol, steps=steps))
        mids.append((100 + np.cumsum(walk.integers(-1, 2, size=steps + 1)) * TICK / 2).tolist())
        switch = generator.random(steps) < 0.05
        wanted = generator.integers(-3, 4, size=steps)
        positions.append([int(wanted[max(np.flatnonzero(switch[: k + 1]), default=0)]) for k in range(steps)])
    return backtest(accounts, mids, positions, policy=policy, seed=seed)
