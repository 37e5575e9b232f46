"""Plants faults in a program that audits clean, to measure what the auditor finds.

A fault is planted by swapping the code of one function for a copy in which one statement is changed; line numbers
stay. Nothing on disk is touched.
"""

import ast
import copy
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

from foxhunt.audit.api import audit_spec
from foxhunt.audit.engine import Progress
from foxhunt.audit.errors import AuditError
from foxhunt.audit.report import Report
from foxhunt.audit.source import functions, statement
from foxhunt.audit.spec import Builder
from foxhunt.audit.verdict import SAFE

WRAPPERS: Final[dict[str, str]] = {
    "mask": "({h} * ({h} > 0))",
    "relu": "{h}.relu()",
    "clamp": "{h}.clamp(min=1e-6)",
    "logarithm": "({h} + 1e-3).log()",
    "square root": "({h} + 1e-5).sqrt()",
    "power": "({h} ** 0.5)",
    "sum normalisation": "({h} / ({h}.sum(-1, keepdim=True) + 1e-6))",
    "unsigned cast": "({h} * 16).byte().to({h}.dtype)",
    "zero test": "({h} * ({h} != 0))",
}
"""Expressions that take the place of T where a consumer reads it."""


@dataclass(frozen=True)
class Mutant:
    """One planted fault: what, where, and the code that holds it."""

    kind: str
    file: str
    line: int
    end_line: int
    function: str
    code: CodeType

    def found_in(self, report: Report) -> bool:
        """Whether a finding overlaps the changed statement."""
        hits = [hit for row in report.rows for hit in row.hits if hit.verdict != SAFE]
        return any(
            Path(self.file).as_posix().endswith(hit.file) and hit.line <= self.end_line and self.line <= hit.end_line
            for hit in hits
        )


@dataclass(frozen=True)
class MutationScore:
    """Mutants that were found, missed, and those whose program no longer runs."""

    found: tuple[Mutant, ...]
    missed: tuple[Mutant, ...]
    broken: tuple[Mutant, ...]

    @property
    def recall(self) -> float:
        """Share of running mutants that were found at their line."""
        total = len(self.found) + len(self.missed)
        return len(self.found) / total if total else 1.0


def mutants(report: Report) -> list[Mutant]:
    """Every fault that can be planted at the reads of a clean report."""
    made: dict[tuple[str, str, int], Mutant] = {}
    for site in (site for row in report.rows for site in row.sites if site.names):
        file = str(Path(site.file).resolve())
        for kind, template in WRAPPERS.items():
            _add(made, kind, file, site.function, site.line, _wrap(site.names, template))
        _add(made, "unscaled concat", file, site.function, site.line, _unscale(site.names))
    for file in {str(Path(site.file).resolve()) for row in report.rows for site in row.sites}:
        for function in functions(file):
            if function.name.endswith(".backward"):
                for line in range(function.node.lineno, (function.node.end_lineno or 0) + 1):
                    _add(made, "dropped residual", file, function.name, line, _drop)
    return list(made.values())


Edit = Callable[[ast.stmt], ast.stmt | None]
"""Changes a statement; None where there is nothing to change."""


def _add(made: dict[tuple[str, str, int], Mutant], kind: str, file: str, name: str, line: int, edit: Edit) -> None:
    first, last, _ = statement(file, line)
    if (kind, file, first) in made:
        return
    if code := _compile(file, name, first, edit):
        made[kind, file, first] = Mutant(kind, file, first, last, name, code)


def _compile(file: str, name: str, line: int, edit: Edit) -> CodeType | None:
    """The code of a function after one of its statements was edited."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    changed = False
    for node in ast.walk(tree):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for index, old in enumerate(body if isinstance(body, list) else ()):
                if isinstance(old, ast.stmt) and old.lineno == line and isinstance(body, list):
                    new = edit(copy.deepcopy(old))
                    if new is not None:
                        body[index] = ast.fix_missing_locations(new)
                        changed = True
    return _find_code(compile(tree, file, "exec"), name) if changed else None


def _find_code(code: CodeType, name: str) -> CodeType | None:
    if code.co_qualname == name:
        return code
    inner = (_find_code(item, name) for item in code.co_consts if isinstance(item, CodeType))
    return next((found for found in inner if found is not None), None)


class _Replace(ast.NodeTransformer):
    """Puts an expression in the place of every use of some names."""

    def __init__(self, names: Sequence[str], template: str) -> None:
        self.names, self.template, self.count = names, template, 0

    def visit_Name(self, node: ast.Name) -> ast.expr:  # the name that ast calls
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        self.count += 1
        new = ast.parse(self.template.format(h=node.id), mode="eval").body
        for part in ast.walk(new):
            ast.copy_location(part, node)
        return new


def _wrap(names: Sequence[str], template: str) -> Edit:
    def edit(node: ast.stmt) -> ast.stmt | None:
        if isinstance(getattr(node, "body", None), list):
            return None
        replacer = _Replace(names, template)
        new = replacer.visit(node)
        return new if replacer.count and isinstance(new, ast.stmt) else None

    return edit


def _unscale(names: Sequence[str]) -> Edit:
    """Multiply what T is concatenated with by 30."""

    def edit(node: ast.stmt) -> ast.stmt | None:
        for call in ast.walk(node):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "cat"):
                continue
            parts = call.args[0] if call.args else None
            if isinstance(parts, ast.List | ast.Tuple) and any(_is(part, names) for part in parts.elts):
                parts.elts = [part if _is(part, names) else _scaled(part) for part in parts.elts]
                return node
        return None

    return edit


def _is(node: ast.expr, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _scaled(node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.BinOp(node, ast.Mult(), ast.Constant(30.0)), node)


def _drop(node: ast.stmt) -> ast.stmt | None:
    """Drop the last summand of a sum."""
    if isinstance(getattr(node, "body", None), list):
        return None
    for parent in ast.walk(node):
        for name, child in ast.iter_fields(parent):
            if isinstance(child, ast.BinOp) and isinstance(child.op, ast.Add):
                setattr(parent, name, child.left)
                return node
            if isinstance(child, list):
                for index, item in enumerate(child):
                    if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Add):
                        child[index] = item.left
                        return node
    return None


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Swap the mutant's code in, and out again."""
    holders = [
        item
        for item in gc.get_objects()
        if type(item) is FunctionType
        and item.__code__.co_qualname == mutant.function
        and item.__code__.co_filename == mutant.file
        and len(item.__code__.co_freevars) == len(mutant.code.co_freevars)
    ]
    if not holders:
        raise AuditError(f"{mutant.function} in {mutant.file} is not loaded; a mutant needs a module-level function")
    saved = [(holder, holder.__code__) for holder in holders]
    for holder in holders:
        holder.__code__ = mutant.code
    try:
        yield
    finally:
        for holder, code in saved:
            holder.__code__ = code


def measure(builder: Builder, planned: Sequence[Mutant], progress: Progress | None = None) -> MutationScore:
    """Audit the program once for every mutant."""
    outcome: dict[str, list[Mutant]] = {"found": [], "missed": [], "broken": []}
    for index, mutant in enumerate(planned):
        if progress:
            progress(f"{mutant.kind} at {mutant.function}:{mutant.line}", index, len(planned))
        try:
            with planted(mutant):
                report = audit_spec(builder)
        except AuditError:
            outcome["broken"].append(mutant)
            continue
        outcome["found" if mutant.found_in(report) else "missed"].append(mutant)
    return MutationScore(*(tuple(outcome[name]) for name in ("found", "missed", "broken")))
