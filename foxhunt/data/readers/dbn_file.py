"""One Databento DBN file: its metadata and its records as a structured array.

A file read here holds records of one type. That lets NumPy view all of them at once instead of making an object of
each, which is what keeps a reader of millions of records fast.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from foxhunt.data.readers.files import require_file
from foxhunt.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from databento_dbn import Metadata

_MAGIC: Final = b"DBN"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_DBZ: Final = b"\x50\x2a\x4d\x18"
_PREFIX: Final = 8
"""Bytes before the metadata: "DBN", the version, the metadata's length."""

_MESSAGES: Final = {
    **dict.fromkeys(("mbp-1", "tbbo"), "MBP1Msg"),
    "mbp-10": "MBP10Msg",
    **dict.fromkeys(("bbo-1s", "bbo-1m"), "BBOMsg"),
    **dict.fromkeys(("cmbp-1", "tcbbo"), "CMBP1Msg"),
    **dict.fromkeys(("cbbo-1s", "cbbo-1m"), "CBBOMsg"),
    "mbo": "MBOMsg",
    "trades": "TradeMsg",
    **dict.fromkeys(("ohlcv-1s", "ohlcv-1m", "ohlcv-1h", "ohlcv-1d"), "OHLCVMsg"),
}
"""Record type of each schema."""
SCHEMAS: Final = tuple(_MESSAGES)
"""Market data schemas that can be imported; `definition` files beside them supply ticks and multipliers."""


@dataclass(frozen=True)
class DbnFile:
    """Decoded content of a file."""

    path: Path
    schema: str
    metadata: "Metadata"
    records: np.ndarray
    """Structured array of the schema's record type; empty for definition files, whose layout differs by version."""
    definitions: list[Any]
    """Instrument definitions of a definition file, upgraded to the newest version."""


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file is DBN, or one of its relatives that are refused with a reason."""
    return start.startswith((_MAGIC, _DBZ)) or any(s in (".dbn", ".dbz", ".frag") for s in path.suffixes)


def open_dbn(path: Path) -> DbnFile:
    """Decode a .dbn or .dbn.zst file of version 1 to 3.

    Raises `DataError` naming the byte offset or record where a truncated or damaged file breaks off, and for legacy
    .dbz files, fragments without a header, mixed files and schemas that are not market data.
    """
    databento_dbn = require_databento()
    require_file(path)
    data = _decompress(path)
    if not data.startswith(_MAGIC):
        raise DataError(
            f"{path} has no DBN header at byte 0 (a .frag fragment, or no DBN at all); fetch the complete .dbn file"
        )
    start = _PREFIX + int.from_bytes(data[4:_PREFIX], "little")
    if len(data) < start:
        raise DataError(f"{path} is truncated at byte {len(data)}, inside its header of {start} bytes; fetch it again")
    decoder = databento_dbn.DBNDecoder()
    try:
        decoder.write(data[:start])
        (metadata,) = decoder.decode()
    except (databento_dbn.DBNError, ValueError) as error:
        raise DataError(f"{path} has a damaged header ({error}); fetch it again") from error
    schema = "mixed" if metadata.schema is None else str(metadata.schema)
    if schema == "definition":
        return DbnFile(path, schema, metadata, np.empty(0), _definitions(path, data, databento_dbn))
    if schema not in SCHEMAS:
        raise DataError(
            f"{path} holds schema {schema}; foxhunt reads {', '.join(SCHEMAS)} (and definition beside them)"
        )
    return DbnFile(path, schema, metadata, _records(path, data, start, schema, metadata.ts_out, databento_dbn), [])


def require_databento() -> Any:
    """The databento_dbn module; raises `MissingExtraError` when it is not installed."""
    try:
        import databento_dbn
        import zstandard  # noqa: F401  # decompression belongs to the same extra
    except ImportError as error:
        raise MissingExtraError(error.name or "databento-dbn", "databento", "reading DBN files") from error
    return databento_dbn


def _decompress(path: Path) -> bytes:
    raw = path.read_bytes()
    if not raw:
        raise DataError(f"{path} is empty")
    if raw.startswith(_DBZ):
        raise DataError(f"{path} is legacy DBZ; convert it to DBN with Databento's dbn tool")
    if not raw.startswith(_ZSTD):
        return raw
    import zstandard

    pieces: list[bytes] = []
    rest = raw
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            pieces.append(frame.decompress(rest))
        except zstandard.ZstdError as error:
            offset = len(raw) - len(rest)
            raise DataError(
                f"{path} is damaged in the zstd frame at byte {offset} ({error}); fetch it again"
            ) from error
        if not frame.eof:
            done = sum(map(len, pieces))
            raise DataError(f"{path} is truncated at byte {len(raw)} ({done} bytes decompressed); fetch it again")
        rest = frame.unused_data
    return b"".join(pieces)


def _records(path: Path, data: bytes, start: int, schema: str, ts_out: bool, databento_dbn: Any) -> np.ndarray:
    message = getattr(databento_dbn, _MESSAGES[schema])
    # The package keeps the record layouts for NumPy under this name; Databento's own client reads them the same way.
    dtype = np.dtype(message._dtypes + ([("_ts_out", "u8")] if ts_out else []))
    body = memoryview(data)[start:]
    if not len(body):
        raise DataError(f"{path} has no records")
    whole, rest = divmod(len(body), dtype.itemsize)
    records = np.frombuffer(body[: whole * dtype.itemsize], dtype)
    # The first byte of a record is its length in words of four bytes; one that differs belongs to another type.
    strangers = np.flatnonzero(records["length"].astype(np.int64) * 4 != dtype.itemsize)
    if len(strangers):
        offset = start + int(strangers[0]) * dtype.itemsize
        raise DataError(
            f"{path}: record {strangers[0] + 1} at byte {offset} is not of schema {schema}; file damaged or mixed"
        )
    if rest:
        offset = start + whole * dtype.itemsize
        raise DataError(f"{path} is truncated: record {whole + 1} at byte {offset} is incomplete; fetch it again")
    return records


def _definitions(path: Path, data: bytes, databento_dbn: Any) -> list[Any]:
    decoder = databento_dbn.DBNDecoder()
    try:
        decoder.write(data)
        messages = decoder.decode()
    except (databento_dbn.DBNError, ValueError) as error:
        raise DataError(f"{path} is damaged ({error}); fetch it again") from error
    if left := len(decoder.buffer()):
        raise DataError(f"{path} is truncated: the last {left} bytes are no complete record; fetch it again")
    return [m for m in messages[1:] if hasattr(m, "min_price_increment")]


def symbols(file: DbnFile) -> pl.Series:
    """The symbol of each record by the file's mappings; the instrument id as text where there is none."""
    records = file.records
    frame = pl.DataFrame(
        {"id": records["instrument_id"].astype(np.int64), "ts": records["ts_event"].astype(np.int64)}
    ).with_row_index("_index")
    spans = _mapping_spans(file.metadata)
    if not len(spans):
        return frame["id"].cast(pl.String).alias("instrument")
    # A record before its mapping's first day (a snapshot's order times) still belongs to the id's earliest symbol.
    joined = frame.sort("ts").join_asof(
        spans.sort("start"), left_on="ts", right_on="start", by="id", strategy="backward", check_sortedness=False
    )
    first = spans.sort("start").group_by("id", maintain_order=True).agg(pl.col("symbol").first().alias("_first"))
    joined = joined.join(first, on="id", how="left", maintain_order="left").sort("_index")
    return joined.select(pl.coalesce("symbol", "_first", pl.col("id").cast(pl.String)).alias("instrument")).to_series()


def _mapping_spans(metadata: "Metadata") -> pl.DataFrame:
    """Instrument id, first stamp and symbol of every mapping in the header."""
    rows: list[tuple[int, int, str]] = []
    by_id = str(metadata.stype_out) == "instrument_id"
    for name, intervals in metadata.mappings.items():
        for interval in intervals:
            number, symbol = (interval["symbol"], name) if by_id else (name, interval["symbol"])
            if number.isdigit():
                midnight = np.datetime64(interval["start_date"], "ns").astype(np.int64)
                rows.append((int(number), int(midnight), symbol))
    return pl.DataFrame(rows, schema={"id": pl.Int64, "start": pl.Int64, "symbol": pl.String}, orient="row")
