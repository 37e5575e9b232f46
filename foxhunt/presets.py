"""Named starting points for a training run; the command line's flags override them."""

from typing import Final

from foxhunt.config import TrainConfig

PRESETS: Final[dict[str, TrainConfig]] = {
    "default": TrainConfig(),
}
