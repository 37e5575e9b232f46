"""Checkpoints of a run: whole or not at all, checked when read.

RUN/checkpoints/index.json           format, and which folder is `last` and which `best`
RUN/checkpoints/last-000012000/      model.* (network, config, what the task fitted) and training.* (all the rest)
RUN/checkpoints/best-000008000/      model.* only
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from safetensors import SafetensorError

from foxhunt.errors import CheckpointError
from foxhunt.rl.state import read_state, write_state

FORMAT: Final = 1
"""Version of the layout, raised when it changes so that other versions refuse the folder in one line."""

Which = Literal["best", "last"]


def save_checkpoint(
    run: Path, which: Which, step: int, model: dict[str, Any], training: dict[str, Any] | None = None
) -> None:
    """Write a checkpoint and make it the run's `which`; a crash at any moment leaves the one before in force."""
    root = run / "checkpoints"
    folder = root / f"{which}-{step:09d}"
    while folder.exists():  # saved at this step before; that folder stays in force until the index moves
        folder = folder.with_name(folder.name + "a")
    try:
        root.mkdir(parents=True, exist_ok=True)
        index = _read_index(root) if (root / "index.json").exists() else {"format": FORMAT}
        with fresh_folder(folder) as fresh:
            write_state(fresh, "model", model)
            if training is not None:
                write_state(fresh, "training", training)
        replace_text(root / "index.json", json.dumps({**index, which: folder.name}, indent=1))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"cannot write checkpoint {folder}: {error}; free space or choose another --out"
        ) from None
    for old in root.glob(f"{which}-*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def fresh_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder beside `folder` to write into; it takes that name when the block ends without an error."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def checkpoint_folder(run: Path, which: Which) -> Path:
    """Folder of a run's `best` or `last` checkpoint; raises `CheckpointError` when there is none."""
    root = run / "checkpoints"
    if not (root / "index.json").is_file():
        raise CheckpointError(f"{run} is not a run with checkpoints; give a folder written by foxhunt train")
    index = _read_index(root)
    if which not in index:
        known = ", ".join(sorted(index.keys() - {"format"}))
        raise CheckpointError(f"{run} has no {which!r} checkpoint; it has: {known}")
    return root / str(index[which])


def load_model(run: Path, which: Which) -> dict[str, Any]:
    """Model state of a checkpoint."""
    return read_state(checkpoint_folder(run, which), "model")


def load_training(run: Path) -> dict[str, Any]:
    """Training state of the run's last checkpoint."""
    return read_state(checkpoint_folder(run, "last"), "training")


def short_reason(error: Exception, length: int = 160) -> str:
    """The message of an error on one line, cut where it grows into a list of every key."""
    reason = " ".join(str(error).split())
    return reason if len(reason) <= length else f"{reason[:length]} ..."


def replace_text(file: Path, text: str) -> None:
    """Write a text file so that readers see the old or the new one, never half."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(text)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _read_index(root: Path) -> dict[str, Any]:
    try:
        index = json.loads((root / "index.json").read_text())
        version = index["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise CheckpointError(f"{root / 'index.json'} is damaged; restore it or train again") from None
    if version != FORMAT:
        raise CheckpointError(f"{root} has checkpoint format {version}, this version reads {FORMAT}; train again")
    return dict(index)
