"""Errors with the messages of CUDA."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.simulated.device import NAME, device
from torchcourse.simulated.plans import Plan
from torchcourse.simulated.tensor import Simulated


def refuse_mixture(plan: Plan, func: Any, args: Any, kwargs: Any, foreign_tensors: list[torch.Tensor]) -> None:
    """Raise `RuntimeError` if the arguments include tensors of other devices that are not allowed."""
    written = _written_elsewhere(func, args, kwargs)
    if written is not None:
        raise RuntimeError(f"Expected out tensor to have device {device()}, but got {written.device} instead")
    if plan.host or (plan.host_scalars and all(_host_scalar(each) for each in foreign_tensors)):
        return
    refused = (each for each in foreign_tensors if not (plan.host_scalars and _host_scalar(each)))
    stranger = next(refused, foreign_tensors[0])
    message = (
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{device()} and {stranger.device}!"
    )
    if torch.Tag.pointwise not in func.tags:
        name = _argument_name(func, args, kwargs, stranger)
        message += f" (when checking argument for argument {name} in method wrapper_{NAME.upper()}__{plan.name})"
    raise RuntimeError(message)


def refuse_index(target: Any) -> None:
    """Raise `RuntimeError` if a CPU tensor is being indexed by tensors of the device."""
    if not isinstance(target, Simulated):
        raise RuntimeError(
            f"indices should be either on {target.device} or on the same device as the indexed tensor ({target.device})"
        )


def _host_scalar(t: torch.Tensor) -> bool:
    return t.dim() == 0 and t.device.type == "cpu"


def _named(func: Any, args: Any, kwargs: Any) -> list[tuple[Any, Any]]:
    arguments = func._schema.arguments
    named = list(zip(arguments, args, strict=False))
    return named + [(each, kwargs[each.name]) for each in arguments if each.name in kwargs]


def _written_elsewhere(func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    for argument, value in _named(func, args, kwargs):
        info = argument.alias_info
        written = info is not None and info.is_write and isinstance(value, torch.Tensor)
        if written and not isinstance(value, Simulated):
            return value  # type: ignore[no-any-return]
    return None


def _argument_name(func: Any, args: Any, kwargs: Any, stranger: torch.Tensor) -> str:
    for argument, value in _named(func, args, kwargs):
        if value is stranger or (isinstance(value, list | tuple) and any(x is stranger for x in value)):
            return str(argument.name)
    return "tensors"
