"""Writes a report whole or not at all."""

import tempfile
from pathlib import Path

from foxhunt.audit.errors import AuditError


def write(path: Path, text: str) -> None:
    """Write through a temporary sibling; raises `AuditError` where the folder does not allow it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)
    except OSError as error:
        raise AuditError(f"{path} cannot be written: {error.strerror}; choose another path") from error
