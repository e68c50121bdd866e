"""Observe a second device in lesson 06: the order of events on it, and its memory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from torchcourse import simulated
from torchcourse.checking.call_watch import OperatorMode

__all__ = ["allocated", "events", "name", "print_recorded", "recorded", "second"]

FIGURES = Path(__file__).parents[1] / "data" / "gpu_figures.json"
"""The output of `benchmarks/gpu_figures.py` on a machine with a GPU; missing until somebody runs that."""


def second() -> torch.device:
    """Return the second device: the simulated accelerator if registered, else CUDA, else the CPU itself."""
    if simulated.is_registered():
        return simulated.register()
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def name(device: torch.device) -> str:
    """Return the name of a device for a sentence."""
    if device.type == "cpu":
        return "the CPU"
    return str(torch.get_device_module(device).get_device_name(device))


def allocated(device: torch.device) -> int:
    """Return the bytes that tensors on an accelerator use now."""
    return int(torch.get_device_module(device).memory_allocated(device))


def events(device: torch.device) -> AbstractContextManager[list[str]]:
    """Record the events on `device` in this block, and yield the list, to which the caller may add marks.

    Events are "kernel:<operator>", "copy_to_device", "copy_to_host", and "synchronize" when the host waits.
    """
    return simulated.events() if device.type == simulated.NAME else _seen(device)


@contextlib.contextmanager
def _seen(device: torch.device) -> Iterator[list[str]]:
    with _Operators(device) as watch:
        yield watch.log


class _Operators(OperatorMode):
    """A mode that records the events on a real device. It does not see explicit synchronisations."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kind, self.log = device.type, list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        result = func(*args, **options)
        operator = func.overloadpacket.__name__
        if operator == "_local_scalar_dense":
            self._copied("copy_to_host", waits=True)
        elif operator in ("_to_copy", "copy_"):
            target, source = (result, args[0]) if operator == "_to_copy" else args[:2]
            waits = not (options.get("non_blocking") or (operator == "copy_" and len(args) > 2 and args[2]))
            if target.device.type == self.kind != source.device.type:
                self._copied("copy_to_device", waits)
            elif source.device.type == self.kind != target.device.type:
                self._copied("copy_to_host", waits)
        elif isinstance(result, torch.Tensor) and result.device.type == self.kind and not func.is_view:
            self.log.append(f"kernel:{operator}")
        return result

    def _copied(self, event: str, waits: bool) -> None:
        self.log += [event, "synchronize"] if waits else [event]


def recorded(topic: str, path: Path = FIGURES) -> str:
    """Return the figures recorded on a GPU under `topic` with machine, date and command; "" if there are none."""
    if not path.exists():
        return ""
    kept = json.loads(path.read_text(encoding="utf-8"))
    figures = kept["figures"].get(topic, {})
    lines = [f"recorded on {kept['machine']}, {kept['date']}, by: {kept['command']}"]
    return "\n".join(lines + [f"  {what}: {figure}" for what, figure in figures.items()])


def print_recorded(topic: str, path: Path = FIGURES) -> None:
    """Print the figures recorded on a GPU under `topic`, and nothing if there are none."""
    if lines := recorded(topic, path):
        print(lines)
