"""The exercise `pick_device`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.fake_machines import MACHINES

WHY = (
    "`check_available=True` asks whether the accelerator is there now, and not only whether this build knows of"
    " one. A preference that cannot be had is an error: silently falling back to the CPU is found out hours "
    "later."
)
"""Why the reference is written as it is."""
REQUIRED = ("hardcoded-cuda", "ignores-preference")
"""The mistakes that a check must always be able to name."""


class Pick:
    """A right answer, as an object that is called. Each mistake below is this one with one method written otherwise."""

    def __call__(self, prefer: Any = None) -> Any:
        return self.found() if prefer is None else self.preferred(prefer)

    def found(self) -> torch.device:
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")

    def preferred(self, prefer: Any) -> Any:
        try:
            device = torch.device(prefer)
        except RuntimeError:
            return self.refuse(prefer)
        return device if self.available(device) else self.refuse(prefer)

    def available(self, device: torch.device) -> bool:
        return device.type == "cpu" or (device.index or 0) < self.count(device)

    def count(self, device: torch.device) -> int:
        try:
            module: Any = torch.get_device_module(device)
        except RuntimeError:  # a kind that this torch has no module for
            return 0
        return int(module.device_count()) if module.is_available() else 0

    def refuse(self, prefer: Any) -> Any:
        raise ValueError(f"prefer is {prefer}, and that is not available") from None


class KnowsCudaOnly(Pick):
    def found(self) -> torch.device:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class KnowsAListOfKinds(Pick):
    def found(self) -> torch.device:
        kinds = ("cuda", "mps", "xpu")
        return next((torch.device(kind) for kind in kinds if self.count(torch.device(kind))), torch.device("cpu"))


class FirstGpu(Pick):
    def found(self) -> torch.device:
        return torch.device("cuda", 0)


class TrustsTheBuild(Pick):
    def found(self) -> torch.device:
        return torch.accelerator.current_accelerator() or torch.device("cpu")


class AlwaysTheCpu(Pick):
    def found(self) -> torch.device:
        return torch.device("cpu")


class IgnoresPreference(Pick):
    def preferred(self, prefer: Any) -> Any:
        return self.found()


class TrustsPreference(Pick):
    def preferred(self, prefer: Any) -> Any:
        return torch.device(prefer)


class LeavesUnknownNamesToTorch(Pick):
    def preferred(self, prefer: Any) -> Any:
        device = torch.device(prefer)
        return device if self.available(device) else self.refuse(prefer)


class IndexNotChecked(Pick):
    def available(self, device: torch.device) -> bool:
        return device.type == "cpu" or self.count(device) > 0


class PassesOtherKinds(Pick):
    def available(self, device: torch.device) -> bool:
        return device.type not in ("cuda", "mps", "xpu") or super().available(device)


class KnowsCudaAndMps(Pick):
    def available(self, device: torch.device) -> bool:
        return device.type in ("cpu", "cuda", "mps") and super().available(device)


class FallsBack(Pick):
    def refuse(self, prefer: Any) -> Any:
        return self.found()


class RaisesRuntimeError(LeavesUnknownNamesToTorch):
    def refuse(self, prefer: Any) -> Any:
        raise RuntimeError(f"{prefer} is not available")


class NamesNothing(Pick):
    def refuse(self, prefer: Any) -> Any:
        raise ValueError("this device is not available") from None


class NamesTheValueOnly(Pick):
    def refuse(self, prefer: Any) -> Any:
        raise ValueError(f"{prefer} is not available here") from None


class ReturnsText(Pick):
    def __call__(self, prefer: Any = None) -> Any:
        return str(super().__call__(prefer))


class CountsCudaForAll(Pick):
    def count(self, device: torch.device) -> int:
        return torch.cuda.device_count()


CHOOSING = "Choosing a device"
CUDA_ONLY = (
    'In the case "{case}" the device is {chosen} where {wanted_device} is wanted: not every machine has CUDA, and some '
    "have another accelerator."
)
UNNAMED = 'In the case "{case}" the message was "{message}": it should name `prefer` and say what it was.'
MISTAKES = [
    *(Mistake("counts-cuda-for-every-kind", picks, 'In the case "{case}" the call raised {error}: the machine has that '
              "device, but either CUDA devices were counted in its place, or your code does not know this kind. "
              "`torch.get_device_module(device)` gives the module of any kind.", CHOOSING)
      for picks in (CountsCudaForAll(), KnowsCudaAndMps())),
    Mistake("hardcoded-cuda", KnowsCudaOnly(), CUDA_ONLY, CHOOSING),
    Mistake("ignores-preference", IgnoresPreference(), 'In the case "{case}" the answer was {got}, and {want} is '
            "wanted: `prefer` has no influence on it.", CHOOSING),
    Mistake("index-not-checked", IndexNotChecked(), "The machine has one GPU, and {prefer} was accepted all the same: "
            "the outcome was {got}. Compare the index with `device_count()`.", CHOOSING),
    Mistake("unknown-names-left-to-torch", LeavesUnknownNamesToTorch(), 'In the case "{case}" the call ended with '
            "{outcome}: `torch.device` refuses a name it does not know with a RuntimeError of its own, and a "
            "ValueError is wanted.", CHOOSING),
    Mistake("hardcoded-cuda", FirstGpu(), CUDA_ONLY, CHOOSING),
    Mistake("falls-back-silently", FallsBack(), 'In the case "{case}" the outcome was {got}: somebody who asks for a '
            'device by name wants that one or an error, not another device without a word.', CHOOSING),
    Mistake("trusts-preference", TrustsPreference(), 'In the case "{case}" the outcome was {outcome}: `torch.device` '
            "only names a device, whether this machine has it or not.", CHOOSING),
    Mistake("passes-other-kinds", PassesOtherKinds(), 'In the case "{case}" the outcome was {outcome}: `torch.device` '
            "knows more kinds than your code checks, and this machine has no device of this one.",
            CHOOSING),
    Mistake("knows-a-list-of-kinds", KnowsAListOfKinds(), 'In the case "{case}" the device is {chosen} where '
            "{wanted_device} is wanted: only some kinds were asked for, by name. `torch.accelerator` knows them all.",
            CHOOSING),
    Mistake("trusts-the-build", TrustsTheBuild(), 'In the case "{case}" the device is {chosen}: without '
            "`check_available` torch names the accelerator that it was built for, whether it is there or not.",
            CHOOSING),
    Mistake("always-the-cpu", AlwaysTheCpu(), 'In the case "{case}" the device is {chosen} where {wanted_device} is '
            "wanted: nobody looked for an accelerator.", CHOOSING),
    Mistake("raises-runtime-error", RaisesRuntimeError(), 'In the case "{case}" the call ended with {outcome}; a '
            "ValueError is wanted, as for any argument with an impossible value.", CHOOSING),
    Mistake("message-without-the-name", NamesNothing(), UNNAMED, CHOOSING),
    Mistake("message-without-the-name", NamesTheValueOnly(), UNNAMED, CHOOSING),
    Mistake("returns-text", ReturnsText(), 'In the case "{case}" the answer returned {returned}: a '
            "torch.device is wanted.", CHOOSING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    none, cpu_only, single, double, apple, intel, _ = MACHINES
    asked: list[tuple[str, str | None, bool]] = [
        (intel, None, False), (double, None, False), (none, "cpu", False), (double, "cuda:0", False),
        (single, "cuda", False), (intel, "xpu", False), (apple, "mps", False), (cpu_only, "mps", True),
        (intel, "xpu:1", True), (single, "mps", True), (double, "cuda:2", True),
    ]  # fmt: skip
    return [
        case(f"{prefer or 'nothing'} wanted on {machine}", machine=machine, prefer=prefer, refuses=refuses,
             as_device=prefer is not None and draw.size(0, 1) == 1)
        for machine, prefer, refuses in asked
    ]  # fmt: skip


# Right answers unlike the reference


def pick_by_asking_each(prefer: Any = None) -> torch.device:
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(),
             "xpu": torch.xpu.is_available(), "mtia": torch.mtia.is_available(), "cpu": True}  # fmt: skip
    if prefer is None:
        return torch.device(next(kind for kind, available in there.items() if available))
    try:
        wanted = torch.device(prefer)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"prefer={prefer!r} is not a device: {error}") from error
    if not there.get(wanted.type, False):
        raise ValueError(f"prefer={prefer!r} is not available here; choose from {[k for k, v in there.items() if v]}")
    if wanted.type == "cuda" and wanted.index is not None and wanted.index >= torch.cuda.device_count():
        raise ValueError(f"prefer={prefer!r}: there are only {torch.cuda.device_count()} GPUs")
    if wanted.type == "xpu" and (wanted.index or 0) >= torch.xpu.device_count():
        raise ValueError(f"prefer={prefer!r}: there are only {torch.xpu.device_count()}")
    return wanted


def pick_by_trying(prefer: Any = None) -> torch.device:
    if prefer is not None:
        try:
            return torch.empty(0, device=prefer).device
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"prefer: wanted a device that is here, got {prefer}") from error
    current = torch.accelerator.current_accelerator(check_available=True)
    if current is not None:
        kind = current.type
        return torch.device(kind, torch.accelerator.current_device_index())
    return torch.device("cpu")


def pick_from_a_list(prefer: Any = None) -> torch.device:
    names = ["cpu"]
    current = torch.accelerator.current_accelerator(check_available=True)
    if current is not None:
        kind = current.type
        names = [kind, *(f"{kind}:{i}" for i in range(torch.accelerator.device_count())), "cpu"]
    chosen = names[0] if prefer is None else str(prefer)
    if chosen not in names:
        raise ValueError(f"prefer has to be one of {names}, got {prefer!r}")
    return torch.device(chosen)


RIGHT_ANSWERS: list[Callable[..., Any]] = [pick_by_asking_each, pick_by_trying, pick_from_a_list]
