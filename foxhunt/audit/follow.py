"""Follows T by name: tells the tracer each time a variable, a return value or a module's output becomes T."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import Module

from foxhunt.audit.errors import AuditError
from foxhunt.audit.events import Trace
from foxhunt.audit.frames import Frame, first_argument, is_user_file
from foxhunt.audit.transforms import written

Notice = Callable[[Tensor, "Place"], None]
CallSeen = Callable[[type[torch.autograd.Function], tuple[Any, ...]], None]

_VARIABLE: Final = re.compile(r"(?P<function>[\w.]+):(?P<variable>\w+)")
_RETURN: Final = re.compile(r"(?P<function>[\w.]+)\(\)")
_INPUT: Final = re.compile(r"input\[(?P<index>\d+)\]")


@dataclass(frozen=True)
class Place:
    """Where T is made: an input, a module's output, a variable of a function, or what a function returns."""

    text: str
    kind: str
    primary: bool
    input: int | None = None
    module: str | None = None
    function: str = ""
    variable: str | None = None
    code: CodeType | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, text: str, models: dict[str, Module], kind: str, primary: bool) -> "Place":
        """Read a locator; raises `AuditError` when no such module or form exists."""
        if match := _INPUT.fullmatch(text):
            return cls(text, kind, primary, input=int(match["index"]))
        if match := _VARIABLE.fullmatch(text) or _RETURN.fullmatch(text):
            return cls(text, kind, primary, function=match["function"], variable=match.groupdict().get("variable"))
        if text in models:
            return cls(text, kind, primary, module=text)
        parent, _, variable = text.rpartition(".")
        if parent in models and variable.isidentifier():
            # Instances are told apart by code only: online and target of one class share it, as they should.
            code = getattr(type(models[parent]).forward, "__code__", None)
            return cls(text, kind, primary, variable=variable, code=code)
        known = ", ".join(list(models)[1:6]) or "none: give models"
        raise AuditError(
            f"tensor {text!r} is no submodule ({known}...), nor function:variable, function() or input[0]; name one"
        )

    def matches(self, code: CodeType) -> bool:
        """Whether this place lies in a function."""
        if self.code is not None:
            return code is self.code
        return self._is_named(code.co_qualname)

    def holds(self, frame: Frame) -> bool:
        """Whether a line lies in the function of this place."""
        if self.code is not None:
            return (frame.file, frame.function) == (self.code.co_filename, self.code.co_qualname)
        return self._is_named(frame.function)

    def _is_named(self, function: str) -> bool:
        return bool(self.function) and f".{function}".endswith(f".{self.function}")


@dataclass
class Follower:
    """Watches the interpreter while the program runs; `seen` says which places were found at all."""

    places: Sequence[Place]
    models: dict[str, Module]
    notice: Notice
    called: CallSeen
    trace: Trace
    seen: set[str] = field(default_factory=set)
    _tracers: dict[CodeType, Any] = field(default_factory=dict)
    _importing: bool = False
    _is_watched: dict[CodeType, bool] = field(default_factory=dict)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Install module hooks and the trace function; both go away again."""
        handles = [
            self.models[place.module].register_forward_hook(self._module_hook(place))
            for place in self.places
            if place.module is not None
        ]
        names = {id(module): name for name, module in self.models.items()}
        handles.append(
            torch.nn.modules.module.register_module_forward_pre_hook(
                lambda module, _inputs: self.trace.modules_run.add(names.get(id(module), ""))
            )
        )
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)
            for handle in handles:
                handle.remove()

    def _module_hook(self, place: Place) -> Callable[[Module, Any, Any], None]:
        def hook(_module: Module, _inputs: Any, output: Any) -> None:
            first = output if isinstance(output, Tensor) else next(_tensors(output), None)
            if first is not None:
                self._tell(first, place)

        return hook

    def _tell(self, tensor: Tensor, place: Place) -> None:
        self.seen.add(place.text)
        self.notice(tensor, place)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if self._importing:
            return None
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            # What an import runs is not the program; torch imports its compiler lazily, thousands of functions.
            self._importing = True
            return self._end_import
        if code not in self._tracers:
            self._tracers[code] = self._tracer(code)
        tracer = self._tracers[code]
        if tracer is not None and code.co_name in ("forward", "setup_context"):
            self._custom_call(frame)
        return tracer(frame, _event, _argument) if tracer is not None and self._is_watched[code] else tracer

    def _end_import(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        self._importing = event != "return"
        return self._end_import

    def _tracer(self, code: CodeType) -> Any:
        """The per-line function of a code object: line coverage for the user's, variables where T lives."""
        if not is_user_file(code.co_filename):
            return None
        lines = self.trace.executed.setdefault((code.co_filename, code.co_qualname), set())
        places = [place for place in self.places if place.matches(code)]
        self._is_watched[code] = bool(places)
        if not places:

            def cover(frame: FrameType, _event: str, _argument: Any) -> Any:
                lines.add(frame.f_lineno)
                return cover

            return cover

        def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
            last: dict[str, Tensor] = {}

            def watch(frame: FrameType, event: str, argument: Any) -> Any:
                lines.add(frame.f_lineno)
                for place in places:
                    if place.variable is not None:
                        found = frame.f_locals.get(place.variable)
                    else:
                        found = argument if event == "return" else None
                    if isinstance(found, Tensor) and last.get(place.text) is not found:
                        last[place.text] = found
                        self._tell(found, place)
                return watch

            return watch(frame, "call", None)

        return enter

    def _custom_call(self, frame: FrameType) -> None:
        """Note the arguments of a custom autograd function as they are when it is called."""
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + bool(code.co_flags & 0x04)]
        function = written(getattr(first_argument(frame), "_forward_cls", None))
        if function is None:
            return
        if code.co_name == "setup_context":
            arguments = frame.f_locals.get(names[1], ()) if len(names) > 1 else ()
        else:
            rest = [frame.f_locals.get(name) for name in names[1 : code.co_argcount]]
            extra = frame.f_locals.get(names[-1], ()) if code.co_flags & 0x04 else ()
            arguments = (*rest, *extra)
        self.called(function, tuple(arguments))


def _tensors(found: Any) -> Iterator[Tensor]:
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, dict):
        for item in found.values():
            yield from _tensors(item)
    elif isinstance(found, list | tuple):
        for item in found:
            yield from _tensors(item)
