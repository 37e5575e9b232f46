"""Where every benchmark's figures go."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foxhunt.rl.checkpoint import replace_text


def write_results(out: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV, whole or not at all; folders that are missing are made."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_text(out, text.getvalue())
