"""Findings as SARIF 2.1.0, which code hosts and editors show at their lines."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import torch

from foxhunt.audit.report import Report
from foxhunt.audit.rows import Hit, Row
from foxhunt.audit.rules import RULES
from foxhunt.audit.verdict import UNSAFE

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: Report) -> dict[str, Any]:
    """The report as a SARIF log: one result for every rule that applies to a row, `error` where the row is unsafe."""
    used = list(dict.fromkeys(hit.rule for row in report.rows for hit in row.hits))
    driver = {
        "name": "foxhunt audit",
        "informationUri": "https://pypi.org/project/foxhunt/",
        "rules": [_rule(identifier) for identifier in used],
        "properties": {"torch": torch.__version__},
    }
    results = [_result(row, hit, used.index(hit.rule)) for row in report.rows for hit in row.hits]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(identifier: str) -> dict[str, Any]:
    rule = RULES[identifier]
    return {
        "id": identifier,
        "name": "".join(part.capitalize() for part in identifier.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": f"{rule.fix}\nExample: {rule.example}"},
    }


def _result(row: Row, hit: Hit, index: int) -> dict[str, Any]:
    related = [
        {
            "id": number,
            "physicalLocation": _location(site.file, site.line),
            "message": {"text": f"reads it: {site.operation}"},
        }
        for number, site in enumerate(row.sites)
        if (site.file, site.line) != (hit.file, hit.line) and site.line > 0
    ]
    return {
        "ruleId": hit.rule,
        "ruleIndex": index,
        "level": "error" if hit.verdict == UNSAFE else "warning",
        "message": {"text": f"{row.name}: {hit.evidence}"},
        "locations": [{"physicalLocation": _location(hit.file, hit.line, hit.end_line)}] if hit.line > 0 else [],
        "relatedLocations": related,
        "partialFingerprints": {"foxhuntAudit/v1": hit.fingerprint},
        "properties": {"verdict": hit.verdict, "consumer": row.name, "row": row.number},
    }


def _location(file: str, line: int, end_line: int | None = None) -> dict[str, Any]:
    region = {"startLine": line} | ({"endLine": end_line} if end_line and end_line > line else {})
    path = Path(file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {"artifactLocation": {"uri": uri}, "region": region}
