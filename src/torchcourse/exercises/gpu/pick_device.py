"""The exercise `pick_device`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.fake_machines import MACHINES, pretending
from torchcourse.probes.observe import kind, refusal

BARE, BUILT_FOR_CPU, ONE, TWO, APPLE, INTEL, OTHER = MACHINES


def probe(answer: Watched, machine: str, prefer: str | None, as_device: bool, refuses: bool) -> Observations:
    """Ask for a device on a pretended machine."""
    wanted = torch.device(prefer) if as_device and prefer else prefer
    with pretending(MACHINES[machine]):
        if refuses:
            spelled = (prefer or "").partition(":")[2]
            names = [str(prefer), *([f"index={spelled}"] if spelled else [])]
            return refusal(lambda: answer(wanted), "prefer", names)
        device = answer() if wanted is None else answer(wanted)
    if not isinstance(device, torch.device):
        return {"returned": kind(device)}
    index = 0 if device.index is None else device.index  # "cuda" and "cuda:0" are the same device here
    return {"device": device.type if device.type == "cpu" else f"{device.type}:{index}"}


def cases(draw: Draw) -> list[Case]:
    def on(machine: str, prefer: str | None = None, *, refuses: bool = False, as_device: bool = False) -> Case:
        words = "no preference" if prefer is None else f"prefer={prefer!r}"
        words = f"prefer=torch.device({prefer!r})" if as_device else words
        inputs: dict[str, Any] = {"machine": machine, "prefer": prefer, "as_device": as_device, "refuses": refuses}
        return case(f"{words} on {machine}", **inputs)

    far, typo = draw.size(4, 7), draw.pick(["gpu", "cdua", "nvidia", "tpu"])
    return [
        on(BARE),
        on(BUILT_FOR_CPU),
        on(ONE),
        on(APPLE),
        on(OTHER),
        on(TWO, "cpu"),
        on(APPLE, "cpu"),
        on(TWO, "cuda:1"),
        on(TWO, "cuda:1", as_device=True),
        on(INTEL, "xpu", as_device=True),
        on(BARE, "cuda", refuses=True),
        on(APPLE, "cuda", refuses=True),
        on(ONE, typo, refuses=True),
        on(TWO, draw.pick(["hpu", "xla", "ipu"]), refuses=True),
        on(ONE, f"cuda:{far}", refuses=True),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    error = seen.get("refused with")
    fields: dict[str, object] = {"outcome": error} if error is not None else {}
    if isinstance(error, Raised):
        fields["message"] = error.message
    if "returned" in seen:
        fields["returned"] = seen["returned"]
    if "device" in seen and "device" in wanted:
        fields |= {"chosen": seen["device"], "wanted_device": wanted["device"]}
    return fields


EXERCISE = Exercise(
    "pick_device",
    probe,
    cases,
    hints=(
        "`torch.accelerator.current_accelerator()` names the kind of accelerator that torch was built for. What does "
        "its argument `check_available` add, and what comes back where there is none?",
        "A preference may be a name that torch does not know, a kind that this machine does not have, or an index "
        "that is too large. Which of the three does `torch.device(prefer)` find out by itself?",
        "`torch.get_device_module('cuda')` gives the module of a kind of device. What do its `is_available()` and "
        "`device_count()` say, and how does the index of the preferred device compare?",
    ),
    any_device=False,
    quotes=quotes,
)
