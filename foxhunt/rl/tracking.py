"""What a run leaves behind beside checkpoints: metrics.jsonl, and TensorBoard events where it is installed."""

import json
import os
from pathlib import Path
from typing import Any

from foxhunt.errors import ConfigError


class Metrics:
    """Appends records to RUN/metrics.jsonl. They hold no clock times: equal runs leave equal files."""

    def __init__(self, run: Path, keep_bytes: int = 0, step: int = 0) -> None:
        """Cut what is there to `keep_bytes` and `step`: what a killed run wrote after its checkpoint comes again."""
        self.file = run / "metrics.jsonl"
        try:
            run.mkdir(parents=True, exist_ok=True)
            self.file.touch()
            os.truncate(self.file, keep_bytes)
        except OSError as error:
            raise ConfigError(f"cannot write {self.file} ({error.strerror}); choose another --out") from None
        self.tensorboard = _tensorboard(run, step)

    def write(self, step: int, record: dict[str, Any]) -> None:
        """Append one record."""
        with self.file.open("a") as stream:
            stream.write(json.dumps({"step": step, **record}) + "\n")
        if self.tensorboard:
            for name, value in record.items():
                if value is not None:
                    self.tensorboard.add_scalar(name, value, step)
            self.tensorboard.flush()

    def written_bytes(self) -> int:
        """Length of metrics.jsonl."""
        return self.file.stat().st_size


def _tensorboard(run: Path, step: int) -> Any | None:
    """A TensorBoard writer, None when the package is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(run / "tensorboard", purge_step=step)
