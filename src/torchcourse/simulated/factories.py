"""The three kernels that give nearly all factories and the copies from the CPU.

As library kernels and not as a dispatch mode: a mode breaks `torch.compile(fullgraph=True)` on CPU tensors too.
"""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.simulated.counting import copied
from torchcourse.simulated.tensor import Simulated, unwrap, wrap


def empty(
    size: Any,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Simulated:
    """Make an uninitialised tensor on the device."""
    return wrap(torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format))


def empty_strided(
    size: Any,
    stride: Any,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Simulated:
    """Make an uninitialised tensor with the given strides on the device."""
    return wrap(torch.empty_strided(size, stride, dtype=dtype))


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copy between the host and the device, or on it."""
    unwrap(target).copy_(unwrap(source))
    if isinstance(source, Simulated) != isinstance(target, Simulated):
        copied("to_device" if isinstance(target, Simulated) else "to_host", non_blocking)
    return target


def install(library: torch.library.Library) -> None:
    """Register the kernels for the device."""
    for name, kernel in {
        "empty.memory_format": empty,
        "empty_strided": empty_strided,
        "_copy_from": copy_from,
    }.items():
        library.impl(name, kernel, "PrivateUse1")
