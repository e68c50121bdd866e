"""The exercise `autocast_dtype`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind


class _Gpus:
    """GPUs of given compute capabilities, with the functions by which `torch.cuda` describes them."""

    def __init__(self, chips: list[list[int]], now: int) -> None:
        self.chips, self.now = [(major, minor) for major, minor in chips], now

    def of(self, device: Any = None) -> tuple[int, int]:
        index = device if isinstance(device, int) or device is None else torch.device(device).index
        return self.chips[self.now if index is None else index]

    def properties(self, device: Any = None) -> Any:
        major, minor = self.of(device)
        return SimpleNamespace(name="a GPU", major=major, minor=minor, total_memory=2**34, multi_processor_count=64)

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return bool(self.chips) and (including_emulation or self.of()[0] >= 8)

    @contextlib.contextmanager
    def selected(self, device: Any) -> Iterator[None]:
        before = self.now
        self.set_device(device)
        try:
            yield
        finally:
            self.now = before

    def set_device(self, device: Any) -> None:
        index = device if isinstance(device, int) else torch.device(device).index
        self.now = self.now if index is None else index

    def in_place(self) -> contextlib.AbstractContextManager[Any]:
        """Let `torch.cuda` describe these GPUs in this block."""
        return mock.patch.multiple(
            torch.cuda, is_available=lambda: bool(self.chips), device_count=lambda: len(self.chips),
            current_device=lambda: self.now, get_device_capability=self.of, get_device_properties=self.properties,
            is_bf16_supported=self.is_bf16_supported, device=self.selected, set_device=self.set_device,
            get_device_name=lambda _device=None: "a GPU",
        )  # fmt: skip


def probe(answer: Watched, device: str, chips: list[list[int]], current: int = 0) -> dict[str, Any]:
    """Ask for the dtype on a machine with pretended GPUs of these compute capabilities; one is the current device."""
    with _Gpus(chips, current).in_place():
        dtype = answer(torch.device(device))
    return {"returned": dtype if isinstance(dtype, torch.dtype) else kind(dtype)}


def cases(draw: Draw) -> list[Case]:
    return [
        case("a CPU, no GPU beside it", device="cpu", chips=[]),
        case("the CPU of a machine with a GPU", device="cpu", chips=[[9, 0]]),
        case("compute capability 7.5", device="cuda", chips=[[7, 5]]),
        case("compute capability 8.0", device="cuda", chips=[[8, 0]]),
        case("compute capability 8.9", device="cuda:0", chips=[[8, 9]]),
        case("compute capability 9.0", device="cuda", chips=[[9, 0]]),
        case("compute capability 12.0", device="cuda", chips=[[12, 0]]),
        case("compute capability 6.1", device="cuda:0", chips=[[6, 1]]),
        case("the second of two, an older one", device="cuda:1", chips=[[8, 6], [7, draw.pick([0, 5])]]),
        case("two, the second is the current device", device="cuda", chips=[[7, 5], [8, draw.pick([0, 6])]], current=1),
        case("the second of two, a newer one", device="cuda:1", chips=[[7, 5], [draw.pick([8, 9]), 0]]),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    index = torch.device(inputs["device"]).index
    index = inputs.get("current", 0) if index is None else index
    chip = inputs["chips"][index] if inputs["device"] != "cpu" else None
    return {"chip": f", with compute capability {chip[0]}.{chip[1]}" if chip else ""}


EXERCISE = Exercise(
    "autocast_dtype",
    probe,
    cases,
    hints=(
        "Start with what kind of device it is. On which kind does the answer depend on the very chip, and on which is "
        "it always the same?",
        "From which compute capability on do NVIDIA's chips compute in bfloat16 themselves? "
        "`torch.cuda.get_device_capability(device)` gives it as (major, minor).",
        "`torch.cuda.is_bf16_supported()` also counts emulation, and asks the current device. Which argument leaves "
        "the emulation out, and is the current device the one you were given?",
    ),
    any_device=False,
    quotes=quotes,
)
