"""The internal state vector as a run recorded it while it trained."""

import json
from pathlib import Path

import polars as pl

from foxhunt.nn.isv import Slot


def training_slots(run: Path, until: int) -> pl.DataFrame:
    """Column `step` and one for each slot, by its name in lower case, from the first update up to a step.

    No rows where nothing is recorded. A damaged or missing metrics.jsonl counts as that: a back-test needs it for one
    picture alone.
    """
    names = [slot.name.lower() for slot in Slot]
    rows = []
    try:
        for line in (run / "metrics.jsonl").read_text().splitlines():
            record = json.loads(line)
            if "isv_stability" in record and record["updates"] and record["step"] <= until:
                rows.append({"step": record["step"]} | {name: record[f"isv_{name}"] for name in names})
    except (OSError, ValueError, KeyError, TypeError):
        rows = []
    return pl.DataFrame(rows, schema={"step": pl.Int64} | dict.fromkeys(names, pl.Float64))
