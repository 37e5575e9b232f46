"""Plants faults in a program that audits clean, to measure what the auditor finds.

A fault is planted by swapping the code of one function for a copy in which one statement is changed, or one module of
the target network for another; line numbers stay. Nothing on disk is touched.
"""

import ast
import copy
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

from torch import nn

from foxhunt.audit.api import audit_spec
from foxhunt.audit.engine import Progress
from foxhunt.audit.errors import AuditError
from foxhunt.audit.faults import HAND_WRITTEN, WRAPPERS, Edit, apply_by_hand, drop, unmatch, unscale, wrap
from foxhunt.audit.frames import names_target
from foxhunt.audit.report import Report
from foxhunt.audit.rows import Site
from foxhunt.audit.source import functions, statement
from foxhunt.audit.spec import Builder, Spec
from foxhunt.audit.verdict import SAFE


@dataclass(frozen=True)
class Mutant:
    """One planted fault: what, where, and the code that holds it or the module that is swapped."""

    kind: str
    file: str
    line: int
    end_line: int
    function: str
    code: CodeType | None = None
    module: str = ""

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
            _add(made, kind, file, site.function, site.line, wrap(site.names, template))
        for kind, text in HAND_WRITTEN.items():
            if by_hand := plant_by_hand(kind, site, text):
                made.setdefault((kind, file, by_hand.line), by_hand)
    for file in {str(Path(site.file).resolve()) for row in report.rows for site in row.sites}:
        for function in functions(file):
            if function.name.endswith(".backward"):
                for line in range(function.node.lineno, (function.node.end_lineno or 0) + 1):
                    _add(made, "dropped summand", file, function.name, line, drop)
    names = {site.place: site.names for row in report.rows for site in row.sites}
    for operation, place in report.joins:
        file, line = _resolve(place)
        edit = unmatch if operation == "beside" else unscale(names.get(place, ()))
        _add(made, "unscaled concat", file, _holder(file, line), line, edit)
    for module, place in report.producers:
        if names_target(module):
            file, line = _resolve(place)
            first, last, _ = statement(file, line)
            swap = Mutant("swapped target trunk", file, first, last, _holder(file, line), module=module)
            made[swap.kind, module, first] = swap
    return list(made.values())


def sample(planned: Sequence[Mutant], count: int) -> list[Mutant]:
    """So many of the faults, the same ones every time: kinds take turns, and each kind is spread over its places.

    Raises `AuditError` where none are asked for.
    """
    if count < 1:
        raise AuditError(f"{count} faults are too few to plant; ask for 1 or more")
    chosen: list[Mutant] = []
    kinds = list(dict.fromkeys(item.kind for item in planned))
    left = {kind: [item for item in planned if item.kind == kind] for kind in kinds}
    while len(chosen) < min(count, len(planned)):
        turn = len(chosen) // len(kinds)
        due = [kind for kind in kinds if left[kind]][: count - len(chosen)]
        chosen += [left[kind].pop((turn * 7 + kinds.index(kind) * 3) % len(left[kind])) for kind in due]
    return chosen


def plant_by_hand(kind: str, site: Site, text: str) -> Mutant | None:
    """Apply a custom autograd function, its source given, to T where a site reads it; None where that cannot be."""
    made: dict[tuple[str, str, int], Mutant] = {}
    _add(made, kind, str(Path(site.file).resolve()), site.function, site.line, apply_by_hand(site.names, text))
    return next(iter(made.values()), None)


def _resolve(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    return str(Path(file).resolve()), int(line)


def _holder(file: str, line: int) -> str:
    """Name of the innermost function around a line."""
    around = [item for item in functions(file) if item.node.lineno <= line <= (item.node.end_lineno or 0)]
    return around[-1].name if around else ""


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
                    if new is not None and not changed:
                        news = new if isinstance(new, list) else [new]
                        body[index : index + 1] = [ast.fix_missing_locations(item) for item in news]
                        changed = True
    return _find_code(compile(tree, file, "exec"), name) if changed else None


def _find_code(code: CodeType, name: str) -> CodeType | None:
    if code.co_qualname == name:
        return code
    inner = (_find_code(item, name) for item in code.co_consts if isinstance(item, CodeType))
    return next((found for found in inner if found is not None), None)


@contextmanager
def planted(mutant: Mutant, builder: Builder) -> Iterator[Builder]:
    """A builder of the program with the fault in it. The program is built without: what it does to get ready, such as
    training a little, is not what is audited. Code that was swapped in is swapped out at the end."""
    if mutant.code is None:
        yield _swapped(builder, mutant.module)
        return
    code, saved = mutant.code, list[tuple[FunctionType, CodeType]]()

    def restore() -> None:
        while saved:
            holder, old = saved.pop()
            holder.__code__ = old

    def build() -> Spec:
        restore()
        spec = builder()
        for holder in _holders(mutant, code):
            saved.append((holder, holder.__code__))
            holder.__code__ = code
        return spec

    try:
        yield build
    finally:
        restore()


def _holders(mutant: Mutant, code: CodeType) -> list[FunctionType]:
    """The functions whose code the mutant replaces."""
    found = [
        item
        for item in gc.get_objects()
        if type(item) is FunctionType
        and item.__code__.co_qualname == mutant.function
        and item.__code__.co_filename == mutant.file
        and len(item.__code__.co_freevars) == len(code.co_freevars)
    ]
    if not found:
        raise AuditError(f"{mutant.function} in {mutant.file} is not loaded; a mutant needs a module-level function")
    return found


def _swapped(builder: Builder, path: str) -> Builder:
    """The program with a module that ends in a ReLU, as an older program might have, in place of its own."""

    def build() -> Spec:
        spec = builder()
        parent, _, name = path.rpartition(".")
        models = spec.named_models
        setattr(models[parent], name, nn.Sequential(models[path], nn.ReLU()))
        return spec

    return build


def measure(builder: Builder, planned: Sequence[Mutant], progress: Progress | None = None) -> MutationScore:
    """Audit the program once for every mutant."""
    outcome: dict[str, list[Mutant]] = {"found": [], "missed": [], "broken": []}
    for index, mutant in enumerate(planned):
        if progress:
            progress(f"{mutant.kind} at {mutant.function}:{mutant.line}", index, len(planned))
        try:
            with planted(mutant, builder) as faulty:
                report = audit_spec(faulty)
        except AuditError:
            outcome["broken"].append(mutant)
            continue
        outcome["found" if mutant.found_in(report) else "missed"].append(mutant)
    return MutationScore(*(tuple(outcome[name]) for name in ("found", "missed", "broken")))
