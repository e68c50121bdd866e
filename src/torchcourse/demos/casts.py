"""Autocast on a device: the dtypes that operations return, and the bytes kept for the backward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.demos import devices

__all__ = ["result_dtypes", "saved_bytes", "table"]

OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: F.linear(x, x),
    "conv1d": lambda x: F.conv1d(x[None], x[:, :, None]),
    "relu": lambda x: x.half().relu(),
    "softmax": lambda x: x.half().softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x.half(), (4,)),
    "exp": lambda x: x.half().exp(),
    "sum": lambda x: x.half().sum(),
    "mse_loss": lambda x: F.mse_loss(x.half(), x.half()),
    "cross_entropy": lambda x: F.cross_entropy(x.half(), torch.zeros(4, dtype=torch.int64, device=x.device)),
}
"""Operations that autocast casts down get float32, those that it casts up float16."""


def result_dtypes(device: torch.device) -> dict[str, torch.dtype]:
    """Return the dtype that each operation returns under autocast to float16."""
    x = torch.ones(4, 4, device=device)
    with torch.autocast(device.type, dtype=torch.float16):
        return {name: operation(x).dtype for name, operation in OPERATIONS.items()}


def table(where: Sequence[torch.device] | None = None) -> str:
    """Return a table: a line for each operation, a column for each device (default: the CPU and a second one)."""
    where = list(dict.fromkeys([torch.device("cpu"), devices.second()])) if where is None else where
    columns = [result_dtypes(device) for device in where]
    lines = [["", *(device.type for device in where)]]
    lines += [[name, *(str(c[name]).removeprefix("torch.") for c in columns)] for name in OPERATIONS]
    return "\n".join(f"{first:14}" + "".join(f"{text:10}" for text in rest).rstrip() for first, *rest in lines)


def saved_bytes(model: nn.Module, x: Tensor, dtype: torch.dtype) -> int:
    """Return the bytes that autograd keeps for a model's backward, without its parameters.

    Autocast is on with `dtype`, except for float32.
    """
    parameters = {p.untyped_storage()._cdata for p in model.parameters()}
    storages: dict[int, torch.UntypedStorage] = {}  # held on to, or their places would be used again

    def note(t: Tensor) -> Tensor:
        storages[t.untyped_storage()._cdata] = t.untyped_storage()
        return t

    casting = contextlib.nullcontext() if dtype == torch.float32 else torch.autocast(x.device.type, dtype=dtype)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t), casting:
        model(x).float().mean()
    return sum(storage.nbytes() for place, storage in storages.items() if place not in parameters)
