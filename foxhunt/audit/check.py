"""Is a checked-in audit still true? Compares it with a fresh one by content, then by line."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from foxhunt.audit.errors import AuditError
from foxhunt.audit.report import MARK, Report
from foxhunt.audit.rows import Row


def stored(path: Path) -> dict[str, Any]:
    """The machine-readable part of a checked-in report; raises `AuditError` where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise AuditError(f"{path}: {error.strerror}; write it with foxhunt audit SPEC --out {path}") from error
    for line in text.splitlines():
        if line.startswith(MARK):
            content: dict[str, Any] = json.loads(line.removeprefix(MARK).removesuffix(" -->"))
            return content
    raise AuditError(f"{path} was not written by foxhunt audit; write it with foxhunt audit SPEC --out {path}")


def compare(old: dict[str, Any], report: Report) -> list[str]:
    """What a reader of the old report would not know: appeared, gone, changed, judged differently, moved.

    Rows are matched by name, and rows of one name by the source text of their sites.
    """
    messages: list[str] = []
    if (old["assume"], old["becomes"], old["tensor"]) != (report.assume, report.becomes, list(report.tensor)):
        messages.append("the audit asks another question now: tensor or ranges differ")
    left = list(old["rows"])
    unknown = []
    for row in report.rows:
        before = _take(left, row)
        if before is None:
            unknown.append(row)
        else:
            messages += _differences(before, row)
    for row in unknown:
        before = next((item for item in left if item["name"] == row.name), None)
        if before is None:
            messages.append(f"row {row.number} appeared: {row.name} at {row.place or 'no line'} ({row.verdict})")
        else:
            left.remove(before)
            messages += _differences(before, row)
    return messages + [f"row gone: {row['name']} (was at {', '.join(row['places']) or 'no line'})" for row in left]


def _take(left: list[dict[str, Any]], row: Row) -> dict[str, Any] | None:
    """Find and remove the old row that this one continues."""
    named = [item for item in left if item["name"] == row.name]
    sites = {site.fingerprint for site in row.sites}
    best = max(named, key=lambda item: len(sites & set(item["sites"])), default=None)
    declared_alone = len(named) == 1
    if best is None or not (declared_alone or not sites or sites & set(best["sites"])):
        return None
    left.remove(best)
    return best


def _differences(before: dict[str, Any], row: Row) -> list[str]:
    where = f"row {row.number}, {row.name}"
    if before["verdict"] != row.verdict:
        return [f"{where}: {before['verdict']} became {row.verdict}: {row.evidence}"]
    places = {site.fingerprint: site.place for site in row.sites}
    fingerprints = Counter(site.fingerprint for site in row.sites)
    new = fingerprints - Counter(before["sites"])
    old = Counter(before["sites"]) - fingerprints
    messages = [f"{where}: new or edited reader at {places[fingerprint]}" for fingerprint in new]
    if old and not new:
        messages.append(f"{where}: {sum(old.values())} reader(s) gone")
    if Counter(before["hits"]) != Counter(hit.fingerprint for hit in row.hits):
        messages.append(f"{where}: other rules apply: {row.evidence}")
    moved = [f"{a} to {b}" for a, b in zip(before["places"], [s.place for s in row.sites], strict=False) if a != b]
    if moved and not messages:
        messages.append(f"{where}: moved, not changed: {', '.join(moved)}")
    return messages
