"""The package's shape: imports point one way, hot code stays import-light, the command line starts fast."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import foxhunt

PACKAGE = Path(__file__).parents[1] / "foxhunt"
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = {
    "cli": 8,
    "bench": 7,
    "evaluate": 6,
    "rl": 5,
    "audit": 5,
    "nn": 4,
    "market": 4,
    "ops": 3,
    "data": 2,
    "presets": 2,
    "config": 1,
    "interface": 0,
    "errors": 0,
}
"""A module may import its own layer's package or lower layers."""

IMPORT_LIGHT = {"torch", "jaxtyping", "foxhunt", *sys.stdlib_module_names}


def imports(module: Path, top_level_only: bool = False) -> set[str]:
    """Dotted names a module imports."""
    tree = ast.parse(module.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def area(dotted: str) -> str:
    """`foxhunt.rl.replay` -> `rl`."""
    return dotted.split(".")[1] if "." in dotted else ""


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_imports_point_down(module: Path) -> None:
    own = module.relative_to(PACKAGE).with_suffix("").parts[0]
    if own not in LAYERS:
        assert own in {"__init__", "__main__"}, f"{own} has no layer; add it to LAYERS"
        return
    for name in imports(module):
        if not name.startswith("foxhunt.") or area(name) not in LAYERS or area(name) == own:
            continue
        assert LAYERS[area(name)] < LAYERS[own], f"{own} imports {name}"


def test_auditor_stands_alone() -> None:
    for module in (PACKAGE / "audit").rglob("*.py"):
        foreign = {name for name in imports(module) if name.startswith("foxhunt") and area(name) != "audit"}
        assert foreign <= {"foxhunt"}, f"{module.name} imports {foreign}"


@pytest.mark.parametrize("folder", ["nn", "ops", "rl", "market"])
def test_hot_code_imports_torch_only(folder: str) -> None:
    code = f"""
import importlib, pkgutil, sys
heavy = {{"polars", "pandas", "numpy.f2py", "gymnasium", "plotly", "tyro", "tensorboard", "databento_dbn"}}
for name in {[m.stem for m in (PACKAGE / folder).glob("*.py") if imports_light(m)]!r}:
    importlib.import_module("foxhunt.{folder}" + ("" if name == "__init__" else "." + name))
loaded = sorted(heavy & set(sys.modules))
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def imports_light(module: Path) -> bool:
    """Whether a module's own top-level imports are torch and the standard library."""
    return {name.split(".")[0] for name in imports(module, top_level_only=True)} <= IMPORT_LIGHT


def test_no_pickle() -> None:
    for module in MODULES:
        names = {name.split(".")[0] for name in imports(module)}
        assert not names & {"pickle", "dill", "cloudpickle", "joblib"}, module


def test_import_is_fast() -> None:
    code = "import time; t = time.perf_counter(); import foxhunt, foxhunt.cli; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(runs) < 0.3


def test_every_public_name_is_there() -> None:
    for name in dir(foxhunt):
        assert getattr(foxhunt, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Tradr'"):
        foxhunt.Tradr  # noqa: B018
