"""Writing results whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from foxhunt.errors import ConfigError
from foxhunt.rl.checkpoint import replace_text

SUMMARY: Final = "summary.json"
"""The file that tells a back-test's folder from any other."""


def check_output(out: Path, report: Path | None = None) -> None:
    """Refuse places that cannot be written, before the long work starts; raises `ConfigError`."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / SUMMARY).is_file())):
        raise ConfigError(f"{out} exists and is not an earlier back-test; choose another --out")
    for target in (out, report):
        if target is None:
            continue
        parent = next(folder for folder in target.absolute().parents if folder.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise ConfigError(f"cannot write {target}: {parent} is not a folder that can be written; choose another")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out` to write into; it takes the place of `out` when the block ends without an error."""
    fresh, aside = (out.with_name(f".{out.name}.{what}-{os.getpid()}") for what in ("new", "old"))
    try:
        fresh.mkdir(parents=True)
        yield fresh
        if out.exists():
            out.replace(aside)
        fresh.replace(out)
    except OSError as error:
        if aside.exists() and not out.exists():
            aside.replace(out)
        raise ConfigError(f"cannot write {out}: {error.strerror or error}; choose another --out") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def write_text(file: Path, text: str) -> None:
    """Write a text file so that readers see the old or the new one, never half."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, text)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}; choose another place") from error
