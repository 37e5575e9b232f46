"""Where in the user's code an operation comes from."""

import linecache
import re
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import torch

from foxhunt.audit.transforms import written

_TORCH: Final = str(Path(torch.__file__).parent)
_OWN: Final = str(Path(__file__).parent)
_ENGINE: Final = str(Path(__file__).with_name("engine.py"))
_STDLIB: Final = sysconfig.get_paths()["stdlib"]
_SITE: Final = ("site-packages", "dist-packages")
_BACKWARD_NAME: Final = re.compile(r"(^|[_.])(backward|bwd|bw)($|[_.])")
_TARGET_NAME: Final = re.compile(r"(^|[_.])(target|tg|tgt)($|[_.])")


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of the user's code on the call stack."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The line's text without its indentation."""
        return linecache.getline(self.file, self.line).strip()


def _own_name(frame: Frame) -> str:
    """A function's name with its class, without the functions that it is defined in."""
    return frame.function.rpartition("<locals>.")[2]


@dataclass(frozen=True, slots=True)
class Stack:
    """The user's frames, innermost first, and what torch was doing in between.

    `modules` are the named modules, innermost first, `native` says that the autograd engine ran its own derivative,
    `recomputed` that a checkpoint runs a forward pass again, `function` is the custom autograd function whose
    backward is on the stack, `own` that the auditor itself runs the operation.
    """

    frames: tuple[Frame, ...]
    modules: tuple[str, ...] = ()
    native: bool = False
    in_backward: bool = False
    recomputed: bool = False
    function: type[torch.autograd.Function] | None = None
    own: bool = False

    @property
    def top(self) -> Frame:
        """The innermost line of the user's code."""
        return self.frames[0] if self.frames else Frame("<unknown>", 0, "<unknown>")

    @property
    def key(self) -> str:
        """Names the line, and the module it runs for."""
        return f"{self.top.file}:{self.top.line}:{self.module}"

    @property
    def module(self) -> str:
        """Path of the innermost named module."""
        return self.modules[0] if self.modules else ""

    @property
    def backward(self) -> bool:
        """Whether this is backward code: run by autograd, or hand-written and named so."""
        if self.recomputed:
            return False
        return self.in_backward or any(_BACKWARD_NAME.search(_own_name(frame)) for frame in self.frames)

    @property
    def target(self) -> bool:
        """Whether a function or module on the stack is named after a target network."""
        names = [*self.modules, *(_own_name(frame) for frame in self.frames)]
        return any(names_target(name) for name in names)


def names_target(name: str) -> bool:
    """Whether a function or a module path is named after a target network."""
    return bool(_TARGET_NAME.search(name))


@cache
def is_user_file(filename: str) -> bool:
    """Whether a code object's file is the user's: not torch, not the standard library, not the auditor."""
    if filename.startswith(("<", _TORCH, _OWN)):
        return False
    return not filename.startswith(_STDLIB) or any(part in filename for part in _SITE)


@cache
def _role(code: CodeType) -> str:
    """What a code object means for a stack: user, module call, engine, checkpoint, or nothing."""
    if is_user_file(code.co_filename):
        return "backward" if code.co_name == "backward" else "user"
    if code.co_filename == _ENGINE:
        return "audit"
    if code.co_filename.startswith(_TORCH):
        if code.co_name == "_call_impl":
            return "module"
        if code.co_name == "_engine_run_backward":
            return "engine"
        if code.co_filename.endswith("checkpoint.py") and code.co_name in ("unpack_hook", "recompute_fn", "backward"):
            return "checkpoint"
        if code.co_name == "forward":
            return "layer"
    return ""


def first_argument(frame: FrameType) -> Any:
    """The value of a function's first parameter, None without parameters."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def local_names(frame: FrameType | None, wanted: Frame, holds: Callable[[Any], bool]) -> set[str]:
    """Names of the local variables, in the frame of a line, whose value passes a test."""
    while frame is not None and (frame.f_code.co_filename, frame.f_lineno) != (wanted.file, wanted.line):
        frame = frame.f_back
    return {name for name, value in frame.f_locals.items() if holds(value)} if frame is not None else set()


def walk(frame: FrameType | None, names: dict[int, str]) -> Stack:
    """Read the stack outward from `frame`; `names` names modules by id."""
    frames: list[Frame] = []
    own = False
    modules: list[str] = []
    native, in_backward, recomputed, function, layer = False, False, False, None, None
    while frame is not None:
        role = _role(frame.f_code)
        if role in ("user", "backward"):
            frames.append(Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname))
            if role == "backward" and function is None and not in_backward:
                function = written(getattr(first_argument(frame), "_forward_cls", None))
        elif role == "module" and not in_backward and (path := names.get(id(first_argument(frame)))):
            modules.append(path)
        elif role == "engine" and not in_backward:
            in_backward, native = True, not frames
        elif role == "checkpoint" and not in_backward:
            recomputed = True
        elif role == "layer" and layer is None and not in_backward:
            layer = Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        elif role == "audit":
            own = not frames and layer is None and not native
            break
        frame = frame.f_back
    if not frames and layer is not None:
        # A model made of torch's own modules has no line of the user's; the layer's own is the nearest.
        frames.append(layer)
    return Stack(tuple(frames), tuple(modules), native and not recomputed, in_backward, recomputed, function, own)
