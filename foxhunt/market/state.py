"""What an environment is between two steps, and what it reports of a step."""

from typing import Final, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.market.account import Account
from foxhunt.market.actions import Order
from foxhunt.market.brackets import Bracket


class MarketState(NamedTuple):
    """Everything that changes, one entry an environment."""

    account: Account
    order: Order
    bracket: Bracket
    taken: Int[Tensor, "environments 2*levels+1"]
    """Lots already taken from each displayed level (bids, then asks) of the row's decision book. The last column
    belongs to no level and stays 0."""
    row: Int[Tensor, " environments"]
    last: Int[Tensor, " environments"]
    """Row at which the episode is cut."""
    cap: Int[Tensor, " environments"]
    """Largest position, in lots."""
    worth: Float[Tensor, " environments"]
    """Equity at `row`."""
    done: Bool[Tensor, " environments"]
    """The episode is over; the next step starts another one."""
    episode: Int[Tensor, " environments"]
    """Episodes begun."""

    def tensors(self) -> list[Tensor]:
        """Every tensor, in the order of `STATE_NAMES`."""
        return [*self.account, *self.order, *self.bracket, *self[3:]]

    @classmethod
    def of(cls, tensors: list[Tensor]) -> "MarketState":
        """Rebuild from `tensors`."""
        orders = len(Account._fields)
        brackets = orders + len(Order._fields)
        others = brackets + len(Bracket._fields)
        account, order = Account(*tensors[:orders]), Order(*tensors[orders:brackets])
        return cls(account, order, Bracket(*tensors[brackets:others]), *tensors[others:])


STATE_NAMES: Final = (
    *(f"account.{name}" for name in Account._fields),
    *(f"order.{name}" for name in Order._fields),
    *(f"bracket.{name}" for name in Bracket._fields),
    *MarketState._fields[3:],
)
"""Names of a state's tensors."""


class StepEvents(NamedTuple):
    """All that happened in a step, for ledgers; lots are signed, buys positive. Fresh tensors every step."""

    active: Bool[Tensor, " environments"]
    """False where the step only started a new episode (or the sweep has ended): nothing else in its row counts."""
    row: Int[Tensor, " environments"]
    """Row of the decision; the account fields are at the next row."""
    action: Int[Tensor, "environments 4"]
    """What was done; flat at market where a bracket took over."""
    cap: Int[Tensor, " environments"]
    """Largest position that the decision's risk budget allowed, in lots."""
    bracket_exit: Int[Tensor, " environments"]
    """Index into `brackets.EXITS`: why a bracket took the decision over."""
    target: Int[Tensor, " environments"]
    order_event: Int[Tensor, " environments"]
    """Index into `actions.ORDER_EVENTS`."""
    order_side: Int[Tensor, " environments"]
    """Side of the order wanted by the decision; 0 where it wanted none."""
    order_kind: Int[Tensor, " environments"]
    order_crosses: Bool[Tensor, " environments"]
    order_tick: Int[Tensor, " environments"]
    """Limit price; without meaning for crossing orders."""
    order_lots: Int[Tensor, " environments"]
    """Lots of the order after the check of the account; of a kept order what is left."""
    early_lots: Int[Tensor, " environments"]
    """Maker fill of the order before, while this decision's order was on its way."""
    early_tick: Int[Tensor, " environments"]
    taker_lots: Int[Tensor, "environments levels"]
    """Fills on the execution book, level by level, at `Tape.execution_time`."""
    taker_tick: Int[Tensor, "environments levels"]
    maker_lots: Int[Tensor, " environments"]
    """Fill of the resting order up to the next row."""
    maker_tick: Int[Tensor, " environments"]
    liquidation_lots: Int[Tensor, "environments levels"]
    """Forced fills on the next row's decision book."""
    liquidation_tick: Int[Tensor, "environments levels"]
    early_fee: Float[Tensor, " environments"]
    taker_fee: Float[Tensor, " environments"]
    maker_fee: Float[Tensor, " environments"]
    liquidation_fee: Float[Tensor, " environments"]
    funding: Float[Tensor, " environments"]
    """Funding paid on reaching the next row; negative is received."""
    position: Int[Tensor, " environments"]
    cash: Float[Tensor, " environments"]
    worth: Float[Tensor, " environments"]
    half_ticks: Int[Tensor, " environments"]
    """Mid price at the next row in half ticks."""
