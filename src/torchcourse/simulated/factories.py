"""The kernels that create tensors on the device.

They are library kernels and not a dispatch mode: a mode breaks `torch.compile(fullgraph=True)` on CPU tensors too.
PyTorch builds the other factories (zeros, randn, arange, tensor, eye, ...) on the first two. Random numbers are drawn
from the CPU's generator, so the same seed gives the same numbers on both devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchcourse.simulated.accelerator import stands_in
from torchcourse.simulated.counting import count_copy
from torchcourse.simulated.device import CPU, is_ours
from torchcourse.simulated.plans import overload
from torchcourse.simulated.tensor import Simulated, values, wrap

OPTIONS = ("dtype", "layout", "memory_format")


def _factory(name: str) -> Callable[..., Simulated]:
    """Return a kernel that lets the CPU make the tensor."""

    def kernel(*args: Any, **kwargs: Any) -> Simulated:
        is_ours(kwargs.get("device"))
        if kwargs.get("pin_memory"):
            raise RuntimeError("Only dense CPU tensors can be pinned")
        options = {option: x for option, x in kwargs.items() if option in OPTIONS}
        return wrap(overload(name)(*args, **options, device=CPU))

    return kernel


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copy between the host and the device, or on it."""
    values(target).copy_(values(source))
    if isinstance(source, Simulated) != isinstance(target, Simulated):
        count_copy(to_device=isinstance(target, Simulated), non_blocking=non_blocking)
    return target


def scalar(t: torch.Tensor) -> Any:
    """Read one element when PyTorch does so below the Python dispatch: `torch.tensor([a[0], a[1]])`."""
    count_copy(to_device=False, non_blocking=False)
    return values(t).item()


def pinned(t: torch.Tensor, _device: Any = None) -> torch.Tensor:
    """Copy a CPU tensor as if into pinned memory while the device is the accelerator; else refuse."""
    if not stands_in():
        raise RuntimeError("Cannot pin memory: this machine has no accelerator")
    return t.clone()


def install(library: Any) -> None:
    """Register the kernels for the device."""
    for name in ("empty.memory_format", "empty_strided", "tril_indices", "triu_indices"):
        library.impl(name, _factory(name), "PrivateUse1")
    # zeros without memory, for forward-mode autograd: the CPU's cannot be held, since kernels would read them
    library.impl("_efficientzerotensor", _factory("zeros"), "PrivateUse1")
    library.impl("_copy_from", copy_from, "PrivateUse1")
    library.impl("_local_scalar_dense", scalar, "PrivateUse1")


def install_pinning(library: Any) -> None:
    """Register the kernel that pins CPU memory; it affects all CPU tensors."""
    library.impl("_pin_memory", pinned, "CPU")
