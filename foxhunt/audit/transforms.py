"""torch.func transforms wrap tensors; storage, identity and values are those of the tensor inside."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def unwrapped(tensor: Tensor) -> Tensor:
    """The tensor inside every wrapper of `torch.func.grad`, `vmap` and their like."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def written(function: Any) -> type[torch.autograd.Function] | None:
    """The custom function that a user wrote, where a transform has generated another around it."""
    for cell in getattr(getattr(function, "setup_context", None), "__closure__", None) or ():
        if isinstance(cell.cell_contents, type) and issubclass(cell.cell_contents, torch.autograd.Function):
            found: type[torch.autograd.Function] = cell.cell_contents
            return found
    return function  # type: ignore[no-any-return]  # a class of torch's own making, or None


@contextmanager
def outside_transforms() -> Iterator[None]:
    """Let the auditor compute on unwrapped tensors while a transform is active."""
    if torch._C._functorch.peek_interpreter_stack() is None:
        yield
        return
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    with temporarily_clear_interpreter_stack():
        yield
