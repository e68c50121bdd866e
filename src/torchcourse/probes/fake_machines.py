"""Pretend to run on other machines: with other accelerators, and another build of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["MACHINES", "pretending"]

KINDS = ("cuda", "mps", "xpu", "mtia")


@dataclass(frozen=True)
class Machine:
    """A machine with `count` accelerators of a `kind`, and a torch that was built for the kind `built` (None: CPU)."""

    built: str | None = None
    kind: str = ""
    count: int = 0

    def count_of(self, kind: str) -> int:
        return self.count if kind == self.kind else 0

    def has(self, device: torch.device) -> bool:
        return device.type in ("cpu", "meta") or (device.index or 0) < self.count_of(device.type)


MACHINES = {
    "a machine without a GPU": Machine("cuda"),
    "a machine without a GPU, torch for the CPU alone": Machine(),
    "a machine with one CUDA GPU": Machine("cuda", "cuda", 1),
    "a machine with two CUDA GPUs": Machine("cuda", "cuda", 2),
    "an Apple laptop": Machine("mps", "mps", 1),
    "a machine with an Intel GPU": Machine("xpu", "xpu", 1),
    "a machine with an MTIA chip": Machine("mtia", "mtia", 1),
}


@contextlib.contextmanager
def pretending(machine: Machine) -> Iterator[None]:
    """Let torch in this block answer questions about accelerators as on `machine`.

    Tensors can be made on its devices, but have no values.
    """
    changed = [(owner, name, getattr(owner, name)) for owner, name, _ in _replacements(machine) if hasattr(owner, name)]
    try:
        for owner, name, answer in _replacements(machine):
            if hasattr(owner, name):
                setattr(owner, name, answer)
        with _Making(machine):
            yield
    finally:
        for owner, name, real in changed:
            setattr(owner, name, real)


def _replacements(machine: Machine) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield (owner, name, function) for what to replace in torch."""
    accelerator = torch.device(machine.built) if machine.built else None
    yield torch._C, "_accelerator_getAccelerator", lambda: accelerator
    yield torch._C, "_accelerator_getDeviceIndex", lambda: 0
    for kind in KINDS:
        module, count = getattr(torch, kind, None), machine.count_of(kind)
        yield module, "is_available", lambda count=count: count > 0
        yield module, "device_count", lambda count=count: count
        yield module, "current_device", lambda: 0
    yield torch.backends.mps, "is_available", lambda: machine.kind == "mps"
    yield torch.backends.mps, "is_built", lambda: machine.built == "mps"
    yield torch.backends.cuda, "is_built", lambda: machine.built == "cuda"


class _Making(TorchFunctionMode):
    """A mode that makes tensors on, or moves them to, the machine's devices, as meta tensors."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.made: list[tuple[Tensor, torch.device]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        options = dict(kwargs or {})
        if func == Tensor.device.__get__:
            return next((device for tensor, device in self.made if tensor is args[0]), func(*args))
        wanted = options.get("device")
        if wanted is None and getattr(func, "__name__", "") == "to" and len(args) > 1:
            wanted = args[1] if isinstance(args[1], str | torch.device) else None
        if wanted is None or torch.device(wanted).type in ("cpu", "meta"):
            return func(*args, **options)
        device = torch.device(wanted)
        if not self.machine.has(device):
            raise RuntimeError(f"{device.type} error: no such device: {device}")
        result = func(args[0], **{**options, "device": "meta"}) if args and isinstance(args[0], Tensor) else func(
            *args, **{**options, "device": "meta"}
        )  # fmt: skip
        self.made.append((result, torch.device(device.type, device.index or 0)))
        return result
