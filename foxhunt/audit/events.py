"""What a traced run leaves behind: reads of T, possible hazards, scales, custom autograd functions."""

from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from foxhunt.audit.frames import Frame, Stack
from foxhunt.audit.memory import Member


@dataclass(slots=True)
class Read:
    """Everything that one line (under one module) does with T; `stacks` gives the phase of every way there, `names`
    the local variables that hold T."""

    key: str
    stack: Stack
    kind: str
    operations: list[str] = field(default_factory=list)
    derivatives: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    stacks: dict[Stack, str] = field(default_factory=dict)
    recomputed: bool = False

    @property
    def frame(self) -> Frame:
        """The innermost line of the user's code."""
        return self.stack.top


@dataclass(slots=True)
class Finding:
    """A rule that applies at a line: its severity under both lenses and what each run measured."""

    rule: str
    stack: Stack
    operation: str
    assume: int = 0
    becomes: int = 0
    margin: float = 0.0
    measured: dict[str, float] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    detail: str = ""
    end_line: int = 0

    @property
    def frame(self) -> Frame:
        """The line where the hazard is."""
        return self.stack.top

    @property
    def mark(self) -> str:
        """Names a sign test, to follow what it decides."""
        return f"{self.frame.file}:{self.frame.line}:{self.operation}"

    @property
    def possible(self) -> bool:
        """Whether abstract interpretation sees the hazard under the new range only."""
        return self.becomes == 2 and self.assume < 2

    @property
    def witnessed(self) -> bool:
        """Whether a run with the new range shows what no run with the assumed one did."""
        before = max((value for run, value in self.measured.items() if run == "assume"), default=0.0)
        return any(value > before + self.margin for run, value in self.measured.items() if run != "assume")


@dataclass(slots=True)
class Scale:
    """RMS of T and of what it is joined with, by run; `other` is what the source calls the other part."""

    stack: Stack
    operation: str
    read: str
    other: str
    measured: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


@dataclass(slots=True)
class FunctionCall:
    """A call of a custom autograd function: its class, its arguments, where T is among them."""

    function: type[torch.autograd.Function]
    arguments: tuple[Any, ...]
    reads: tuple[int, ...]
    makes: bool = False


def backward_code(function: type[torch.autograd.Function]) -> CodeType:
    """The code of a custom function's backward."""
    code: CodeType = function.backward.__code__
    return code


@dataclass(slots=True)
class Trace:
    """All that the runs of one audit saw, merged by place."""

    reads: dict[str, Read] = field(default_factory=dict)
    findings: dict[tuple[str, ...], Finding] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    functions: dict[CodeType, FunctionCall] = field(default_factory=dict)
    """Custom autograd functions by the code of their backward: a class may be made anew at every call."""
    members: list[Member] = field(default_factory=list)
    confirmed: set[str] = field(default_factory=set)
    executed: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    modules_run: set[str] = field(default_factory=set)
    programs: set[tuple[str, ...]] = field(default_factory=set)
    operations: int = 0
    located: int = 0
