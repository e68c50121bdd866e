"""The device's name, and whether a requested device is it."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

NAME = "simgpu"
CPU = torch.device("cpu")


@cache
def device() -> torch.device:
    """Return the one device there is. Its name means nothing to PyTorch before `register`."""
    return torch.device(NAME, 0)


def is_ours(wanted: Any) -> bool:
    """Return whether `wanted` (a device, a name or None for "where the inputs are") is the simulated device.

    Raises:
        RuntimeError: for an index other than 0, as CUDA does for a device that does not exist.
    """
    if wanted is None:
        return True
    wanted = torch.device(wanted)
    if wanted.type == NAME and wanted.index not in (None, 0):
        raise RuntimeError(f"{NAME} error: invalid device ordinal {wanted.index}: there is one device, {NAME}:0")
    return bool(wanted.type == NAME)
