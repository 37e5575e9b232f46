"""The reading of source text: statements, code that did not run, rules keyed on an activation's type."""

import ast
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from foxhunt.audit.frames import Frame

_ACTIVATIONS: Final = frozenset({"ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "GELU", "SiLU", "Hardswish", "Softplus"})
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_TEST: Final = re.compile(rf"(isinstance|type)\(.*\b({'|'.join(sorted(_ACTIVATIONS))})\b")
Executed = dict[tuple[str, str], set[int]]
"""Lines that ran, by (file, qualified name)."""


@dataclass(frozen=True)
class Function:
    """A function in a source file, with its qualified name as the interpreter writes it."""

    file: str
    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def frame(self) -> Frame:
        """Its first line."""
        return Frame(self.file, self.node.lineno, self.name)


@cache
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


@cache
def functions(file: str) -> tuple[Function, ...]:
    """Every function of a file; none where it cannot be read."""
    tree = _tree(file)
    return tuple(_functions(file, tree, "")) if tree else ()


def _functions(file: str, node: ast.AST, prefix: str) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            yield Function(file, prefix + child.name, child)
            yield from _functions(file, child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(file, child, f"{prefix}{child.name}.")
        else:
            yield from _functions(file, child, prefix)


@cache
def statement(file: str, line: int) -> tuple[int, int, str]:
    """First and last line and normalised text of the innermost statement at a line (of a compound one, its head)."""
    best: ast.stmt | None = None
    for node in ast.walk(_tree(file) or ast.Module([], [])):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            best = node if best is None or node.lineno >= best.lineno else best
    if best is None:
        text = Frame(file, line, "").source
        return line, line, " ".join(text.split())
    text = ast.unparse(best)
    if isinstance(getattr(best, "body", None), list):
        return best.lineno, best.lineno, text.splitlines()[0]
    return best.lineno, best.end_lineno or best.lineno, " ".join(text.split())


@cache
def assigned(file: str, line: int) -> frozenset[str]:
    """Names that the innermost statement at a line assigns."""
    first, last, _ = statement(file, line)
    return frozenset(
        name.id
        for node in ast.walk(_tree(file) or ast.Module([], []))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        and (node.lineno, node.end_lineno) == (first, last)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    )


def parts(place: str) -> tuple[str, str, str]:
    """File, function and variable of a declared place; empty where it names none."""
    left, colon, right = place.rpartition(":")
    if not colon or left.endswith(".py"):
        return left, right, ""
    file, _, function = left.rpartition(":")
    return file, function, right


def _names(node: ast.AST) -> set[str]:
    found = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    found |= {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
    return found | {item.arg for item in ast.walk(node) if isinstance(item, ast.arg)}


def forget() -> None:
    """Drop what is remembered of source files, which may have been edited since."""
    for remembered in (_tree, functions, statement, assigned, _may_test):
        remembered.cache_clear()
    linecache.checkcache()


def never_run(files: Sequence[str], executed: Executed, variables: set[str], places: set[str]) -> list[Function]:
    """Functions that did not run and name T's variable, or that a declared consumer points to."""
    found = []
    for file in files:
        for function in functions(file):
            declared = any(f".{function.name}".endswith(f".{parts(place)[1]}") for place in places)
            if (file, function.name) not in executed and (declared or variables & _names(function.node)):
                found.append(function)
    return found


def unexecuted(files: Sequence[str], executed: Executed, variables: set[str]) -> list[Frame]:
    """First lines of branches that did not run, in functions that did, and that name T's variable."""
    found = []
    for file in files:
        for function in functions(file):
            lines = executed.get((file, function.name))
            for body in _branches(function.node) if lines else ():
                ran = any(item.lineno <= line <= (item.end_lineno or 0) for item in body for line in lines or ())
                if not ran and any(variables & _names(item) for item in body):
                    found.append(Frame(file, body[0].lineno, function.name))
    return found


def _branches(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        if isinstance(node, ast.If):
            yield node.body
            if node.orelse:
                yield node.orelse


@cache
def _may_test(file: str) -> bool:
    """Whether a file is worth parsing for type tests: it names an activation class beside a test."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return bool(_TEST.search(text))


def type_tests(executed: Executed) -> list[tuple[Frame, str]]:
    """Lines that ran and ask whether a module is one certain activation class, with the class."""
    found = []
    for (file, name), lines in executed.items():
        for function in functions(file) if _may_test(file) else ():
            if function.name != name:
                continue
            for node in ast.walk(function.node):
                tested = _tested_type(node)
                if tested and isinstance(node, ast.expr) and node.lineno in lines:
                    found.append((Frame(file, node.lineno, name), tested))
    return found


def _tested_type(node: ast.AST) -> str:
    """The activation class of `isinstance(x, nn.ReLU)` or `type(x) is nn.ReLU`."""
    asked: ast.AST | None = None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and len(node.args) == 2
    ):
        asked = node.args[1]
    elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call) and isinstance(node.left.func, ast.Name):
        asked = node.comparators[0] if node.left.func.id == "type" else None
    name = asked.attr if isinstance(asked, ast.Attribute) else asked.id if isinstance(asked, ast.Name) else ""
    return name if name in _ACTIVATIONS else ""
