"""Books from level changes (L2 feeds): every change sets the whole size of one price, and zero removes it.

The builder of order events (`foxhunt.data.book`) does the work, a price level being one order named by its price.
"""

from dataclasses import dataclass, fields

import numpy as np
import polars as pl

from foxhunt.data.book import Action, OrderEvents, build_book
from foxhunt.data.schema import LEVELS, level_columns


@dataclass(frozen=True)
class LevelChanges:
    """Changes of one instrument's levels in the order in which they apply; arrays of one length."""

    ts_event: np.ndarray
    """int64 ns."""
    side: np.ndarray
    """int64: 0 bid, 1 ask."""
    price: np.ndarray
    """int64 in 1e-9 units."""
    size: np.ndarray
    """int64 lots at the price from now on; 0 removes the level."""
    clear: np.ndarray
    """bool: everything known is forgotten; the other fields but the stamp are not looked at."""
    last: np.ndarray
    """bool: the last change of a message; rows are made there only."""

    def take(self, index: np.ndarray) -> "LevelChanges":
        """The changes at some places."""
        return LevelChanges(*(getattr(self, field.name)[index] for field in fields(self)))


def build_depth(changes: LevelChanges) -> pl.DataFrame:
    """Canonical book columns but `instrument` (null), one row a message that changed the ten best levels of a side.

    Order counts are null: such feeds do not tell them. The book is empty from a `clear` to the next changes.
    """
    action = np.where(changes.size > 0, int(Action.REPLACE), int(Action.REMOVE))
    built = build_book(
        OrderEvents(
            ts_event=changes.ts_event,
            action=np.where(changes.clear, int(Action.CLEAR), action),
            # A price names its level: bids and asks of one price stay apart by their sign.
            order=np.where(changes.side == 1, changes.price, ~changes.price),
            side=changes.side,
            price=changes.price,
            size=changes.size,
            last=changes.last,
        )
    )
    counts = [*level_columns("bid_ct", LEVELS), *level_columns("ask_ct", LEVELS)]
    return built.rows.with_columns(pl.lit(None, pl.Int32).alias(name) for name in counts)
