"""Where the time of a run goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PHASES: Final = ("collect", "replay", "update", "evaluate")


class PhaseProfile:
    """Seconds spent in each phase, always on.

    Host time: on a GPU, work in flight is charged to the phase that waits for it.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge the time inside to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def shares(self) -> dict[str, float]:
        """Share of each phase in the time charged so far."""
        total = sum(self.seconds.values()) or 1.0
        return {name: seconds / total for name, seconds in self.seconds.items()}
