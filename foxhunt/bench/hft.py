"""The same market and the same orders through hftbacktest, an event-driven back-tester nobody here wrote."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from foxhunt.data.schema import Instrument
from foxhunt.errors import FoxhuntError
from foxhunt.market.book_events import Books, Trades, read_books, read_trades
from foxhunt.market.tape import ASK, BID

if TYPE_CHECKING:
    import polars as pl

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

SLIVER: Final = 2.0**-20
"""hftbacktest's lot size, in lots of the instrument."""
EXTRA: Final = SLIVER
"""Lots added to every limit order: hftbacktest keeps an order that a trade fills exactly, and stops with code 14 when
that order fills again. With a sliver more it is never filled exactly."""
END_OF_DATA: Final = 1
QUEUES: Final = {
    "risk-averse": "risk_adverse_queue_model",
    "linear": "power_prob_queue_model",
    "logarithmic": "log_prob_queue_model",
}
"""hftbacktest's name of each queue model; its logarithmic one reads quantities in the unit that they are given in."""


@dataclass(frozen=True)
class Orders:
    """Orders of one account, one alive at a time: each ends where the next begins, or at its own `end`."""

    start: Integers
    """When each is sent, ns."""
    end: Integers
    """When its cancellation is sent, ns."""
    side: Integers
    tick: Integers
    lots: Integers
    crosses: NDArray[np.bool_]


@dataclass(frozen=True)
class Executions:
    """What became of orders."""

    lots: Reals
    """Lots filled."""
    fee: Reals
    """Money paid for the lots that are booked."""
    booked: Reals
    """Lots that reached the account: hftbacktest books only the fill that completes an order, at its last price."""


def event_array(book: "pl.DataFrame", trades: "pl.DataFrame", instrument: Instrument, levels: int) -> NDArray[Any]:
    """Canonical frames as hftbacktest's events: at equal stamps trades come before books.

    A book becomes the changes since the book before: what left is taken away first, so that the feed never crosses
    itself on the way. Prices deeper than the last displayed level keep what they showed last.
    """
    types = package().types
    changes = [
        *_trade_events(read_trades(trades, instrument), types),
        *_depth_events(read_books(book, instrument, levels), types),
    ]
    changes.sort(key=lambda change: change[1])
    flags, time, tick, lots = (np.array(column, np.int64) for column in zip(*changes, strict=True))
    events = np.zeros(len(changes), types.event_dtype)
    events["ev"] = flags | types.EXCH_EVENT | types.LOCAL_EVENT
    events["exch_ts"] = events["local_ts"] = time
    events["px"], events["qty"] = tick * float(instrument.tick_size), lots * float(instrument.lot_size)
    return events


def replay(events: NDArray[Any], orders: Orders, instrument: Instrument, latency: int, queue: str) -> Executions:
    """Send one account's orders through hftbacktest, `latency` ns on the way, with its partial fills.

    Raises `RuntimeError` with hftbacktest's code when it stops.
    """
    market, count = _market(events, instrument, latency, queue), len(orders.start)
    submit = {1: market.submit_buy_order, -1: market.submit_sell_order}
    account = np.zeros((count + 1, 2))
    lot = float(instrument.lot_size)
    sizes = (orders.lots + np.where(orders.crosses, 0, EXTRA)) * lot
    _run(market, int(events["local_ts"][0]) - market.current_timestamp)
    for number in range(count):
        _run(market, int(orders.start[number]) - market.current_timestamp)
        if number and orders.end[number - 1] == orders.start[number]:
            _cancel(market, number - 1)
        price = int(orders.tick[number]) * float(instrument.tick_size)
        place = submit[int(orders.side[number])]
        place(0, number, price, float(sizes[number]), 0, int(orders.crosses[number]), False)
        if latency:
            # What fills before the order arrives belongs to the order before.
            _run(market, latency - 1)
        account[number] = _account(market)
        if number + 1 == count or orders.end[number] < orders.start[number + 1]:
            _run(market, int(orders.end[number]) - market.current_timestamp)
            _cancel(market, number)
            _run(market, latency + 1)
    account[-1] = _account(market)
    done = market.orders(0)
    filled = (sizes - np.array([done.get(number).leaves_qty for number in range(count)])) / lot
    market.close()
    fee, booked = np.diff(account, axis=0).T
    return Executions(np.minimum(filled.round(), orders.lots), fee, booked / lot)


def _account(market: Any) -> tuple[float, float]:
    state = market.state_values(0)
    return state.fee, state.trading_volume


def _market(events: NDArray[Any], instrument: Instrument, latency: int, queue: str) -> Any:
    hftbacktest = package()
    asset = (
        hftbacktest.BacktestAsset()
        .linear_asset(instrument.multiplier)
        .constant_order_latency(latency, 0)
        .partial_fill_exchange()
        .trading_value_fee_model(instrument.maker_bps * 1e-4, instrument.taker_bps * 1e-4)
        .tick_size(float(instrument.tick_size))
        .lot_size(SLIVER * float(instrument.lot_size))
    )
    getattr(asset, QUEUES[queue])(*((1.0,) if queue == "linear" else ()))
    return hftbacktest.HashMapMarketDepthBacktest([asset.add_data(events)])


def _run(market: Any, duration: int) -> None:
    code = market.elapse(max(duration, 0))
    if code not in (0, END_OF_DATA):
        raise RuntimeError(f"hftbacktest stopped with code {code}")


def _cancel(market: Any, number: int) -> None:
    if market.orders(0).get(number).cancellable:
        market.cancel(0, number, False)


def _depth_events(books: Books, types: Any) -> Iterator[tuple[int, int, int, int]]:
    """(flags, stamp, tick, lots) of every change of the book; lots 0 take a price away."""
    sides = ((BID, types.BUY_EVENT, 1), (ASK, types.SELL_EVENT, -1))
    shown: dict[int, dict[int, int]] = {BID: {}, ASK: {}}
    for time, ticks, sizes in zip(books.time.tolist(), books.tick.tolist(), books.size.tolist(), strict=True):
        changes = []
        for side, flag, sign in sides:
            kept = shown[side]
            now = {tick: lots for tick, lots in zip(ticks[side], sizes[side], strict=True) if lots}
            deepest = sign * ticks[side][-1] if len(now) == len(ticks[side]) else -(1 << 62)
            gone = [tick for tick in kept if tick not in now and sign * tick >= deepest]
            for tick in gone:
                del kept[tick]
                yield types.DEPTH_EVENT | flag, time, tick, 0
            changes += [(flag, tick, lots) for tick, lots in now.items() if kept.get(tick) != lots]
            kept |= now
        for flag, tick, lots in changes:
            yield types.DEPTH_EVENT | flag, time, tick, lots


def _trade_events(trades: Trades, types: Any) -> Iterator[tuple[int, int, int, int]]:
    """(flags, stamp, tick, lots) of every trade whose aggressor is known."""
    columns = (trades.time, trades.tick, trades.size, trades.side)
    for time, tick, lots, side in zip(*(column.tolist() for column in columns), strict=True):
        if side:
            yield types.TRADE_EVENT | (types.BUY_EVENT if side > 0 else types.SELL_EVENT), time, tick, lots


def package() -> Any:
    """hftbacktest; raises `FoxhuntError` where it is not installed."""
    try:
        import hftbacktest
    except ImportError as error:
        raise FoxhuntError(
            "foxhunt bench fills needs hftbacktest; install it with: pip install numba, then "
            "pip install --no-deps hftbacktest (it asks for an older numpy than it runs with)"
        ) from error
    return hftbacktest
