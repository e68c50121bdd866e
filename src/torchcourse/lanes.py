"""The devices an answer is checked on, called lanes: the CPU always, and one accelerator, real or simulated.

Whoever runs answers imports this first, so the simulated accelerator is registered here, at once: it has to be before
the process runs its first backward. `TORCHCOURSE_SIMULATED=off` leaves that to who asks for the lane.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchcourse import simulated

__all__ = ["CPU", "Lane", "accelerator_lane", "lanes", "place"]


@dataclass(frozen=True)
class Lane:
    """One device to check on. `name` is "cpu", "cuda" or "simulated"; `words` is what people read."""

    name: str
    device: torch.device
    words: str


CPU = Lane("cpu", torch.device("cpu"), "on the CPU")
CUDA = Lane("cuda", torch.device("cuda", 0), "on the GPU")


def cuda_is_here() -> bool:
    """Whether CUDA is there and wanted, asked without initialising it (a later fork would not survive that).

    `TORCHCOURSE_ACCELERATOR=simulated` says that it is not wanted: one process uses CUDA or the simulated accelerator.
    """
    if os.environ.get("TORCHCOURSE_ACCELERATOR") == "simulated":
        return False
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    return torch.cuda.is_available()


def accelerator_lane(prefer: str = "") -> Lane:
    """The lane beside the CPU: CUDA where there is one, the simulated accelerator elsewhere or where preferred."""
    if prefer != "simulated" and cuda_is_here():
        return CUDA
    return Lane("simulated", simulated.register(), "on a second device (simulated)")


def lanes(any_device: bool, prefer: str = "") -> list[Lane]:
    """The lanes that an exercise is checked on."""
    return [CPU, accelerator_lane(prefer)] if any_device else [CPU]


def place(value: Any, device: torch.device) -> Any:
    """`value` with every tensor in it on `device`, its layout, flags and sharing within one tensor kept."""
    if isinstance(value, Tensor):
        return value if device.type == "cpu" else _place_tensor(value, device)
    if isinstance(value, dict):
        return {key: place(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(place(item, device) for item in value)
    return value


def _place_tensor(tensor: Tensor, device: torch.device) -> Tensor:
    flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    there = flat.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    there = there.conj() if tensor.is_conj() else there
    there = torch._neg_view(there) if tensor.is_neg() else there
    return there.detach().requires_grad_() if tensor.requires_grad else there


if os.environ.get("TORCHCOURSE_SIMULATED") != "off":
    accelerator_lane()
