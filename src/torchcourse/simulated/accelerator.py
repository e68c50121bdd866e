"""Standing in for `torch.accelerator`, for a limited time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from torchcourse.simulated.counting import COUNTS, synchronized
from torchcourse.simulated.tensor import NAME


def _reset_peak(device: Any = None) -> None:
    COUNTS.peak_bytes = COUNTS.allocated_bytes


REPLACED: dict[str, Callable[..., Any]] = {
    "current_accelerator": lambda check_available=False: torch.device(NAME),
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device_index": lambda: 0,
    "synchronize": lambda device=None: synchronized(),
    "memory_allocated": lambda device=None: COUNTS.allocated_bytes,
    "max_memory_allocated": lambda device=None: COUNTS.peak_bytes,
    "reset_peak_memory_stats": _reset_peak,
    "empty_cache": lambda: None,
}


@contextmanager
def as_accelerator() -> Iterator[torch.device]:
    """Let `torch.accelerator` name the simulated device inside the block; afterwards it is as it was."""
    with patch.multiple(torch.accelerator, **{n: f for n, f in REPLACED.items() if hasattr(torch.accelerator, n)}):
        yield torch.device(NAME, 0)
