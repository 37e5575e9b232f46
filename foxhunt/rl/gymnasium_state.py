"""The state of a Gymnasium environment as plain data, without pickle.

Gymnasium has no way to save an environment. Most pure-Python ones keep their whole state in attributes of simple
types and one NumPy generator; those are captured and put back bit for bit. An attribute of any other type (a physics
engine's world, an emulator) makes the environment opaque, which is told, never guessed.
"""

from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from gymnasium import Env, Space
from gymnasium.envs.registration import EnvSpec

_CONSTANT = (Space, EnvSpec, FunctionType, MethodType, ModuleType, type)
"""Types that hold no episode state."""


class OpaqueAttributeError(Exception):
    """An attribute that cannot be captured."""


def capture(environment: Env[Any, Any]) -> list[dict[str, Any]]:
    """Attributes of every wrapper and of the environment itself, outermost first, as tensors and JSON-ready values.

    Raises `OpaqueAttributeError` naming the first attribute whose type cannot be captured.
    """
    layers = []
    for layer in _layers(environment):
        attributes = {}
        for name, value in _stateful(layer):
            try:
                attributes[name] = _encode(value)
            except OpaqueAttributeError as error:
                raise OpaqueAttributeError(f"{type(layer).__name__}.{name} of type {error}") from None
        layers.append(attributes)
    return layers


def restore(environment: Env[Any, Any], state: list[dict[str, Any]]) -> None:
    """Put a captured state into an environment made in the same way."""
    for layer, attributes in zip(_layers(environment), state, strict=True):
        for name in [name for name, _ in _stateful(layer) if name not in attributes]:
            delattr(layer, name)
        vars(layer).update({name: _decode(value) for name, value in attributes.items()})


def _layers(environment: Env[Any, Any]) -> Iterator[Any]:
    while environment is not environment.unwrapped:
        yield environment
        environment = environment.env  # type: ignore[attr-defined]  # every layer but the innermost is a wrapper
    yield environment


def _stateful(layer: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(layer).items():
        if not isinstance(value, (*_CONSTANT, Env)) and name != "_saved_kwargs":
            yield name, value


def _encode(value: Any) -> Any:
    match value:
        case np.ndarray() | np.generic() if value.dtype.kind in "biuf":
            return {"type": "array" if isinstance(value, np.ndarray) else "scalar", "of": torch.tensor(value)}
        case None | bool() | int() | float() | str():
            return value
        case np.random.Generator():
            return {"type": "generator", "of": _encode(value.bit_generator.state)}
        case tuple() | list():
            return {"type": type(value).__name__, "of": [_encode(item) for item in value]}
        case dict() if all(isinstance(key, str) for key in value):
            return {"type": "dict", "of": {key: _encode(item) for key, item in value.items()}}
    raise OpaqueAttributeError(type(value).__name__)


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    content = value["of"]
    match value["type"]:
        case "array":
            return content.numpy().copy()
        case "scalar":
            return content.numpy()[()]
        case "tuple":
            return tuple(_decode(item) for item in content)
        case "list":
            return [_decode(item) for item in content]
        case "generator":
            state = _decode(content)
            bits = getattr(np.random, state["bit_generator"])()
            bits.state = state
            return np.random.Generator(bits)
    return {key: _decode(item) for key, item in content.items()}
