"""What is audited: the program, the tensor, the two ranges and the consumers that someone believes exist."""

import importlib.util
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch.nn import Module

from foxhunt.audit.errors import AuditError


@dataclass(frozen=True)
class Consumer:
    """A consumer that someone believes reads T: its name, and the functions, modules or files where it lives.

    `where` holds function names (`value_head`, `Head.forward`), module paths (`heads.value`), `file.py:function`, or
    `function:variable` for the statement of a function that assigns a variable; a read belongs to the consumers whose
    place is outermost on its call stack. By default the name itself is searched.
    """

    name: str
    where: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Where to look."""
        return self.where or (self.name,)


def consumers(declared: Sequence["Consumer | str | tuple[str, ...]"]) -> tuple[Consumer, ...]:
    """Declared consumers in their full form: a string is a name, a tuple a name and its places."""
    return tuple(
        Consumer(item) if isinstance(item, str) else item if isinstance(item, Consumer) else Consumer(item[0], item[1:])
        for item in declared
    )


@dataclass(frozen=True)
class Spec:
    """One audit.

    `step` is a callable, a module (run in training and in evaluation mode) or a list of callables run one after the
    other, each called with `inputs`. `tensor` says where T is made: `trunk` (output of a submodule), `trunk.h`
    (variable `h` in its forward), `function:variable`, `function()` (what it returns) or `input[0]`; several places
    make a family, the first of which is the one whose producer changes. `models` names the modules that submodule
    paths start from. `gradient` names T's hand-accumulated gradient in the same way. `beside` names tensors that a
    layer reads beside T through weights of their own, W_h h + W_x x for W [h; x]: their size is compared with T's.
    `title` is what the report calls T.
    """

    step: Callable[..., object] | Sequence[Callable[..., object]]
    inputs: Sequence[Any] = ()
    tensor: str | Sequence[str] = ()
    assume: str = ">=0"
    becomes: str = "signed"
    declare: Sequence[Consumer | str | tuple[str, ...]] = ()
    models: Module | Mapping[str, Module] = field(default_factory=dict)
    gradient: str | Sequence[str] = ()
    beside: str | Sequence[str] = ()
    title: str = ""

    @property
    def locators(self) -> tuple[str, ...]:
        """The places where T is made."""
        return (self.tensor,) if isinstance(self.tensor, str) else tuple(self.tensor)

    @property
    def gradients(self) -> tuple[str, ...]:
        """The places where T's gradient is kept."""
        return (self.gradient,) if isinstance(self.gradient, str) else tuple(self.gradient)

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The places of what is read beside T."""
        return (self.beside,) if isinstance(self.beside, str) else tuple(self.beside)

    @property
    def named_models(self) -> dict[str, Module]:
        """Every module by path, from `models` or from `step` where that is a module."""
        roots: dict[str, Module] = {}
        if isinstance(self.models, Module):
            roots[""] = self.models
        elif self.models:
            roots.update(self.models)
        elif isinstance(self.step, Module):
            roots[""] = self.step
        elif isinstance(owner := getattr(self.step, "__self__", None), Module):
            roots[""] = owner
        found: dict[str, Module] = {}
        for root, model in roots.items():
            for path, module in model.named_modules(remove_duplicate=False):
                found[".".join(part for part in (root, path) if part)] = module
        return found


Builder = Callable[[], Spec]
"""Makes the program afresh, so that one run of the audit cannot change the next."""


def load(reference: str, **overrides: Any) -> Builder:
    """A builder from `file.py:function` or from a TOML file; `overrides` replace fields that are not None.

    The function returns a `Spec`, or a tuple of its leading fields (step, inputs, tensor).
    """
    if reference.endswith(".toml"):
        settings = _read_toml(Path(reference))
        reference = settings.pop("function")
        overrides = settings | {name: value for name, value in overrides.items() if value is not None}
    function = _find_function(reference)

    def build() -> Spec:
        made = function()
        spec = made if isinstance(made, Spec) else Spec(*made) if isinstance(made, tuple) else None
        if spec is None:
            raise AuditError(f"{reference} returned {type(made).__name__}; return a Spec or (step, inputs, tensor)")
        return replace(spec, **{name: value for name, value in overrides.items() if value is not None})

    return build


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise AuditError(f"{path}: {error}; give a readable TOML file") from error
    settings = dict(table.get("audit", {}))
    known = {"function", "tensor", "assume", "becomes", "gradient", "beside"}
    if "function" not in settings or settings.keys() - known:
        raise AuditError(f"{path}: [audit] needs function = 'file.py:name' and takes {', '.join(sorted(known))}")
    name, colon, rest = str(settings["function"]).partition(":")
    settings["function"] = f"{path.parent / name}{colon}{rest}"
    if declared := table.get("consumer"):
        settings["declare"] = tuple(Consumer(item["name"], tuple(item.get("where", ()))) for item in declared)
    return settings


def _find_function(reference: str) -> Callable[[], Any]:
    name, _, function = reference.rpartition(":")
    path = Path(name)
    if not name or not path.is_file():
        raise AuditError(f"{reference!r} names no Python file; write file.py:function, or a .toml file")
    module_name = f"_audited_{path.stem}"
    module_spec = importlib.util.spec_from_file_location(module_name, path.resolve())
    if module_spec is None or module_spec.loader is None:
        raise AuditError(f"{path} cannot be imported; give a .py file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        module_spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.resolve().parent))
    if not callable(found := getattr(module, function, None)):
        raise AuditError(f"{path} has no function {function!r}; write file.py:function")
    return found  # type: ignore[no-any-return]  # callable() narrows an Any
