"""Shared fixtures: where real market data lies, and one thread a test so that parallel runs do not fight."""

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def market_data() -> Path:
    """Folder of real market data: FOXHUNT_DATA, or ../shared/data beside the checkout; skips when absent."""
    folder = Path(os.environ.get("FOXHUNT_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no market data at {folder}; set FOXHUNT_DATA to the folder that holds it")
    return folder
