"""The devices that answers are checked on: the CPU always, and one accelerator, real or simulated.

Without CUDA, importing this module registers the simulated accelerator, which must happen before the process runs its
first backward. With `TORCHCOURSE_SIMULATED=off` that happens only when `find_accelerator` is called.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchcourse import simulated

__all__ = ["CPU", "CheckedDevice", "checked_devices", "find_accelerator", "to_device", "use_cuda"]


@dataclass(frozen=True)
class CheckedDevice:
    """A device to check on: its name ("cpu", "cuda", "simulated"), torch's device, a phrase such as "on the CPU"."""

    name: str
    device: torch.device
    words: str


CPU = CheckedDevice("cpu", torch.device("cpu"), "on the CPU")
CUDA = CheckedDevice("cuda", torch.device("cuda", 0), "on the GPU")


def use_cuda() -> bool:
    """Return whether to use CUDA, without initialising it (a later fork would not survive that).

    For that it sets an environment variable of torch's, `PYTORCH_NVML_BASED_CUDA_CHECK`, which stays set.
    `TORCHCOURSE_ACCELERATOR=simulated` says no: a process uses either CUDA or the simulated accelerator.
    """
    if os.environ.get("TORCHCOURSE_ACCELERATOR") == "simulated":
        return False
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    return torch.cuda.is_available()


def find_accelerator(prefer: str = "") -> CheckedDevice:
    """Return the device to check on besides the CPU: CUDA if there is one, unless "simulated" is preferred."""
    if prefer != "simulated" and use_cuda():
        return CUDA
    return CheckedDevice("simulated", simulated.register(), "on a second device (simulated)")


def checked_devices(any_device: bool, prefer: str = "") -> list[CheckedDevice]:
    """Return the devices that an exercise is checked on; see `Exercise.any_device` and `find_accelerator`."""
    return [CPU, find_accelerator(prefer)] if any_device else [CPU]


def to_device(value: Any, device: torch.device) -> Any:
    """Return `value` with every tensor in it on `device`, with the same layout and flags."""
    if isinstance(value, Tensor):
        return value if device.type == "cpu" else _place_tensor(value, device)
    if isinstance(value, dict):
        return {key: to_device(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_device(item, device) for item in value)
    return value


def _place_tensor(tensor: Tensor, device: torch.device) -> Tensor:
    flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    there = flat.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    there = there.conj() if tensor.is_conj() else there
    there = torch._neg_view(there) if tensor.is_neg() else there
    return there.detach().requires_grad_() if tensor.requires_grad else there


if os.environ.get("TORCHCOURSE_SIMULATED") != "off":
    find_accelerator()
