"""Polars frames of the canonical schema: column types, empty frames, conversion."""

from typing import Final

import polars as pl

from foxhunt.data.schema import BAR_COLUMNS, BOOK_COLUMNS, COLUMNS, QUARANTINE_COLUMNS, Kind

_TYPES: Final[dict[str, pl.DataType]] = {
    "ts_event": pl.Int64(),
    "instrument": pl.String(),
    "side": pl.String(),
    **{name: pl.Int32() for name in BOOK_COLUMNS if "_ct_" in name},
    **{name: pl.Int64() for name in (*BAR_COLUMNS, "price", "size") if name != "instrument"},
}

SCHEMAS: Final[dict[Kind, dict[str, pl.DataType]]] = {
    kind: {name: _TYPES.get(name, pl.Int64()) for name in columns} for kind, columns in COLUMNS.items()
}
"""Column -> type of every kind: Int64 prices, sizes and stamps, Int32 order counts, String instrument and side."""

QUARANTINE_SCHEMA: Final[dict[str, pl.DataType]] = {
    name: pl.Int64() if name in ("row", "ts_event") else pl.String() for name in QUARANTINE_COLUMNS
}


def empty_frame(kind: Kind) -> pl.DataFrame:
    """A frame of this kind without rows."""
    return pl.DataFrame(schema=SCHEMAS[kind])


def empty_quarantine() -> pl.DataFrame:
    """A quarantine ledger without rows."""
    return pl.DataFrame(schema=QUARANTINE_SCHEMA)


def conform(kind: Kind, frame: pl.DataFrame) -> pl.DataFrame:
    """The canonical columns of a frame in order and type; canonical columns it lacks become null."""
    return frame.select(
        (pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name))
        for name, dtype in SCHEMAS[kind].items()
    )
