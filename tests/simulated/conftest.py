"""The device is registered before any test of this process runs a backward pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from torchcourse import simulated

simulated.register()


@pytest.fixture
def device() -> torch.device:
    return simulated.register()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts from the same seed and zeroed counters."""
    torch.manual_seed(0)
    simulated.reset_counters()
    yield
