"""The market of `docs/market.md`, written out event by event in plain Python: slow, obvious, and no part of foxhunt.

It reads the hand-written rows of `frames`, not a tape, so that the tape's construction is under test too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from foxhunt.config import MarketConfig, TapeConfig, duration_ns, event_count
from foxhunt.data.schema import Instrument

from .frames import SECOND, BookRow, Level, TradeRow

BUY, SELL = 1, -1
NEVER = -1


@dataclass
class Book:
    """One book; `sides[BUY]` are the bids, `sides[SELL]` the asks, best first."""

    stamp: int
    sides: dict[int, list[Level]]

    @property
    def tradable(self) -> bool:
        """Both sides are there."""
        return bool(self.sides[BUY] and self.sides[SELL])

    @property
    def mid(self) -> float:
        """Mid price in ticks."""
        return (self.sides[BUY][0][0] + self.sides[SELL][0][0]) / 2


@dataclass
class Working:
    """A resting order."""

    side: int
    kind: int
    tick: int
    remaining: int
    ahead: float
    displayed: int
    target: int
    age: int = 0


@dataclass
class Step:
    """What a step did."""

    reward: float
    terminated: bool
    truncated: bool
    early: int = 0
    early_tick: int = 0
    takes: list[Level] = field(default_factory=list)
    maker: int = 0
    forced: list[Level] = field(default_factory=list)
    funding: float = 0.0


class Market:
    """The events of one instrument and the decision rows laid over them."""

    def __init__(self, books: Sequence[BookRow], trades: Sequence[TradeRow], config: TapeConfig) -> None:
        self.trades = [(round(s * SECOND), tick, lots, {"A": SELL, "B": BUY, "N": 0}[a]) for s, tick, lots, a in trades]
        self.books: list[Book] = []
        for seconds, bids, asks in books:
            book = Book(round(seconds * SECOND), {BUY: list(bids)[: config.levels], SELL: list(asks)[: config.levels]})
            if book.tradable and book.sides[BUY][0][0] >= book.sides[SELL][0][0]:
                continue
            if self.books and self.books[-1].stamp == book.stamp:
                self.books.pop()
            self.books.append(book)
        self.age = duration_ns(config.data_latency)
        self.delay = self.age + duration_ns(config.latency)
        self.known = config.execution == "known"
        self.rows: list[tuple[int, int]] = []
        self.segments: list[tuple[int, int]] = []
        self._lay_clock(config)

    def _lay_clock(self, config: TapeConfig) -> None:
        """Rows (stamp up to which data are known, stamp of the execution book or NEVER) of every segment."""
        stretch: list[int] = []
        stretches = [stretch]
        for book in self.books:
            if book.tradable:
                if stretch and book.stamp - stretch[-1] > duration_ns(config.stale_after):
                    stretch = []
                    stretches.append(stretch)
                stretch.append(book.stamp)
        for stamps in stretches:
            rows: list[tuple[int, int]] = []
            for instant in self._instants(stamps, config):
                arrival = instant + 1 + self.delay
                if rows:
                    busy = rows[-1][0] + self.delay if self.known else rows[-1][1]
                    if rows[-1][1] == NEVER or instant < busy:
                        continue
                if self.known:
                    rows.append((instant + 1, [s for s in stamps if s <= arrival][-1]))
                else:
                    later = [s for s in stamps if s > arrival]
                    rows.append((instant + 1, later[0] if later else NEVER))
            if len(rows) >= 2:
                self.segments.append((len(self.rows), len(self.rows) + len(rows)))
                self.rows += rows

    def _instants(self, stamps: list[int], config: TapeConfig) -> list[int]:
        if (events := event_count(config.every)) is not None:
            return stamps[events - 1 :: events]
        every = duration_ns(config.every)
        instants = [i - self.age for i in range(0, stamps[-1] + self.age + 1, every)] if stamps else []
        return [i for i in instants if i >= stamps[0]]

    def book_before(self, stamp: int) -> int:
        """Index of the last tradable book stamped before."""
        return max(i for i, b in enumerate(self.books) if b.tradable and b.stamp < stamp)

    def book_at(self, stamp: int) -> int:
        """Index of the book with this stamp."""
        return next(i for i, b in enumerate(self.books) if b.stamp == stamp)

    def life(self, index: int, side: int, tick: int) -> tuple[int, int, int]:
        """Name of the uninterrupted display of a price that includes a book."""
        while index > 0 and any(t == tick for t, _ in self.books[index - 1].sides[side]):
            index -= 1
        return side, tick, index


class Trader:
    """One account playing one episode."""

    def __init__(self, market: Market, instrument: Instrument, config: MarketConfig, row: int, last: int) -> None:
        self.market, self.instrument, self.config = market, instrument, config
        self.row, self.last = row, last
        self.value = instrument.tick_value
        self.position, self.cash, self.cost = 0, config.initial_cash, 0.0
        self.order: Working | None = None
        self.taken: dict[tuple[int, int, int], int] = {}
        mid = abs(self.decision_book.mid) or 0.5
        lots = instrument.order_lots
        self.cap = int(config.leverage * config.initial_cash / (mid * self.value * lots)) * lots
        self.worth = config.initial_cash

    @property
    def decision_book(self) -> Book:
        """Book known at the row."""
        return self.market.books[self.market.book_before(self.market.rows[self.row][0])]

    def step(self, action: Sequence[int]) -> Step:
        """One decision, as `docs/market.md` tells it."""
        direction, magnitude, kind, urgency = action
        stamp, reached = self.market.rows[self.row]
        arrival, end = stamp + self.market.delay, self.market.rows[self.row + 1][0]
        joined = max(arrival, reached)
        result = Step(0.0, False, False)

        # Decide, on what is known now.
        known = self.decision_book
        target = (direction - 1) * self._target_lots(magnitude)
        quantity, side = self._difference(target)
        tick = 0
        if quantity:
            best, other = known.sides[side][0][0], known.sides[-side][0][0]
            tick = best + side * (kind == 1 and abs(best - other) >= 2)
        crosses, stays, restarts = bool(quantity) and kind == 2, False, False
        old = self.order
        same = old and quantity and old.side == side and old.kind == kind
        if old and same and (old.target == target or quantity <= old.remaining):
            expired = old.age >= self.config.patience[urgency]
            if expired and urgency == 2:
                crosses = True
            elif not expired or tick == old.tick:
                stays, restarts = True, expired

        # The old order is in the market until this decision arrives.
        traded_early = 0
        if old:
            result.early_tick = old.tick
            result.early, traded_early = self._rest(old, lambda s: stamp <= s <= arrival)

        # Arrive: change the working order, act on the execution book.
        at = self.market.book_at(reached)
        if stays:
            assert old is not None
            old.remaining = min(old.remaining, max(quantity - abs(result.early), 0))
            old.target = target
            old.age = 0 if restarts else old.age
            result.maker, traded = self._rest(old, lambda s: arrival < s < end, closes=True)
            traded += traded_early
        else:
            self.order, traded = None, 0
            if quantity:
                result.takes = self._reach_market(at, side, kind, tick, quantity, crosses, target)
            if self.order:
                result.maker, traded = self._rest(self.order, lambda s: joined < s < end, closes=True)

        # The next row: queue, funding, mark, liquidation.
        self.row += 1
        book = self.decision_book
        if self.order:
            self._age(self.order, book, traded)
            if not self.order.remaining:
                self.order = None
        result.funding = self._pay_funding(stamp, end, book.mid)
        worth = self._equity(book.mid)
        if worth <= self.config.maintenance * abs(self.position) * max(abs(book.mid), 0.5) * self.value:
            result.terminated = True
            index = self.market.book_before(self.market.rows[self.row][0])
            side = -1 if self.position > 0 else 1
            result.forced = self._walk(index, side, abs(self.position), None)
            self._settle(side, result.forced, maker=False)
            worth = self._equity(book.mid)
        result.truncated = self.row == self.last and not result.terminated
        result.reward, self.worth = worth - self.worth, worth
        if result.terminated or result.truncated:
            self.order = None
        return result

    def _target_lots(self, magnitude: int) -> int:
        lots = self.instrument.order_lots
        return max(int(self.config.magnitudes[magnitude] * self.cap / lots + 1e-9) * lots, lots)

    def _difference(self, target: int) -> tuple[int, int]:
        difference = target - self.position
        side = (difference > 0) - (difference < 0)
        closing = min(abs(difference), abs(self.position)) if self.position * difference < 0 else 0
        lots = self.instrument.order_lots
        quantity = closing + (abs(difference) - closing) // lots * lots
        return quantity, side if quantity else 0

    def _reach_market(
        self, at: int, side: int, kind: int, tick: int, quantity: int, crosses: bool, target: int
    ) -> list[Level]:
        book = self.market.books[at]
        limit = None if crosses else tick
        worst = self._reach(at, side, quantity) if crosses else tick
        quantity = self._afford(side, worst, quantity, book.mid)
        takes = self._walk(at, side, quantity, limit)
        for price, lots in takes:
            life = self.market.life(at, -side, price)
            self.taken[life] = self.taken.get(life, 0) + lots
        self._settle(side, takes, maker=False)
        left = quantity - sum(lots for _, lots in takes)
        if left and not crosses:
            shown = self._shown(book, side, tick)
            self.order = Working(side, kind, tick, left, math.inf if shown is None else shown, shown or 0, target)
        return takes

    def _reach(self, index: int, side: int, quantity: int) -> int:
        """Price of the last level to which an order without limit walks."""
        worst = passed = 0
        for price, lots in self.market.books[index].sides[-side]:
            if passed >= quantity:
                break
            worst = price
            passed += max(lots - self.taken.get(self.market.life(index, -side, price), 0), 0)
        return worst

    def _walk(self, index: int, side: int, quantity: int, limit: int | None) -> list[Level]:
        """Levels and lots that an order takes from a book, less what it took from them before."""
        takes = []
        for price, lots in self.market.books[index].sides[-side]:
            if limit is not None and side * price > side * limit:
                break
            lots = max(lots - self.taken.get(self.market.life(index, -side, price), 0), 0)
            fill = min(lots, quantity)
            quantity -= fill
            if fill:
                takes.append((price, fill))
        return takes

    def _rest(self, order: Working, inside: Callable[[int], bool], *, closes: bool = False) -> tuple[int, int]:
        """Fill a resting order with the evidence of a window; signed lots, and lots traded at its price.

        `closes`: the window ends at a decision, so that all levels of its last book are known.
        """
        side, price = order.side, order.tick
        at = through = 0
        for stamp, tick, lots, aggressor in self.market.trades:
            if inside(stamp) and aggressor == -side:
                at += lots * (tick == price)
                through += lots * (side * tick < side * price)
        best: tuple[int, int, int] | None = None
        for index, book in enumerate(self.market.books):
            if inside(book.stamp) and book.tradable:
                tick, lots = book.sides[-side][0]
                if best is None or (side * tick, -lots) < (side * best[0], -best[1]):
                    best = (tick, lots, index)
        by_trades, by_best, standing, life = max(at - order.ahead, 0) + through, 0, 0, None
        crossed = best is not None and side * best[0] <= side * price
        if best is not None and crossed:
            life = self.market.life(best[2], -side, best[0])
            by_best = max(best[1] - self.taken.get(life, 0), 0)
            last = max(i for i, b in enumerate(self.market.books) if inside(b.stamp) and b.tradable)
            standing = sum(lots for _, lots in self._walk(last, side, order.remaining, price)) if closes else 0
        fill = int(min(order.remaining, max(by_trades, by_best, standing)))
        displayed = int(min(max(fill - by_trades, 0), max(by_best, standing)))
        if life is not None:
            self.taken[life] = self.taken.get(life, 0) + min(displayed, by_best)
            for tick, lots in self._walk(last, side, displayed - min(displayed, by_best), price) if closes else ():
                deeper = self.market.life(last, -side, tick)
                self.taken[deeper] = self.taken.get(deeper, 0) + lots
        if self.config.through == "full" and (through or crossed):
            fill = order.remaining
        order.ahead = 0 if through or crossed else max(order.ahead - at, 0)
        order.remaining -= fill
        if fill:
            self._settle(side, [(price, fill)], maker=True)
        return side * fill, at

    def _pay_funding(self, stamp: int, end: int, mid: float) -> float:
        """Pay for every due moment from a row up to the next one, on the position held there."""
        every = duration_ns(self.instrument.funding_every)
        due = (end - 1) // every - (stamp - 1) // every
        paid = self.position * mid * self.value * self.instrument.funding_bps * 1e-4 * due
        self.cash -= paid
        return paid

    def _age(self, order: Working, book: Book, traded: int) -> None:
        order.age += 1
        now = self._shown(book, order.side, order.tick)
        if now is None:
            return
        if math.isinf(order.ahead) or self.config.queue == "risk-averse":
            order.ahead = min(order.ahead, now)
        else:
            unit = float(self.instrument.lot_size)
            weigh = (lambda x: x) if self.config.queue == "linear" else (lambda x: math.log1p(x * unit))
            left = max(order.displayed - traded, 0)
            front, back, cancelled = order.ahead, max(left - order.ahead, 0), max(left - now, 0)
            total = weigh(front) + weigh(back)
            from_back = weigh(back) / total if total else 0.0
            gone = (1 - from_back) * cancelled + max(from_back * cancelled - back, 0)
            order.ahead = min(max(math.ceil(front - gone), 0), now)
        order.displayed = now

    @staticmethod
    def _shown(book: Book, side: int, price: int) -> int | None:
        """Lots displayed at a price; None beyond the last level."""
        levels = book.sides[side]
        if side * price < side * levels[-1][0]:
            return None
        return sum(lots for tick, lots in levels if tick == price)

    def _afford(self, side: int, tick: int, quantity: int, mid: float) -> int:
        """Closing lots, and as many opening ones as leave exposure within leverage times equity."""
        closing = min(quantity, abs(self.position)) if side * self.position < 0 else 0
        fee = max(self._fee(side, tick, 1, maker=True), self._fee(side, tick, 1, maker=False))
        cash = self.cash - side * closing * tick * self.value - closing * fee
        left, lot_value = self.position + side * closing, max(abs(mid), 0.5) * self.value
        room = self.config.leverage * (cash + left * mid * self.value) - abs(left) * lot_value
        use = lot_value + self.config.leverage * max(max(side * (tick - mid), 0) * self.value + fee, 0)
        lots = self.instrument.order_lots
        return closing + max(min(math.floor(room / use / lots), (quantity - closing) // lots), 0) * lots

    def _fee(self, side: int, tick: int, lots: int, *, maker: bool) -> float:
        i, config = self.instrument, self.config
        bps, per_lot = (i.maker_bps, i.maker_per_lot) if maker else (i.taker_bps, i.taker_per_lot)
        override = config.maker_bps if maker else config.taker_bps
        if override is not None:
            bps, per_lot = override, 0.0
        bps += i.sell_bps if side < 0 else 0.0
        return bps * 1e-4 * abs(tick) * lots * self.value + per_lot * lots

    def _settle(self, side: int, fills: list[Level], *, maker: bool) -> None:
        lots = sum(n for _, n in fills)
        if not lots:
            return
        money = side * sum(tick * n for tick, n in fills) * self.value
        closed = min(lots, abs(self.position)) if side * self.position < 0 else 0
        self.cost = (self.cost * (1 - closed / abs(self.position)) if self.position else 0.0) + money * (
            1 - closed / lots
        )
        self.position += side * lots
        self.cash -= money + sum(self._fee(side, tick, n, maker=maker) for tick, n in fills)

    def _equity(self, mid: float) -> float:
        return self.cash + self.position * mid * self.value
