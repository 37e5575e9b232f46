"""Hand-made Databento files, so that the reader is tested without market data too."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

WriteDbn = Callable[..., Path]


@pytest.fixture
def write_dbn(tmp_path: Path) -> WriteDbn:
    """Write records as a DBN file: `write_dbn(schema, records, name=..., symbols={17: "ESH4"})`."""
    dbn = pytest.importorskip("databento_dbn")

    def write(
        schema: str, records: Sequence[Any], *, name: str = "file.dbn", symbols: dict[int, str] | None = None
    ) -> Path:
        mappings = [
            SimpleNamespace(
                raw_symbol=symbol,
                intervals=[SimpleNamespace(start_date=date(1970, 1, 1), end_date=date(2100, 1, 1), symbol=str(number))],
            )
            for number, symbol in (symbols or {17: "ESH4"}).items()
        ]
        header = dbn.Metadata(
            dataset="GLBX.MDP3",
            start=0,
            stype_in=dbn.SType.RAW_SYMBOL,
            stype_out=dbn.SType.INSTRUMENT_ID,
            schema=dbn.Schema(schema),
            symbols=list((symbols or {17: "ESH4"}).values()),
            mappings=mappings,
        )
        path = tmp_path / name
        path.write_bytes(header.encode() + b"".join(bytes(record) for record in records))
        return path

    return write
