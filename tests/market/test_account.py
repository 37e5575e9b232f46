"""The account by hand."""

from dataclasses import replace

import torch
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.market.account import Account, apply_fill, closing_lots, must_close
from foxhunt.market.fees import Terms, instrument_terms

from .frames import ONE

MARKET = MarketConfig()


def terms(**changes: object) -> Terms:
    """Terms of one instrument."""
    return instrument_terms([replace(ONE, **changes)], MARKET, torch.device("cpu"))


def lots(*values: int) -> Tensor:
    """int64."""
    return torch.tensor(values)


def money(*values: float) -> Tensor:
    """float64."""
    return torch.tensor(values, dtype=torch.float64)


def test_cost_is_the_average_price_of_what_is_held() -> None:
    """Buy 10 at 100 and 30 at 104: 4120 for 40. Sell 20: half the cost goes. Sell 50: 20 close, 30 open short."""
    account = Account(lots(0), money(10_000), money(0))
    trail = []
    for signed, tick, fee in ((10, 100, 1.0), (30, 104, 1.0), (-20, 110, 2.0), (-50, 90, 0.5)):
        account = apply_fill(account, terms(), lots(signed), lots(signed * tick), money(fee))
        trail.append((int(account.position), float(account.cash), float(account.cost)))
    assert trail == [(10, 8999, 1000), (40, 5878, 4120), (20, 8076, 2060), (-30, 12575.5, -2700)]


def test_closing_lots() -> None:
    """Only what goes against the position closes, and no more than it holds."""
    position, signed = lots(10, 10, -10, -10, 0, 10, 10), lots(5, -5, 5, 25, 5, -25, 0)
    assert closing_lots(position, signed).tolist() == [0, 5, 5, 10, 0, 10, 0]


def test_maintenance_is_exact_for_large_positions() -> None:
    """2**25 + 1 lots at 100 and a maintenance of a quarter: the last lot decides."""
    held = 2**25 + 1
    account = Account(lots(held, held), money(0, 0), money(0, 0))
    worth = money(held * 25, held * 25 + 0.25)
    mids = lots(200, 200)
    assert must_close(account, terms(), mids, worth, 0.25).tolist() == [True, False]


def test_money_per_tick_and_lot() -> None:
    """The ES future: a quarter point a tick, 50 dollars a point."""
    assert float(terms(tick_size="0.25", multiplier=50.0).tick_value) == 12.5
