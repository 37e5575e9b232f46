"""The fill model beside hftbacktest's: the same market and the same random orders through both, order by order.

`docs/fill-model.md` explains the figures and every class of difference.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from foxhunt.bench import hft
from foxhunt.bench.results import write_results
from foxhunt.config import MarketConfig, TapeConfig, duration_ns
from foxhunt.data.schema import Instrument
from foxhunt.errors import DataError
from foxhunt.market.actions import CANCELLED, CROSS, PLACED, REPLACED, REPRICED
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.state import StepEvents
from foxhunt.market.tape import ASK, BID, SIZE, TICK, Tape
from foxhunt.market.tape_build import build_tape

if TYPE_CHECKING:
    import polars as pl

RESULTS: Final = Path("benchmarks/results/fills.csv")
CLASSES: Final = (
    *("next_book", "shown_again", "hundred_ticks", "deeper", "marketable", "evidenced", "whole_lots"),
    *("below_zero", "unexplained"),
)
"""Why lots or fees differ; `docs/fill-model.md` tells each story."""
COLUMNS: Final = (
    *(
        "market",
        "rules",
        "queue",
        "latency",
        "accounts",
        "kind",
        "orders",
        "filled_by_both",
        "only_foxhunt",
        "only_hftbacktest",
    ),
    *("agreement", "equal_lots", "fees_compared", "equal_fees", *CLASSES),
)
"""Columns of the results file: numbers of orders, and the share of orders on whose filling both agree."""
BINANCE: Final = "binance_raw/usdm_btcusdt_20240808.gz"
SHARE: Final = "ashare_l2/SH600519_20230201_mbp10.parquet"
FAR: Final = 100
"""Ticks that a market order sweeps in hftbacktest: so many prices up, one more down."""
PATIENCE: Final = 1_000_000

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Market:
    """Data of one instrument."""

    name: str
    book: "pl.DataFrame"
    trades: "pl.DataFrame"
    instrument: Instrument
    events: NDArray[Any] | None = None
    """The market as hftbacktest's own converter reads it; None where it gets the changes of `book`."""


@dataclass(frozen=True)
class Rules:
    """Conventions under which both play."""

    name: str
    execution: str
    through: str
    queue: str
    latency: str = "0ms"


RULES: Final = (
    *(Rules("hftbacktest", "known", "full", queue) for queue in hft.QUEUES),
    Rules("pinned", "next", "evidenced", "risk-averse"),
    Rules("pinned", "next", "evidenced", "risk-averse", "5ms"),
)
"""hftbacktest's own rules with each queue model, and foxhunt's pinned conventions."""


class Outcome(NamedTuple):
    """Orders and what became of them, one entry an order."""

    row: Integers
    orders: hft.Orders
    ours: hft.Executions
    theirs: hft.Executions
    later: hft.Executions
    """hftbacktest again, each order just after the book that it met in the environment."""


def run(accounts: int, out: Path | None = None) -> list[dict[str, Any]]:
    """Compare on every market whose files are there, under all rules, and write a CSV (by default `RESULTS`).

    Market data is looked for in FOXHUNT_DATA, or ../shared/data beside the working folder. Raises `DataError` where
    there is none and `FoxhuntError` without hftbacktest.
    """
    folder = Path(os.environ.get("FOXHUNT_DATA", "../shared/data"))
    rows = [
        row
        for market in markets(folder)
        for rules in RULES
        for row in report(market, rules, compare(market, rules, accounts))
    ]
    if not rows:
        raise DataError(
            f"no market data in {folder}; set FOXHUNT_DATA to the folder that holds binance_raw or ashare_l2"
        )
    write_results(out or RESULTS, COLUMNS, rows)
    return rows


def compare(market: Market, rules: Rules, accounts: int, seed: int = 0) -> tuple[Tape, list[Outcome]]:
    """Play random orders through both; one outcome for each account and segment."""
    instrument = replace(market.instrument, order_lots=1, sell_bps=0.0)
    config = TapeConfig(every="1ev", execution=rules.execution, latency=rules.latency)  # type: ignore[arg-type]
    tape = build_tape([(market.book, market.trades, instrument)], config)
    events = market.events
    if events is None:
        events = hft.event_array(market.book, market.trades, instrument, tape.levels)
    delay = duration_ns(rules.latency)
    outcomes = []
    for row, orders, ours in play(tape, rules, accounts, seed):
        theirs = later = hft.replay(events, orders, instrument, delay, rules.queue)
        if rules.execution != "known":
            moved = replace(orders, start=tape.execution_time.numpy()[row] + 1, end=orders.end + delay)
            later = hft.replay(events, moved, instrument, 0, rules.queue)
        outcomes.append(Outcome(row, orders, ours, theirs, later))
    return tape, outcomes


def play(tape: Tape, rules: Rules, accounts: int, seed: int) -> Iterator[tuple[Integers, hft.Orders, hft.Executions]]:
    """Row, orders and executions of every account in the environment, each playing each segment once.

    Sizes are an eighth to all of the median size at the touch, far from any limit of the account. Decisions last 30
    steps on average, crossing ones a single step, and the next one never asks for the same kind: so no order is ever
    shrunk in its place, every order is sent once and cancelled once.
    """
    tape = replace(tape, segments=tape.segments.repeat(accounts, 1))
    touch = float(tape.decision[:, :, SIZE, 0].double().median())
    value = float(tape.half_ticks.double().mean()) / 2 * tape.instruments[0].tick_value
    market = MarketConfig(
        initial_cash=50 * touch * value,
        magnitudes=(0.0025, 0.005, 0.01),
        patience=(PATIENCE,) * 3,
        queue=rules.queue,  # type: ignore[arg-type]
        through=rules.through,  # type: ignore[arg-type]
    )
    environment = TradingEnvironment(tape, market, sweep=True)
    generator = torch.Generator().manual_seed(seed)

    def random(high: int, columns: int) -> torch.Tensor:
        return torch.randint(high, (environment.environments, columns), generator=generator)

    action, history = random(3, 4), []
    action[:, 3] = 0
    for _ in range(int((tape.segments[:, 1] - tape.segments[:, 0]).max()) - 1):
        environment.step(action)
        assert environment.events is not None
        history.append(environment.events)
        fresh = random(3, 4)
        fresh[:, 2:3] = (action[:, 2:3] + 1 + random(2, 1)) % 3
        fresh[:, 3] = 0
        action = torch.where((random(30, 1) == 0) | (action[:, 2:3] == CROSS), fresh, action)
    log = StepEvents(*(torch.stack(steps, 1) for steps in zip(*history, strict=True)))
    for account in range(environment.environments):
        yield sent(StepEvents(*(field[account] for field in log)), tape, duration_ns(rules.latency))


def sent(log: StepEvents, tape: Tape, delay: int) -> tuple[Integers, hft.Orders, hft.Executions]:
    """Row, terms and executions of one account's orders, told from all events of its life."""
    live = log.active.numpy()
    event, row = log.order_event.numpy()[live], log.row.numpy()[live]
    starts = np.isin(event, (PLACED, REPLACED, REPRICED))
    step, number = np.flatnonzero(starts), np.cumsum(starts) - 1
    over = np.flatnonzero(starts | (event == CANCELLED))
    time = tape.time.numpy()
    ends = np.append(time[row[over]], time[row[-1] + 1] - delay)
    lots, fee = np.zeros(len(step)), np.zeros(len(step))
    for source, owner in (("early", number - starts), ("taker", number), ("maker", number)):
        filled = getattr(log, f"{source}_lots").numpy()[live].reshape(len(row), -1)
        known = owner >= 0
        np.add.at(lots, owner[known], np.abs(filled).sum(1)[known])
        np.add.at(fee, owner[known], getattr(log, f"{source}_fee").numpy()[live][known])
    side, tick, wanted, crosses = (
        getattr(log, f"order_{name}").numpy()[live][step] for name in ("side", "tick", "lots", "crosses")
    )
    orders = hft.Orders(time[row[step]], ends[np.searchsorted(over, step, "right")], side, tick, wanted, crosses)
    return row[step], orders, hft.Executions(lots, fee, lots)


def report(market: Market, rules: Rules, played: tuple[Tape, list[Outcome]]) -> list[dict[str, Any]]:
    """Rows of the results file: crossing orders, resting orders, and all of them."""
    tape, outcomes = played
    judged = [_judge(tape, outcome, rules) for outcome in outcomes]
    every = _Judged._make(np.concatenate(column) for column in zip(*judged, strict=True))
    rows = []
    kinds = {"crossing": every.crosses, "resting": ~every.crosses, "all": np.ones_like(every.crosses)}
    for kind, chosen in kinds.items():
        some = _Judged._make(column[chosen] for column in every)
        mine, other = some.ours > 0, some.theirs > 0
        figures = (
            *(len(mine), _count(mine & other), _count(mine & ~other), _count(other & ~mine)),
            *(round(float((mine == other).mean()), 5), _count(mine & other & (some.ours == some.theirs))),
            *(_count(some.booked), _count(some.booked & some.same_fee)),
            *(_count(some.reason == reason) for reason in CLASSES),
        )
        setting = (market.name, rules.name, rules.queue, rules.latency, len(outcomes) // len(tape.segments), kind)
        rows.append(dict(zip(COLUMNS, (*setting, *figures), strict=True)))
    return rows


class _Judged(NamedTuple):
    """Both outcomes of every order, and why they differ."""

    crosses: Flags
    ours: hft.Reals
    theirs: hft.Reals
    reason: NDArray[np.str_]
    """Class of the difference, "" where there is none."""
    booked: Flags
    """Filled alike, and wholly booked by hftbacktest: only then is its fee that of the order."""
    same_fee: Flags


def _judge(tape: Tape, outcome: Outcome, rules: Rules) -> _Judged:
    orders, ours, theirs, later = outcome.orders, outcome.ours.lots, outcome.theirs.lots, outcome.later.lots
    book = tape.execution.numpy()[outcome.row, np.where(orders.side > 0, ASK, BID)]
    tick, size = book[:, TICK], book[:, SIZE]
    side, limit = orders.side[:, None], orders.tick[:, None]
    offered = np.where(orders.crosses[:, None] | (side * tick <= side * limit), size, 0)
    near = np.where(side * (tick - tick[:, :1]) < FAR + (side < 0), offered, 0)
    shown, swept = (np.minimum(lots.sum(1), orders.lots) for lots in (offered, near))
    booked = (ours > 0) & (theirs == ours) & np.isclose(outcome.theirs.booked, ours, rtol=0, atol=2 * hft.SLIVER)
    same_fee, later_fee = (
        np.isclose(outcome.ours.fee, other.fee, rtol=2 * hft.SLIVER, atol=1e-9)
        for other in (outcome.theirs, outcome.later)
    )
    books = np.searchsorted(tape.time.numpy(), orders.end) - outcome.row
    reasons = {
        "": (ours == theirs) & (same_fee | ~booked),
        "next_book": (ours == later) & ((ours != theirs) | later_fee),
        "deeper": orders.crosses & (later > swept),
        "hundred_ticks": orders.crosses & (later == swept) & (ours == shown) & (later < shown),
        "shown_again": orders.crosses & (later == swept),
        "marketable": ~orders.crosses & (offered[:, 0] > 0),
        # Each book moves the estimate of lots ahead by less than a lot when it is rounded.
        "whole_lots": ~orders.crosses & (np.abs(ours - later) <= books),
        "evidenced": ~orders.crosses & (later == orders.lots) & (rules.through == "evidenced"),
        "below_zero": ~orders.crosses & (later > ours) & (rules.queue == "logarithmic"),
    }
    reason = np.select(list(reasons.values()), list(reasons), "unexplained")
    return _Judged(orders.crosses, ours, theirs, reason, booked, same_fee)


def _count(flags: Flags) -> int:
    return int(flags.sum())


def markets(folder: Path) -> Iterator[Market]:
    """Binance's Bitcoin future and a Shanghai stock, as far as their files are there.

    hftbacktest gets the future twice: as the changes of the ten levels that the environment sees, and as the raw feed.
    """
    raw, share = (folder / file for file in (BINANCE, SHARE))
    if raw.is_file():
        from foxhunt.bench import feed

        instrument = Instrument("BTCUSDT", "0.1", lot_size="0.001", currency="USDT", maker_bps=2, taker_bps=5)
        events = feed.convert(raw)
        book, trades = feed.frames(events, instrument)
        yield Market("binance", book, trades, instrument)
        yield Market("binance-raw", book, trades, instrument, events)
    if share.is_file():
        from foxhunt.data.readers import ImportOptions, read_sources

        imported = read_sources([share], ImportOptions(map="ashare"))
        (instrument,) = imported.instruments.values()
        yield Market("ashare", imported.frames["book"], imported.frames["trades"], instrument)
