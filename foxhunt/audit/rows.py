"""Rows of the audit: reads of T grouped by consumer, with verdict, evidence and remedy."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from foxhunt.audit.events import Read, Trace
from foxhunt.audit.frames import Frame, Stack
from foxhunt.audit.source import Function, assigned, parts, statement
from foxhunt.audit.spec import Consumer
from foxhunt.audit.verdict import JOINS, SAFE, Judged, scale_ratios, worst


@dataclass(frozen=True)
class Site:
    """One line that belongs to a row."""

    file: str
    line: int
    function: str
    operation: str
    fingerprint: str
    names: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """file:line"""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Hit:
    """A rule that applies to a row."""

    rule: str
    verdict: str
    file: str
    line: int
    end_line: int
    evidence: str
    fingerprint: str


@dataclass(frozen=True)
class Row:
    """One consumer of T."""

    number: int
    name: str
    sites: tuple[Site, ...]
    calls: tuple[str, ...]
    phase: str
    operation: str
    verdict: str
    evidence: str
    mitigation: str
    direct: bool
    declared: bool
    hits: tuple[Hit, ...] = ()
    orphans: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    recomputed: bool = False

    @property
    def place(self) -> str:
        """file:line of the first site; empty for a consumer that was never seen."""
        return self.sites[0].place if self.sites else ""

    @property
    def fingerprint(self) -> str:
        """Identity of the row's content: rules, operations and source text, never line numbers."""
        parts = [self.name, self.verdict, *sorted(site.fingerprint for site in self.sites)]
        return _digest([*parts, *sorted(hit.fingerprint for hit in self.hits)])


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


def shown(file: str) -> str:
    """A path as reports show it: relative to the working folder, or from the package on."""
    path = Path(file)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    for mark in ("site-packages", "dist-packages"):
        if mark in path.parts:
            path = Path(*path.parts[path.parts.index(mark) + 1 :])
    return path.as_posix()


def make_site(frame: Frame, operation: str, rule: str = "read") -> Site:
    """A site with its fingerprint: rule, qualified name, operation and normalised text."""
    text = statement(frame.file, frame.line)[2]
    name = f"{Path(frame.file).name}:{frame.function}"
    return Site(shown(frame.file), frame.line, frame.function, operation, _digest([rule, name, operation, text]))


@dataclass
class _Draft:
    name: str
    declared: bool
    reads: list[Read] = field(default_factory=list)
    stacks: dict[Stack, str] = field(default_factory=dict)
    judged: list[Judged] = field(default_factory=list)
    orphans: list[Function] = field(default_factory=list)
    scales: list[str] = field(default_factory=list)
    executed: bool = False


def build(trace: Trace, judged: Sequence[Judged], declared: Sequence[Consumer], idle: Sequence[Function]) -> list[Row]:
    """Rows in the order declared, then undeclared readers as they appear, then findings that belong to none."""
    drafts = [_Draft(consumer.name, True) for consumer in declared]
    for draft, consumer in zip(drafts, declared, strict=True):
        draft.orphans = [function for function in idle if _holds(consumer, function.frame)]
        draft.executed = any(_holds(consumer, Frame(file, 0, name)) for file, name in trace.executed) or any(
            _leads_to(place, module) for place in consumer.places for module in trace.modules_run
        )
    extra: dict[str, _Draft] = {}
    for read in trace.reads.values():
        for stack, phase in read.stacks.items():
            owners = [drafts[index] for index in _owners(stack, declared)]
            for draft in owners or [extra.setdefault(read.key, _Draft(_reader_name(read), False))]:
                if read not in draft.reads:
                    draft.reads.append(read)
                draft.stacks.setdefault(stack, phase)
    _assign(judged, trace, drafts, declared, extra)
    _note_scales(trace, drafts, declared, extra)
    return [_finish(index + 1, draft) for index, draft in enumerate([*drafts, *extra.values()])]


def _holds(consumer: Consumer, frame: Frame) -> bool:
    return any(_covers(place, frame) for place in consumer.places)


def _covers(place: str, frame: Frame) -> bool:
    """Whether a declared place (`function`, `Class`, `Class.method`, `file.py:function`, `function:variable`) holds a
    frame; a frame without a line is asked about its function only."""
    file, function, variable = parts(place)
    if file and not frame.file.endswith(file):
        return False
    if variable and frame.line and variable not in assigned(frame.file, frame.line):
        return False
    held, wanted = frame.function.split("."), function.split(".")
    return any(held[start : start + len(wanted)] == wanted for start in range(len(held) - len(wanted) + 1))


def _leads_to(place: str, module: str) -> bool:
    """Whether a declared module path is a module or one that holds it."""
    return module == place or module.startswith(f"{place}.")


def _owners(stack: Stack, declared: Sequence[Consumer]) -> list[int]:
    """The consumers whose place is outermost on the stack; module paths are asked after functions.

    Several consumers may share a place: one product can serve many heads. A longer module path is a closer match.
    """
    for frame in reversed(stack.frames):
        if found := [index for index, consumer in enumerate(declared) if _holds(consumer, frame)]:
            return found
    for module in reversed(stack.modules):
        lengths = [
            max((len(place) for place in consumer.places if _leads_to(place, module)), default=0)
            for consumer in declared
        ]
        if longest := max(lengths, default=0):
            return [index for index, length in enumerate(lengths) if length == longest]
    return []


def _reader_name(read: Read) -> str:
    return read.stack.module or read.frame.function.replace(".<locals>", "")


def _assign(
    judged: Sequence[Judged],
    trace: Trace,
    drafts: list[_Draft],
    declared: Sequence[Consumer],
    extra: dict[str, _Draft],
) -> None:
    """Give every finding to the row of its own line, else to the rows of the reads that lead to it."""
    for item in judged:
        reads = [read for read in trace.reads.values() if read.key in item.sources]
        here = [read.key for read in reads if read.frame == item.frame]
        keys = here or list(item.sources)
        owners = {id(draft): draft for key in keys for draft in _holders(key, [*drafts, *extra.values()])}
        if not owners:
            owners = {index: drafts[index] for index in _owners(item.stack, declared)}
        if not owners:
            name = f"{item.frame.function} ({item.rule})"
            owners = {0: extra.setdefault(f"{item.frame.file}:{item.frame.line}:{item.rule}", _Draft(name, False))}
        for draft in owners.values():
            draft.judged.append(item)


def _note_scales(trace: Trace, drafts: list[_Draft], declared: Sequence[Consumer], extra: dict[str, _Draft]) -> None:
    """Say at each row that joins T with something of which size that is, matched or not."""
    for scale in trace.scales.values():
        ratios = scale_ratios(scale)
        owners = [drafts[index] for index in _owners(scale.stack, declared)] or _holders(
            scale.read, list(extra.values())
        )
        if ratios is not None and scale.operation in JOINS:
            before, after = ratios
            said = f"RMS of T over RMS of {scale.other}: {before:.2g} as assumed, {after:.2g} as it becomes"
            for draft in owners:
                draft.scales.append(f"{said} ({shown(scale.stack.top.file)}:{scale.stack.top.line})")


def _holders(key: str, drafts: list[_Draft]) -> list[_Draft]:
    return [draft for draft in drafts if any(read.key == key for read in draft.reads)]


def _finish(number: int, draft: _Draft) -> Row:
    sites: dict[tuple[str, int], Site] = {}
    for read in draft.reads:
        operation = ", ".join(read.operations)
        site = replace(make_site(read.frame, operation), names=tuple(sorted(read.names)))
        key = (site.file, site.line)
        sites[key] = replace(site, operation=f"{sites[key].operation}, {operation}") if key in sites else site
    hits = tuple(_hit(item) for item in draft.judged)
    operations = dict.fromkeys(operation for read in draft.reads for operation in read.operations)
    derivatives = dict.fromkeys(operation for read in draft.reads for operation in read.derivatives)
    said = ", ".join(operations) + (f"; backward: {', '.join(derivatives)}" if derivatives else "")
    phases = dict.fromkeys(draft.stacks.values())
    made = [item for item in draft.judged if not draft.reads or item.rule == "duplicate-producer"]
    for item in made:
        site = make_site(item.frame, item.operation, item.rule)
        sites.setdefault((site.file, site.line), site)
    kinds = {read.kind for read in draft.reads}
    callers = [frame for stack in draft.stacks for frame in stack.frames[1:2]]
    calls = dict.fromkeys(sorted(f"{shown(frame.file)}:{frame.line}" for frame in callers))
    return Row(
        number=number,
        name=draft.name,
        sites=tuple(sites.values()),
        calls=tuple(call for call in calls if call not in {site.place for site in sites.values()}),
        phase=", ".join(phases) or _phase_without_reads(draft),
        operation=said or ", ".join(dict.fromkeys(item.operation for item in made)),
        verdict=worst(item.verdict for item in draft.judged),
        evidence=_evidence(draft, kinds),
        mitigation=" ".join(dict.fromkeys(item.mitigation for item in draft.judged)),
        direct=bool(draft.reads) or any(item.rule == "duplicate-producer" for item in draft.judged),
        declared=draft.declared,
        hits=hits,
        orphans=tuple(f"{function.name} ({shown(function.file)}:{function.node.lineno})" for function in draft.orphans),
        duplicates=tuple(hit.evidence for hit in hits if hit.rule == "duplicate-producer"),
        recomputed=any(read.recomputed for read in draft.reads),
    )


def _phase_without_reads(draft: _Draft) -> str:
    made = [item.stack for item in draft.judged if item.rule == "duplicate-producer"]
    return "target" if any(stack.target for stack in made) else "forward" if made else "indirect"


def _hit(item: Judged) -> Hit:
    first, last, text = statement(item.frame.file, item.frame.line)
    fingerprint = _digest([item.rule, item.frame.function, item.operation, text])
    line = item.frame.line or first
    end = max(item.end_line, last)
    return Hit(item.rule, item.verdict, shown(item.frame.file), line, end, item.evidence, fingerprint)


def _evidence(draft: _Draft, kinds: set[str]) -> str:
    if draft.judged:
        said = (f"{item.evidence} ({shown(item.frame.file)}:{item.frame.line})" for item in draft.judged)
        return "; ".join(dict.fromkeys(said))
    if not draft.reads:
        found = "runs, but reads neither T nor memory shared with it" if draft.executed else "did not run"
    elif kinds == {"gradient"}:
        found = "handles T's gradient only; no operation depends on a sign"
    else:
        found = "every operation on T is defined alike for both signs; no run shows a difference"
    return "; ".join(dict.fromkeys([found, *draft.scales]))


def unsafe(rows: Iterable[Row]) -> list[Row]:
    """Rows that are not safe."""
    return [row for row in rows if row.verdict != SAFE]
