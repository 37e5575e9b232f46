"""Nested state as two files: tensors in safetensors, everything else in JSON; no pickle, no code."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from foxhunt.errors import CheckpointError

_TENSOR: Final = "$tensor"


def write_state(folder: Path, name: str, state: dict[str, Any]) -> None:
    """Write nested dicts and lists of tensors and JSON values as NAME.safetensors and NAME.json.

    The JSON file holds the SHA-256 of the other, so that `read_state` notices any damage to either.
    """
    tensors: dict[str, torch.Tensor] = {}
    tree = _split(state, "", tensors)
    save_file(tensors, folder / f"{name}.safetensors")
    tensors_digest = _file_digest(folder / f"{name}.safetensors")
    record = {"tensors_sha256": tensors_digest, "state_sha256": _tree_digest(tree), "state": tree}
    (folder / f"{name}.json").write_text(json.dumps(record))


def read_state(folder: Path, name: str) -> dict[str, Any]:
    """What `write_state` wrote; raises `CheckpointError` naming the file that is missing or damaged."""
    tree_file, tensor_file = folder / f"{name}.json", folder / f"{name}.safetensors"
    for file in (tree_file, tensor_file):
        if not file.is_file():
            raise CheckpointError(f"{file} is missing; the checkpoint is incomplete, use another one")
    try:
        record = json.loads(tree_file.read_text())
        tree, digests = record["state"], (record["tensors_sha256"], record["state_sha256"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{tree_file} is damaged; use another checkpoint") from None
    if _tree_digest(tree) != digests[1]:
        raise CheckpointError(f"{tree_file} is damaged (checksum differs); use another checkpoint")
    if _file_digest(tensor_file) != digests[0]:
        raise CheckpointError(f"{tensor_file} is damaged (checksum differs); use another checkpoint")
    try:
        # Copies, aligned as torch allocates: products of tensors that lie elsewhere may round otherwise.
        tensors = {path: tensor.clone() for path, tensor in load_file(tensor_file).items()}
    except SafetensorError as error:
        raise CheckpointError(f"{tensor_file} cannot be read ({error}); use another checkpoint") from None
    state: dict[str, Any] = _join(tree, tensors)
    return state


def _split(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors[path] = value.detach().cpu().contiguous().clone()
        return {_TENSOR: path}
    if isinstance(value, dict):
        return {key: _split(item, f"{path}/{key}", tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_split(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
    return value


def _join(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {key: _join(item, tensors) for key, item in value.items()}
    return [_join(item, tensors) for item in value] if isinstance(value, list) else value


def _tree_digest(tree: Any) -> str:
    return hashlib.sha256(json.dumps(tree).encode()).hexdigest()


def _file_digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
