"""One decision of every environment, from the action to the account at the next row. Pure functions of tensors.

The order of things within a step is that of `docs/market.md`: fills while a cancel is on its way, orders reaching the
execution book, fills of resting orders up to the next row, the mark, liquidation.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.interface import Limits
from foxhunt.market.account import Account, affordable_lots, apply_fill, equity, must_close
from foxhunt.market.actions import Intent, Order, Rules, decode
from foxhunt.market.brackets import arm_bracket, check_bracket, close_now, risk_cap
from foxhunt.market.fees import Terms, maker_fee, taker_fee
from foxhunt.market.fills import ANY_PRICE, better_lots, rest, take, window_evidence, within, worst_tick
from foxhunt.market.queue import UNKNOWN, advance_queue, displayed_at
from foxhunt.market.state import MarketState, StepEvents
from foxhunt.market.tape import EARLY, FRESH, KEPT, Tape


class Outcome(NamedTuple):
    """State after a step, before episodes are started anew, and what led there."""

    state: MarketState
    reward: Float[Tensor, " environments"]
    terminated: Bool[Tensor, " environments"]
    truncated: Bool[Tensor, " environments"]
    events: StepEvents


class _Maker(NamedTuple):
    """A fill of resting orders."""

    account: Account
    order: Order
    lots: Tensor
    fee: Tensor
    traded: Tensor
    """Lots traded at the order's price."""


class _Taker(NamedTuple):
    """A walk over a book."""

    account: Account
    lots: Tensor
    tick: Tensor
    fee: Tensor


def advance(
    tape: Tape,
    market: MarketConfig,
    rules: Rules,
    state: MarketState,
    action: Int[Tensor, "environments 4"],
    limits: Limits | None = None,
    reward_unit: Float[Tensor, " environments"] | None = None,
) -> Outcome:
    """Play one decision of every environment; where the episode is over nothing moves.

    Reward is equity at the next row minus equity at this one, in money, with every fill in between. The excursions of
    `limits` are counted in `reward_unit`, which they need.
    """
    row, active = state.row, ~state.done
    terms = rules.terms_of(tape.instrument.index_select(0, row))
    touch = tape.touch.index_select(0, row)
    mid = touch.sum(1)
    cap = risk_cap(state.cap, terms.order_lots.long(), limits)
    bracket_exit = torch.zeros_like(row)
    if limits is not None:
        bracket_exit = check_bracket(state.bracket, mid) * active
        action = close_now(action, bracket_exit > 0)
    intent = decode(action, active, state.account.position, cap, state.order, touch, terms, rules)

    # `taken` is carried from book to book; each carry makes a new tensor, which the fills up to that book then add to.
    early, taken = _fill_on_the_way(tape, market, terms, state)
    taker, order, lots = _reach_market(tape, market, terms, early, intent, taken, row)
    window = torch.where(intent.stays, KEPT, FRESH)
    row = row + active.long()
    maker, taken = _fill_resting(tape, market, terms, taker.account, order, taken, state.row, window, row)
    traded = maker.traded + torch.where(intent.stays, early.traded, 0) if tape.has_early else maker.traded
    order = _age_in_queue(tape, market, terms, maker.order, traded, row)

    half_ticks = tape.touch.index_select(0, row).sum(1)
    account, funding = _pay_funding(tape, terms, maker.account, half_ticks, row, active)
    worth = equity(account, terms, half_ticks)
    terminated = active & must_close(account, terms, half_ticks, worth, market.maintenance)
    forced = _liquidate(tape, terms, account, taken, row, terminated)
    worth = equity(forced.account, terms, half_ticks)
    truncated = active & (row == state.last) & ~terminated
    done = state.done | terminated | truncated
    bracket = state.bracket
    if limits is not None:
        assert reward_unit is not None
        unit = reward_unit / (state.cap * terms.tick_value * 0.5)
        bracket = arm_bracket(bracket, forced.account.position, mid, unit, limits)
    after = state._replace(
        account=forced.account,
        bracket=bracket,
        order=order._replace(remaining=torch.where(done, 0, order.remaining)),
        taken=taken,
        row=row,
        worth=worth,
        done=done,
    )
    events = StepEvents(
        active=active,
        # The state is written in place after the step, and callers reuse their action buffers.
        row=state.row.clone(),
        action=action.clone(),
        cap=cap.clone(),
        bracket_exit=bracket_exit,
        target=intent.target,
        order_event=intent.event,
        order_side=intent.side,
        order_kind=intent.kind,
        order_crosses=intent.crosses,
        order_tick=order.tick,
        order_lots=lots,
        early_lots=early.lots,
        early_tick=state.order.tick.clone(),
        taker_lots=taker.lots,
        taker_tick=taker.tick,
        maker_lots=maker.lots,
        maker_tick=order.tick,
        liquidation_lots=forced.lots,
        liquidation_tick=forced.tick,
        early_fee=early.fee,
        taker_fee=taker.fee,
        maker_fee=maker.fee,
        liquidation_fee=forced.fee,
        funding=funding,
        position=forced.account.position,
        cash=forced.account.cash,
        worth=worth,
        half_ticks=half_ticks,
    )
    return Outcome(after, worth - state.worth, terminated, truncated, events)


def _fill_on_the_way(tape: Tape, market: MarketConfig, terms: Terms, state: MarketState) -> tuple[_Maker, Tensor]:
    """Fills of the working order before this decision's orders arrive, whatever they will do to it.

    Returns the memory of taken lots laid over the execution book too.
    """
    account, order, taken, row = state.account, state.order, state.taken, state.row
    if not tape.has_early:
        nothing = torch.zeros_like(row)
        maker = _Maker(account, order, nothing, torch.zeros_like(state.worth), nothing)
        return maker, _carry(taken, tape.execution_from, row)
    return _fill_resting(tape, market, terms, account, order, taken, row, torch.full_like(row, EARLY), None)


def _reach_market(
    tape: Tape, market: MarketConfig, terms: Terms, early: _Maker, intent: Intent, taken: Tensor, row: Tensor
) -> tuple[_Taker, Order, Tensor]:
    """New orders act on the execution book: what is marketable walks it, the rest of a limit order joins a queue.

    A kept order is smaller by what it filled on the way. Returns the walk, the orders that rest now, and the size of
    every order after the account's check.
    """
    side, stays, order = intent.side, intent.stays, early.order
    tick, size = _side_of_book(tape.execution, row, side > 0)
    own_tick, own_size = _side_of_book(tape.execution, row, side <= 0)
    level = _memory_index(side > 0, tape.levels)

    untaken = (size - taken.gather(1, level)).clamp(min=0)
    limit = torch.where(intent.crosses, ANY_PRICE, side * intent.tick)
    offered = torch.where(within(tick, side, limit), untaken, 0)
    better = better_lots(offered)
    wanted = torch.where(stays, 0, intent.quantity)
    price = torch.where(intent.crosses, worst_tick(tick, better, wanted), intent.tick)
    mid = tick[:, 0] + own_tick[:, 0]
    lots = affordable_lots(early.account, terms, mid, side, price, wanted, market.leverage)
    taker = _settle(terms, early.account, take(offered, better, lots), tick, side, taken, level)

    displayed, reached = displayed_at(own_tick, own_size, side, intent.tick)
    kept = torch.minimum(order.remaining, (intent.quantity - early.lots.abs()).clamp(min=0))
    rest_of_limit = torch.where(intent.crosses, 0, lots - taker.lots.sum(1).abs())
    resting = Order(
        side=torch.where(stays, order.side, side),
        kind=torch.where(stays, order.kind, intent.kind),
        tick=torch.where(stays, order.tick, intent.tick),
        remaining=torch.where(stays, kept, rest_of_limit),
        ahead=torch.where(stays, order.ahead, torch.where(reached, displayed, UNKNOWN)),
        displayed=torch.where(stays, order.displayed, displayed),
        age=torch.where(stays & ~intent.restarts, order.age, 0),
        target=intent.target,
    )
    return taker, resting, torch.where(stays, kept, lots)


def _liquidate(tape: Tape, terms: Terms, account: Account, taken: Tensor, row: Tensor, chosen: Tensor) -> _Taker:
    """Close positions level by level on the decision book; what the displayed levels cannot absorb stays."""
    side = -account.position.sign() * chosen
    tick, size = _side_of_book(tape.decision, row, side > 0)
    level = _memory_index(side > 0, tape.levels)
    untaken = (size - taken.gather(1, level)).clamp(min=0)
    fills = take(untaken, better_lots(untaken), account.position.abs() * chosen)
    return _settle(terms, account, fills, tick, side, taken, level)


def _settle(
    terms: Terms, account: Account, fills: Tensor, tick: Tensor, side: Tensor, taken: Tensor, level: Tensor
) -> _Taker:
    """Book a walk, and add what it took to `taken`."""
    taken.scatter_add_(1, level, fills)
    signed = fills * side.unsqueeze(1)
    lots, notional = signed.sum(1), (signed * tick).sum(1)
    fee = taker_fee(terms, lots, notional)
    account = apply_fill(account, terms, lots, notional, fee)
    return _Taker(account, signed, tick, fee)


def _fill_resting(
    tape: Tape,
    market: MarketConfig,
    terms: Terms,
    account: Account,
    order: Order,
    taken: Tensor,
    row: Tensor,
    window: Tensor,
    end: Tensor | None,
) -> tuple[_Maker, Tensor]:
    """Fill working orders with what their window shows.

    `end` is the row whose decision book ends the window, None for the early window, which no book of the tape ends.
    Returns the memory of taken lots laid over the book after the window too.
    """
    evidence = window_evidence(tape, row, window, order.side, order.tick)
    used = taken.gather(1, evidence.level.unsqueeze(1)).squeeze(1)
    if end is None:
        taken, standing = _carry(taken, tape.execution_from, row), None
    else:
        taken = _carry(taken, tape.decision_from, end)
        level = _memory_index(order.side > 0, tape.levels)
        tick, size = _side_of_book(tape.decision, end, order.side > 0)
        size = torch.where(within(tick, order.side, order.side * order.tick), size, 0)
        standing = (size - taken.gather(1, level)).clamp(min=0).sum(1)
    rested = rest(evidence, order.remaining, order.ahead, used, standing, market.through == "full")
    # A level that is gone by the next book has no place in the memory.
    best = torch.where(evidence.level_next < 2 * tape.levels, rested.best, 0)
    taken.scatter_add_(1, evidence.level_next.unsqueeze(1), best.unsqueeze(1))
    if end is not None:
        untaken = (size - taken.gather(1, level)).clamp(min=0)
        taken.scatter_add_(1, level, take(untaken, better_lots(untaken), rested.deeper))
    lots = rested.fill * order.side
    notional = lots * order.tick
    fee = maker_fee(terms, lots, notional)
    maker = _Maker(
        account=apply_fill(account, terms, lots, notional, fee),
        order=order._replace(remaining=order.remaining - rested.fill, ahead=rested.ahead),
        lots=lots,
        fee=fee,
        traded=evidence.at,
    )
    return maker, taken


def _pay_funding(
    tape: Tape, terms: Terms, account: Account, half_ticks: Tensor, row: Tensor, active: Tensor
) -> tuple[Account, Tensor]:
    """Funding due on the way to the row, paid by the position held there."""
    if tape.funding is None:
        return account, torch.zeros_like(account.cash)
    due = tape.funding.index_select(0, row) * active
    paid = account.position * half_ticks * (terms.tick_value * 0.5) * due
    return account._replace(cash=account.cash - paid), paid


def _age_in_queue(tape: Tape, market: MarketConfig, terms: Terms, order: Order, traded: Tensor, row: Tensor) -> Order:
    """Working orders one step older, and moved forward by what the next decision book no longer displays."""
    tick, size = _side_of_book(tape.decision, row, order.side < 0)
    now, reached = displayed_at(tick, size, order.side, order.tick)
    ahead = advance_queue(market.queue, order.ahead, order.displayed, traded, now, terms.contract)
    return order._replace(
        ahead=torch.where(reached, ahead, order.ahead),
        displayed=torch.where(reached, now, order.displayed),
        age=order.age + 1,
    )


def _side_of_book(book: Tensor, row: Tensor, asks: Tensor) -> tuple[Tensor, Tensor]:
    """Ticks and sizes [environments, levels] of one side of each row's book."""
    levels = book.shape[-1]
    record = book.view(-1, 2 * levels).index_select(0, 2 * row + asks.long())
    return record[:, :levels], record[:, levels:]


def _memory_index(asks: Tensor, levels: int) -> Tensor:
    """Columns of the memory of taken lots that belong to one side of the book."""
    return asks.long().unsqueeze(1) * levels + torch.arange(levels, device=asks.device)


def _carry(taken: Tensor, source: Tensor, row: Tensor) -> Tensor:
    """The memory of taken lots laid over another book, as a new tensor: levels that vanished are forgotten."""
    return taken.gather(1, source.index_select(0, row).long())
