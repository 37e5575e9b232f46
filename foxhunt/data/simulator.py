"""A seeded order-driven market with a planted, tunable signal, for tests, demonstrations and stress.

Orders arrive as in Cont, Stoikov and Talreja (2010): limit orders at a distance from the opposite best with a rate
that falls with distance, cancellations in proportion to the queue, market orders at a constant rate, all of geometric
size. A hidden state of -1, 0 or +1 tilts the market orders towards selling or buying and changes at exponential
times. The tilt is what order-flow imbalance sees before the price has moved: the only planted predictability.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foxhunt.config import require
from foxhunt.data.imported import Imported, plain_counts
from foxhunt.data.schema import LEVELS, PRICE_SCALE, Instrument, Kind, level_columns

_DEPTH: Final = 15
"""Ticks from the opposite best at which limit orders arrive."""
_WINDOW: Final = 48
"""Ticks of each side recorded after an event; holds ten occupied levels in practice and in all tests."""


@dataclass(frozen=True)
class SimulatorConfig:
    """What the simulated market does; rates are per second."""

    seconds: float = 7200.0
    """Length of the simulation."""
    signal: float = 0.5
    """Tilt of market orders in a signal state: buys come at rate * (1 + signal), sells at rate * (1 - signal)."""
    state_seconds: float = 60.0
    """Mean time between changes of the hidden state."""
    market_rate: float = 0.5
    """Market orders a second on each side."""
    limit_rate: float = 0.5
    """Limit orders a second and side at distance 1; falls as distance ** -0.5."""
    cancel_rate: float = 0.2
    """Share of resting lots cancelled a second, an order of mean size at a time."""
    mean_size: float = 4.0
    """Mean order size in lots."""
    price: float = 100.0
    """First mid price, in currency."""
    seed: int = 0
    """Seed of everything random."""

    def __post_init__(self) -> None:
        require(self.seconds > 0, "simulator.seconds must be positive")
        require(0 <= self.signal < 1, "simulator.signal must be in [0, 1)")
        require(self.state_seconds > 0, "simulator.state_seconds must be positive")
        require(min(self.market_rate, self.limit_rate, self.cancel_rate) > 0, "simulator rates must be positive")
        require(self.mean_size >= 1, "simulator.mean_size must be at least 1 lot")


@dataclass(frozen=True)
class Simulation:
    """A simulated market in canonical frames, and the hidden truth behind it."""

    instrument: Instrument
    book: pl.DataFrame
    trades: pl.DataFrame
    signal: pl.DataFrame
    """Hidden state by time: `ts_event`, `state` (-1, 0, +1), one row a change."""
    config: SimulatorConfig

    def imported(self) -> Imported:
        """What `store.write_dataset` stores of it; the hidden state stays hidden."""
        frames: dict[Kind, pl.DataFrame] = {"book": self.book, "trades": self.trades}
        return Imported(
            instruments={self.instrument.symbol: self.instrument},
            frames=frames,
            counts={kind: plain_counts(frame, "simulated rows") for kind, frame in frames.items()},
            sources=["simulation"],
            notes=[f"simulated market: {self.config}"],
        )


INSTRUMENT: Final = Instrument(symbol="SIM", tick_size="0.01", lot_size="100", taker_bps=0.5, maker_bps=0.0)
"""Round lots of a hundred shares; the touch shows about eight, and an account of 100,000 holds ten."""


def simulate(config: SimulatorConfig) -> Simulation:
    """Run the market; the same config gives the same frames, bit for bit."""
    generator = np.random.default_rng(config.seed)
    times, states = _states(config, generator)
    return _Market(config, generator).run(times, states)


def _states(config: SimulatorConfig, generator: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Times of change (the first is 0) and the state from each on; every change goes to one of the other two."""
    expected = config.seconds / config.state_seconds
    count = int(expected + 10 * np.sqrt(expected) + 10)
    times = np.concatenate([[0.0], np.cumsum(generator.exponential(config.state_seconds, count))])
    states = np.cumsum(np.concatenate([generator.integers(0, 3, 1), generator.integers(1, 3, count)])) % 3 - 1
    keep = times < config.seconds
    return times[keep], states[keep].astype(np.int64)


class _Market:
    """The two ladders, one array of lots a tick, and the event loop over them."""

    def __init__(self, config: SimulatorConfig, generator: np.random.Generator) -> None:
        self.config = config
        self.generator = generator
        self.origin = round(config.price * 100)
        self.ladder_size = 2 * self.origin
        self.bids: NDArray[np.int64] = np.zeros(self.ladder_size, np.int64)
        self.asks: NDArray[np.int64] = np.zeros(self.ladder_size, np.int64)
        self.best_bid, self.best_ask = self.origin - 1, self.origin
        distances = np.arange(_DEPTH)
        steady = config.limit_rate * config.mean_size / config.cancel_rate * (distances + 1.0) ** -0.5
        opening = np.maximum(1, np.round(steady)).astype(int)
        self.bids[self.best_bid - distances] = opening
        self.asks[self.best_ask + distances] = opening
        self.limit_rates = config.limit_rate * (distances + 1.0) ** -0.5
        self.trade_rows: list[tuple[float, int, int, str]] = []

    def run(self, change_times: NDArray[np.float64], states: NDArray[np.int64]) -> Simulation:
        """Draw events one after the other until the time is over."""
        config, random = self.config, self.generator
        stamps: list[float] = []
        bid_rows: list[NDArray[np.int64]] = []
        ask_rows: list[NDArray[np.int64]] = []
        tops: list[tuple[int, int]] = []
        now, change, state = 0.0, 1, int(states[0])
        limit_total = 2 * float(self.limit_rates.sum())
        while True:
            resting = int(self._near_bids().sum() + self._near_asks().sum())
            total = limit_total + 2 * config.market_rate + config.cancel_rate / config.mean_size * resting
            now += random.exponential(1 / total)
            while change < len(states) and change_times[change] <= now:
                state, change = int(states[change]), change + 1
            if now >= config.seconds:
                break
            self._event(now, random.random() * total, limit_total, state)
            stamps.append(now)
            bid_rows.append(self.bids[self.best_bid - _WINDOW + 1 : self.best_bid + 1][::-1].copy())
            ask_rows.append(self.asks[self.best_ask : self.best_ask + _WINDOW].copy())
            tops.append((self.best_bid, self.best_ask))
        return self._frames(stamps, np.array(tops), np.array(bid_rows), np.array(ask_rows), change_times, states)

    def _near_bids(self) -> NDArray[np.int64]:
        return self.bids[self.best_ask - _DEPTH : self.best_ask]

    def _near_asks(self) -> NDArray[np.int64]:
        return self.asks[self.best_bid + 1 : self.best_bid + 1 + _DEPTH]

    def _event(self, now: float, draw: float, limit_total: float, state: int) -> None:
        """One arrival, chosen by where `draw` falls in the stacked rates."""
        config, random = self.config, self.generator
        if draw < limit_total:
            distance = int(np.searchsorted(np.cumsum(self.limit_rates), draw % (limit_total / 2))) + 1
            self._limit(draw < limit_total / 2, distance, self._size())
        elif draw < limit_total + 2 * config.market_rate:
            buy = random.random() < (1 + config.signal * state) / 2
            self._market(now, buy, self._size())
        else:
            self._cancel()

    def _size(self) -> int:
        return int(self.generator.geometric(1 / self.config.mean_size))

    def _limit(self, buy: bool, distance: int, size: int) -> None:
        if buy:
            price = self.best_ask - distance
            self.bids[price] += size
            self.best_bid = max(self.best_bid, price)
        else:
            price = self.best_bid + distance
            self.asks[price] += size
            self.best_ask = min(self.best_ask, price)

    def _market(self, now: float, buy: bool, size: int) -> None:
        """Walk the opposite ladder; the last occupied level of a side is never emptied, so both sides always quote."""
        ladder = self.asks if buy else self.bids
        step = 1 if buy else -1
        while size:
            price = self.best_ask if buy else self.best_bid
            following = self._next(ladder, price + step, step)
            filled = min(size, int(ladder[price]) - (following is None))
            if filled:
                self.trade_rows.append((now, price, filled, "B" if buy else "A"))
            ladder[price] -= filled
            size -= filled
            if ladder[price] or following is None:
                break
            if buy:
                self.best_ask = following
            else:
                self.best_bid = following

    def _cancel(self) -> None:
        """An order leaves a queue near the market; queues are chosen in proportion to their lots."""
        lots = np.concatenate([self._near_bids(), self._near_asks()])
        index = int(np.searchsorted(np.cumsum(lots), self.generator.integers(int(lots.sum())), side="right"))
        if index < _DEPTH:
            self.best_bid = self._remove(self.bids, self.best_ask - _DEPTH + index, self.best_bid, -1)
        else:
            self.best_ask = self._remove(self.asks, self.best_bid + 1 + index - _DEPTH, self.best_ask, 1)

    def _remove(self, ladder: NDArray[np.int64], price: int, best: int, step: int) -> int:
        """Take an order's lots from a queue and return the side's new best; the last queue of a side stays."""
        size = min(self._size(), int(ladder[price]))
        if price == best and size == ladder[price]:
            following = self._next(ladder, price + step, step)
            if following is None:
                return best
            best = following
        ladder[price] -= size
        return best

    @staticmethod
    def _next(ladder: NDArray[np.int64], start: int, step: int) -> int | None:
        """First occupied price from `start` in direction `step` within the recorded window, if any."""
        view = ladder[start : start + _WINDOW] if step > 0 else ladder[start - _WINDOW + 1 : start + 1][::-1]
        index = int(np.argmax(view > 0))
        return start + step * index if view[index] > 0 else None

    def _frames(
        self,
        stamps: list[float],
        tops: NDArray[np.int64],
        bids: NDArray[np.int64],
        asks: NDArray[np.int64],
        change_times: NDArray[np.float64],
        states: NDArray[np.int64],
    ) -> Simulation:
        stamp = _nanoseconds(np.array(stamps))
        columns: dict[str, object] = {"ts_event": stamp, "instrument": [INSTRUMENT.symbol] * len(stamp)}
        for side, best, sizes, step in (("bid", tops[:, 0], bids, -1), ("ask", tops[:, 1], asks, 1)):
            # Occupied levels first, in price order.
            order = np.argsort(sizes == 0, axis=1, kind="stable")[:, :LEVELS]
            size = np.take_along_axis(sizes, order, axis=1)
            price = (best[:, None] + step * order) * INSTRUMENT.tick
            for level, (px, sz) in enumerate(
                zip(level_columns(f"{side}_px"), level_columns(f"{side}_sz"), strict=True)
            ):
                there = size[:, level] > 0
                columns[px] = pl.Series(np.where(there, price[:, level], 0)).set(pl.Series(~there), None)
                columns[sz] = pl.Series(size[:, level]).set(pl.Series(~there), None)
        counts = [c for side in ("bid_ct", "ask_ct") for c in level_columns(side)]
        book = pl.DataFrame(columns).with_columns(pl.lit(None, pl.Int64).alias(c) for c in counts)
        trades = pl.DataFrame(
            {
                "ts_event": _nanoseconds(np.array([row[0] for row in self.trade_rows])),
                "instrument": [INSTRUMENT.symbol] * len(self.trade_rows),
                "price": [row[1] * INSTRUMENT.tick for row in self.trade_rows],
                "size": [row[2] for row in self.trade_rows],
                "side": [row[3] for row in self.trade_rows],
            },
            schema_overrides={"price": pl.Int64, "size": pl.Int64, "side": pl.String},
        )
        signal = pl.DataFrame({"ts_event": _nanoseconds(change_times), "state": states})
        return Simulation(INSTRUMENT, book, trades, signal, self.config)


def _nanoseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Stamps in the canonical unit, from the epoch on."""
    return np.asarray(np.round(seconds * PRICE_SCALE), dtype=np.int64)
