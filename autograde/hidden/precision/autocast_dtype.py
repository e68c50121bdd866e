"""The exercise `autocast_dtype`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "bfloat16 has the range of float32 and needs no loss scaling, so it is the choice wherever the hardware "
    "computes with it. GPUs before capability 8.0 only emulate it, which is slow; there it is float16 with a "
    "scaler."
)
"""Why the reference is written as it is."""
REQUIRED = ("float16-on-cpu", "trusts-emulation")
"""The mistakes that a check must always be able to name."""


def right(device: torch.device) -> torch.dtype:
    return (
        torch.bfloat16 if device.type == "cpu" or torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16
    )


def float16_on_cpu(device: torch.device) -> torch.dtype:
    return torch.float16 if device.type == "cpu" else right(device)


def trusts_emulation(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cpu" or torch.cuda.is_bf16_supported() else torch.float16


def asks_the_current_device(device: torch.device) -> torch.dtype:
    return (
        torch.bfloat16
        if device.type == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
        else torch.float16
    )


def asks_the_first_device(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cpu" or torch.cuda.get_device_capability(0) >= (8, 0) else torch.float16


def takes_no_index_for_the_first(device: torch.device) -> torch.dtype:
    return right(device if device.type == "cpu" else torch.device("cuda", device.index or 0))


def compares_whole_devices(device: torch.device) -> torch.dtype:
    return right(device) if device == torch.device("cuda") else torch.bfloat16


def autocasts_default(device: torch.device) -> torch.dtype:
    return torch.get_autocast_dtype(device.type)


def above_8_0(device: torch.device) -> torch.dtype:
    return (
        torch.bfloat16 if device.type == "cpu" or torch.cuda.get_device_capability(device) > (8, 0) else torch.float16
    )


def from_9_on(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cpu" or torch.cuda.get_device_capability(device)[0] >= 9 else torch.float16


def only_8(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cpu" or torch.cuda.get_device_capability(device)[0] == 8 else torch.float16


def from_7_5_on(device: torch.device) -> torch.dtype:
    return (
        torch.bfloat16 if device.type == "cpu" or torch.cuda.get_device_capability(device) >= (7, 5) else torch.float16
    )


def returns_text(device: torch.device) -> str:
    return "bfloat16" if device.type == "cpu" else str(right(device))


WHICH = "Which dtype on which device"
CHIP = "For {device}{chip}, the answer was {got} where {want} is wanted: "
BOUNDARY = CHIP + "bfloat16 is native from compute capability 8.0 on."
MISTAKES = [
    Mistake("float16-on-cpu", float16_on_cpu, CHIP + "a CPU can compute in float16, but only slowly, and training "
            "would need loss scaling.", WHICH),
    Mistake("trusts-emulation", trusts_emulation, CHIP + "this chip has no bfloat16 of its own, it only emulates it, "
            "and that gains no speed. `torch.cuda.is_bf16_supported()` says True all the same, unless you ask with "
            "`including_emulation=False`.", WHICH),
    Mistake("asks-the-current-device", asks_the_current_device, CHIP + "that is right for the current device, but "
            "another one was asked about.", WHICH),
    Mistake("asks-the-current-device", asks_the_first_device, CHIP + "that is right for the first device, but another "
            "one was asked about.", WHICH),
    Mistake("takes-no-index-for-the-first", takes_no_index_for_the_first, CHIP + "that is right for the first device, "
            "but torch.device('cuda') means the current one. Pass the device on as you got it.", WHICH),
    Mistake("misses-devices-with-an-index", compares_whole_devices, CHIP + "torch.device('cuda:0') is not equal to "
            "torch.device('cuda'). Compare `device.type`.", WHICH),
    Mistake("never-bfloat16", autocasts_default, CHIP + "that is autocast's default for every GPU. From compute "
            "capability 8.0 on bfloat16 is native, and needs no scaler.", WHICH),
    Mistake("wrong-boundary", above_8_0, BOUNDARY, WHICH),
    Mistake("wrong-boundary", from_9_on, BOUNDARY, WHICH),
    Mistake("wrong-boundary", only_8, CHIP + "bfloat16 is native from compute capability 8.0 on, and later chips have "
            "it too.", WHICH),
    Mistake("wrong-boundary", from_7_5_on, BOUNDARY, WHICH),
    Mistake("returns-text", returns_text, CHIP + "return a torch.dtype, not its name.", WHICH),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    chips = [[7, 0], [7, 2], [8, 7], [9, 0], [10, 0], [12, 1], [5, 2], [8, 0]]
    return [
        case("drawn", device="cuda", chips=[draw.pick(chips)]),
        case("one of three", device=f"cuda:{draw.size(0, 2)}", chips=[draw.pick(chips) for _ in range(3)]),
        case("compute capability 7.0", device="cuda", chips=[[7, 0]]),
        case("compute capability 10.3", device="cuda:0", chips=[[10, 3]]),
    ]


# Right answers unlike the reference


def dtype_from_properties(device: Any) -> torch.dtype:
    if torch.device(device).type != "cuda":
        return torch.bfloat16
    return torch.bfloat16 if torch.cuda.get_device_properties(device).major >= 8 else torch.float16


def dtype_asked_on_the_device(device: Any) -> torch.dtype:
    if str(device).startswith("cuda"):
        with torch.cuda.device(device):
            native = torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if native else torch.float16
    return torch.bfloat16


RIGHT_ANSWERS: list[Callable[..., Any]] = [dtype_from_properties, dtype_asked_on_the_device]
