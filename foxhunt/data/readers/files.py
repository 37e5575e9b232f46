"""Opening source files: decompression, CSV as text columns, one-line errors for what is missing or damaged."""

import bz2
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar

import polars as pl

from foxhunt.errors import DataError

_OPENERS: Final[dict[str, Callable[..., BinaryIO]]] = {
    ".gz": gzip.open,  # type: ignore[dict-item]  # text modes are not used
    ".bz2": bz2.open,  # type: ignore[dict-item]
    ".xz": lzma.open,  # type: ignore[dict-item]
}
_DAMAGE: Final = (OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
BINARY: Final = ("parquet", "pq", "feather", "arrow", "ipc")
"""Extensions of tables that name and type their own columns."""
COMPRESSED: Final = (*_OPENERS, ".zip")
_T = TypeVar("_T")


class Part(NamedTuple):
    """One table of a source: a file, or a member of a zip archive."""

    name: str
    """The file, for a member as archive.zip/member.csv."""
    data: bytes


def require_file(path: Path) -> None:
    """Raise `DataError` unless the path is a file that may be read."""
    if not path.exists():
        raise DataError(f"{path} does not exist; check the path")
    if not path.is_file():
        raise DataError(f"{path} is not a file")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} may not be read; change its permissions")


def suffix(path: Path) -> str:
    """The extension that tells the content, below any compression: csv for a.csv.gz."""
    name = Path(path.name.lower())
    return (Path(name.stem) if name.suffix in COMPRESSED else name).suffix.lstrip(".")


def load(path: Path) -> list[Part]:
    """The tables of a source, decompressed; a zip yields its members in order of name.

    Raises `DataError` naming a file that is missing, truncated or damaged.
    """
    require_file(path)
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = sorted(i.filename for i in archive.infolist() if not i.is_dir())
                return [Part(f"{path}/{name}", archive.read(name)) for name in names]
        opener = _OPENERS.get(path.suffix.lower())
        if opener is None:
            return [Part(str(path), path.read_bytes())]
        with opener(path, "rb") as stream:
            return [Part(str(path), stream.read())]
    except _DAMAGE as error:
        raise DataError(f"{path} is truncated or damaged ({error}); fetch it again") from error


def head(path: Path, size: int = 4096) -> bytes:
    """The first bytes of a source below any compression; of a zip, of its first member."""
    require_file(path)
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = sorted(i.filename for i in archive.infolist() if not i.is_dir())
                if not names:
                    return b""
                with archive.open(names[0]) as stream:
                    return stream.read(size)
        opener = _OPENERS.get(path.suffix.lower(), Path.open)
        with opener(path, "rb") as stream:
            return bytes(stream.read(size))
    except _DAMAGE as error:
        raise DataError(f"{path} is truncated or damaged ({error}); fetch it again") from error


def header(data: bytes) -> list[str]:
    """Column names in the first line of CSV text."""
    line = data.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").strip()
    return [name.strip().strip('"') for name in line.split(",")]


def csv_frame(part: Part, columns: Sequence[str] | None = None, *, has_header: bool = True) -> pl.DataFrame:
    """CSV as text columns (nothing is lost to type guessing) plus `row`, counted from 1 without the header.

    Raises `DataError` naming the file when it is empty, has ragged lines, or lacks one of `columns`.
    """
    if not part.data.strip():
        raise DataError(f"{part.name} is empty")
    if columns is not None and has_header:
        require_columns(part.name, header(part.data), columns)
    try:
        frame = pl.read_csv(
            io.BytesIO(part.data),
            has_header=has_header,
            columns=list(columns) if columns is not None and has_header else None,
            infer_schema=False,
        )
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise DataError(f"{part.name} is not readable as CSV ({_first_line(error)})") from error
    return frame.with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))


def table_frame(part: Part) -> pl.DataFrame:
    """A CSV, Parquet or Feather table with `row`; CSV columns are text.

    Raises `DataError` naming the file when it is empty, damaged or of another kind.
    """
    kind = suffix(Path(part.name))
    if kind not in BINARY:
        return csv_frame(part)
    reader = pl.read_parquet if kind in ("parquet", "pq") else pl.read_ipc
    frame: pl.DataFrame = _binary(part, kind, reader)
    if not len(frame):
        raise DataError(f"{part.name} has no rows")
    return frame.with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))


def table_columns(part: Part) -> list[str]:
    """Column names of a table, without reading its rows."""
    kind = suffix(Path(part.name))
    if kind not in BINARY:
        return header(part.data)
    return list(_binary(part, kind, pl.read_parquet_schema if kind in ("parquet", "pq") else pl.read_ipc_schema))


def _binary(part: Part, kind: str, reader: Callable[[io.BytesIO], _T]) -> _T:
    """Apply one of polars' readers; raises `DataError` when the table is empty or damaged."""
    if not part.data:
        raise DataError(f"{part.name} is empty")
    try:
        return reader(io.BytesIO(part.data))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{part.name} is not readable as {kind} ({_first_line(error)}); fetch it again") from error


def require_columns(name: str, present: Iterable[str], needed: Iterable[str]) -> None:
    """Raise `DataError` listing the needed columns that a table lacks."""
    present = list(present)
    if missing := [c for c in needed if c not in present]:
        raise DataError(f"{name} lacks column {', '.join(missing)}; it has {', '.join(present[:12])}")


def number(column: str) -> pl.Expr:
    """A text or numeric column as float64; what cannot be parsed becomes null."""
    return pl.col(column).cast(pl.Float64, strict=False).alias(column)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
