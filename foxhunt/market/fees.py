"""Fees and the other money terms of an instrument."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.data.schema import Instrument


class Terms(NamedTuple):
    """What trading an instrument costs, one float64 value an instrument (or an environment, after `take`)."""

    tick_value: Float[Tensor, " n"]
    """Money that one lot gains in one tick."""
    order_lots: Float[Tensor, " n"]
    """Own orders are multiples of this many lots."""
    contract: Float[Tensor, " n"]
    """Contract units in one lot, the unit of the logarithmic queue model."""
    maker_rate: Float[Tensor, " n"]
    """Fee on passive fills as a share of notional."""
    taker_rate: Float[Tensor, " n"]
    sell_rate: Float[Tensor, " n"]
    """Extra tax on sells as a share of notional."""
    maker_per_lot: Float[Tensor, " n"]
    """Fee on passive fills in money for each lot."""
    taker_per_lot: Float[Tensor, " n"]

    def take(self, index: Int[Tensor, " m"]) -> "Terms":
        """Terms of the instruments at `index`."""
        return Terms(*torch.stack(self).index_select(1, index).unbind(0))


def instrument_terms(instruments: Sequence[Instrument], market: MarketConfig, device: torch.device) -> Terms:
    """Terms of instruments; the config's `maker_bps` and `taker_bps` replace an instrument's fee, per-lot included."""
    rows = []
    for i in instruments:
        maker = (i.maker_bps, i.maker_per_lot) if market.maker_bps is None else (market.maker_bps, 0.0)
        taker = (i.taker_bps, i.taker_per_lot) if market.taker_bps is None else (market.taker_bps, 0.0)
        rates = (maker[0] * 1e-4, taker[0] * 1e-4, i.sell_bps * 1e-4, maker[1], taker[1])
        rows.append((i.tick_value, float(i.order_lots), float(i.lot_size), *rates))
    return Terms(*torch.tensor(rows, dtype=torch.float64, device=device).unbind(1))


def maker_fee(terms: Terms, lots: Int[Tensor, " n"], notional: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Money paid for passive fills of signed `lots` worth signed `notional` tick-lots; negative is a rebate."""
    return _fee(terms, terms.maker_rate, terms.maker_per_lot, lots, notional)


def taker_fee(terms: Terms, lots: Int[Tensor, " n"], notional: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Money paid for aggressive fills of signed `lots` worth signed `notional` tick-lots."""
    return _fee(terms, terms.taker_rate, terms.taker_per_lot, lots, notional)


def _fee(terms: Terms, rate: Tensor, per_lot: Tensor, lots: Tensor, notional: Tensor) -> Tensor:
    tax = torch.where(lots < 0, rate + terms.sell_rate, rate)
    return tax * terms.tick_value * notional.abs() + per_lot * lots.abs()
