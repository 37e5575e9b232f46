"""From what an environment did, step by step, to the tables of a back-test."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from foxhunt.data.schema import PRICE_SCALE, Instrument
from foxhunt.evaluate.arena import Arena, Entry, side_by_side, sweep
from foxhunt.evaluate.record import DECISIONS, FILLS, HEADS, ORDERS, Account, Backtest
from foxhunt.interface import Hold
from foxhunt.market.actions import CANCELLED, CROSS, IDLE, KEPT, ORDER_EVENTS, PLACED, REPLACED
from foxhunt.market.brackets import EXITS
from foxhunt.market.episodes import sweep_starts
from foxhunt.market.fees import instrument_terms, maker_fee, taker_fee
from foxhunt.market.state import StepEvents

ACTIONS: Final = {
    "direction": ("short", "flat", "long"),
    "magnitude": ("quarter", "half", "full"),
    "order": ("join", "improve", "cross"),
    "urgency": ("patient", "normal", "urgent"),
}
"""Names of the trading environment's actions, branch by branch."""

REFUSED: Final = "refused"
"""Event of an order of which the account could not carry a single lot."""
EXPIRED: Final = "expired"
"""Event of an order that still rested when its account's time was over."""

_SOURCES: Final = (("early", "maker"), ("taker", "taker"), ("maker", "maker"), ("liquidation", "liquidation"))
"""Fields of `StepEvents` that hold fills, in the order they happen in a step, and the ledger's word for them."""

Columns = dict[str, Any]
Whole = NDArray[np.int64]
Real = NDArray[np.float64]


def record(arena: Arena, entries: Sequence[Entry]) -> list[tuple[Backtest, ...]]:
    """Send policies through an arena side by side and keep everything: for each entry one back-test a copy."""
    copies = sum(entry.copies for entry in entries)
    environment = arena.environment(copies)
    played = list(sweep(environment, side_by_side(entries, arena.segments)))
    events, hold = (
        kind(*(torch.stack(steps, 1).cpu() for steps in zip(*parts, strict=True)))
        for kind, parts in zip((StepEvents, Hold), zip(*played, strict=True), strict=True)
    )
    runs, first = [], 0
    for entry in entries:
        said = {} if entry.listener is None else entry.listener.statements()
        copied = []
        for copy in range(entry.copies):
            here, own = (slice(start, start + arena.segments) for start in (first, copy * arena.segments))
            recorder = _Recorder(
                arena,
                StepEvents(*(field[here] for field in events)),
                Hold(*(field[here] for field in hold)),
                {name: values[own] for name, values in said.items()},
            )
            copied.append(recorder.backtest(entry.name))
            first += arena.segments
        runs.append(tuple(copied))
    return runs


class _Recorder:
    """Tables of one copy; every field of `events`, `hold` and `said` is an array [segments, steps, ...]."""

    def __init__(self, arena: Arena, events: StepEvents, hold: Hold, said: dict[str, torch.Tensor]) -> None:
        self.events: Any = StepEvents(*(field.numpy() for field in events))  # type: ignore[arg-type]  # arrays from here on
        self.hold_move, self.hold_cost = (money.numpy() for money in hold)
        self.said = {name: values.numpy() for name, values in said.items()}
        self.market, self.instruments = arena.market, arena.tape.instruments
        self.tape = arena.tape.to("cpu")
        self.caps = sweep_starts(self.tape, arena.market).cap.numpy()
        self.units = arena.scaler.reward_units(self.tape).tolist()
        self.ticks = np.array([instrument.tick for instrument in self.instruments])
        self.lots = [Decimal(instrument.lot_size) for instrument in self.instruments]
        self.symbols = pl.Series([instrument.symbol for instrument in self.instruments])
        self.terms = instrument_terms(self.instruments, self.market, torch.device("cpu"))

    def backtest(self, name: str) -> Backtest:
        """All tables together."""
        accounts = tuple(self._account(first, stop) for first, stop in self.tape.segments.tolist())
        return Backtest(name, ACTIONS, accounts, self.decisions(), self.orders(), self.fills())

    def decisions(self) -> pl.DataFrame:
        """One row for each step of an account's life."""
        events = self.events
        segment, step = np.nonzero(events.active)
        worth = np.concatenate([np.full((len(events.worth), 1), self.market.initial_cash), events.worth], 1)
        fees = events.early_fee + events.taker_fee + events.maker_fee + events.liquidation_fee
        columns = self._place(segment, step) | {
            "mid": self._mid(segment, step),
            "target_lots": events.target[segment, step],
            "position_lots": events.position[segment, step],
            "position": self._quantity(events.position[segment, step], self._instrument(segment)),
            "cash": events.cash[segment, step],
            "equity": events.worth[segment, step],
            "reward": np.diff(worth, axis=1)[segment, step],
            "fees": fees[segment, step],
            "liquidated": events.liquidation_lots[segment, step].any(1),
            "cap_lots": self.caps[segment],
            "allowed_lots": events.cap[segment, step],
            "bracket_exit": pl.Series([None, *EXITS[1:]]).gather(events.bracket_exit[segment, step]),
            "hold_move": self.hold_move[segment, step],
            "hold_cost": self.hold_cost[segment, step],
        }
        actions = events.action[segment, step]
        columns |= {branch: actions[:, k] for k, branch in enumerate(ACTIONS)}
        nothing = pl.repeat(None, len(step), eager=True)
        columns |= {name: self.said[name][segment, step] if name in self.said else nothing for name in HEADS}
        return pl.DataFrame(columns, schema_overrides=DECISIONS | dict.fromkeys(ACTIONS, pl.Int8) | HEADS)

    def fills(self) -> pl.DataFrame:
        """One row for each price at which something filled."""
        parts = []
        for order, (source, liquidity) in enumerate(_SOURCES):
            lots, ticks = getattr(self.events, f"{source}_lots"), getattr(self.events, f"{source}_tick")
            shape = (*self.events.active.shape, -1)
            lots, ticks = lots.reshape(shape), ticks.reshape(shape)
            segment, step, level = np.nonzero(lots * self.events.active[..., None])
            chosen = lots[segment, step, level], ticks[segment, step, level]
            columns = self._fill_columns(segment, step, *chosen, passive=liquidity == "maker")
            parts.append(
                pl.DataFrame(columns | {"liquidity": [liquidity] * len(level)}, schema=FILLS).with_columns(
                    happened=pl.lit(order), level=level
                )
            )
        return pl.concat(parts).sort("segment", "step", "happened", "level").drop("happened", "level")

    def orders(self) -> pl.DataFrame:
        """One row for each event of an order; orders still resting at the end of an account expire."""
        events = self.events
        happened = events.active & (events.order_event != IDLE) & (events.order_event != KEPT)
        number = np.cumsum(np.isin(events.order_event, (PLACED, REPLACED)) & events.active, axis=1) - 1
        segment, step = np.nonzero(happened)
        parts = [self._order_rows(segment, step, number)]
        last = events.active.sum(1) - 1
        parts.append(self._order_rows(np.arange(len(last)), last, number, expired=True))
        return pl.concat(parts).sort("segment", "step", maintain_order=True)

    def _order_rows(self, segment: Whole, step: Whole, number: NDArray[Any], expired: bool = False) -> pl.DataFrame:
        events = self.events
        lots, event = events.order_lots[segment, step], events.order_event[segment, step]
        crosses = events.order_crosses[segment, step]
        names = pl.Series(ORDER_EVENTS).gather(event)
        if expired:
            filled = events.taker_lots[segment, step].sum(1) + events.maker_lots[segment, step]
            lots = np.where(crosses, 0, lots - np.abs(filled))
            names = pl.repeat(EXPIRED, len(step), eager=True)
        else:
            names = names.set(pl.Series((lots == 0) & (event != CANCELLED)), REFUSED)
        kind = np.where(crosses, CROSS, events.order_kind[segment, step])
        side = np.where(event == CANCELLED, 0, events.order_side[segment, step])
        tick, instrument = events.order_tick[segment, step], self._instrument(segment)
        frame = pl.DataFrame(
            self._place(segment, step)
            | {
                "order": number[segment, step],
                "event": names,
                "side": pl.Series(["sell", None, "buy"]).gather(side + 1),
                "kind": pl.Series(ACTIONS["order"]).gather(kind),
                "price_ticks": tick,
                "price": self._price(tick, instrument),
                "quantity_lots": lots,
                "quantity": self._quantity(lots, instrument),
            },
            schema=ORDERS,
        )
        priced = (pl.col("kind") != ACTIONS["order"][CROSS]) & (pl.col("side").is_not_null())
        frame = frame.with_columns(pl.when(priced).then(pl.col("price_ticks", "price")))
        return frame.filter(pl.col("quantity_lots") > 0) if expired else frame

    def _fill_columns(self, segment: Whole, step: Whole, lots: Whole, ticks: Whole, passive: bool) -> Columns:
        instrument = self._instrument(segment)
        terms = self.terms.take(torch.from_numpy(instrument))
        fee = maker_fee if passive else taker_fee
        tick_value = terms.tick_value.numpy()
        mid_ticks = self.tape.half_ticks.numpy()[self.events.row[segment, step]] / 2
        return self._place(segment, step) | {
            "side": np.where(lots > 0, "buy", "sell"),
            "price_ticks": ticks,
            "price": self._price(ticks, instrument),
            "quantity_lots": np.abs(lots),
            "quantity": self._quantity(np.abs(lots), instrument),
            "notional": np.abs(lots * ticks) * tick_value,
            "fee": fee(terms, torch.from_numpy(lots), torch.from_numpy(lots * ticks)).numpy(),
            "mid": self._mid(segment, step),
            "slippage": lots * (ticks - mid_ticks) * tick_value,
        }

    def _place(self, segment: Whole, step: Whole) -> Columns:
        row, time = self.events.row[segment, step], self.tape.time.numpy()
        return {
            "segment": segment,
            "symbol": self.symbols.gather(self._instrument(segment)),
            "step": step,
            "row": row,
            "time": time[row],
            "until": time[row + 1],
        }

    def _instrument(self, segment: Whole) -> Whole:
        return self.tape.segment_instruments().numpy()[segment]

    def _mid(self, segment: Whole, step: Whole) -> Real:
        half_ticks = self.tape.half_ticks.numpy()[self.events.row[segment, step]]
        mid: Real = half_ticks * self.ticks[self._instrument(segment)] / (2 * PRICE_SCALE)
        return mid

    def _price(self, ticks: Whole, instrument: Whole) -> Real:
        """Nearest float of the decimal price: the product is exact, the division rounds once."""
        price: Real = ticks * self.ticks[instrument] / PRICE_SCALE
        return price

    def _quantity(self, lots: Whole, instrument: Whole) -> Real:
        ratios = np.array([lot.as_integer_ratio() for lot in self.lots], dtype=np.float64)
        quantity: Real = lots * ratios[instrument, 0] / ratios[instrument, 1]
        return quantity

    def _account(self, first: int, stop: int) -> Account:
        place = int(self.tape.instrument[first])
        instrument: Instrument = self.instruments[place]
        return Account(
            symbol=instrument.symbol,
            currency=instrument.currency,
            timezone=instrument.timezone,
            initial_cash=self.market.initial_cash,
            tick_value=instrument.tick_value,
            tick_size=float(instrument.tick_size),
            start_ns=int(self.tape.time[first]),
            stop_ns=int(self.tape.time[stop - 1]),
            reward_unit=self.units[place],
        )
