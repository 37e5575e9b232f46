"""Sees raw Triton launches, which pass the dispatcher by."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

Seen = Callable[[str, Tensor], None]


@contextmanager
def watch_launches(seen: Seen) -> Iterator[None]:
    """Report every tensor given to a kernel while the program runs; nothing to do where Triton is not loaded."""
    module = sys.modules.get("triton.runtime.jit")
    kernel: Any = getattr(module, "JITFunction", None)
    if kernel is None:
        yield
        return
    original = kernel.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(getattr(self, "fn", None), "__name__", "kernel")
        for item in (*args, *kwargs.values()):
            if isinstance(item, Tensor):
                seen(f"triton kernel {name}", item)
        return original(self, *args, **kwargs)

    kernel.run = run
    try:
        yield
    finally:
        kernel.run = original
