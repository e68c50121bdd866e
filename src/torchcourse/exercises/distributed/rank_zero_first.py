"""The exercise `rank_zero_first`: its probe, visible cases and hints."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.on_ranks import MODULES, on_ranks, rank
from torchcourse.ranks.activity import activity

LASTS = 0.2
"""Seconds that a call waits at most for the other ranks to begin theirs."""
ASLEEP = 10
"""Looks in a row that find all other ranks asleep, after which a call waits no longer: they wait for it."""


class DataSetMissingError(Exception):
    """What the function of a rank may raise."""


def program(
    answer: Callable[..., Any], values: list[Any], seconds: float, fails: list[int | None], message: str, folder: str
) -> Observations:
    """Observe when this rank's function ran, how often, and what the calls gave.

    A call ends as soon as all other ranks have begun theirs, which they say by files in `folder`, or are asleep. There
    are as many calls as `fails` has items; each names the rank whose function raises.
    """
    spans: list[list[float]] = []
    thrown: list[Exception] = []
    found: list[Any] = []

    def work() -> Any:
        number = len(found)
        spans.append([number, time.monotonic()])
        begun = [Path(folder, f"call {number} on rank {one}") for one in range(len(values))]
        begun[rank()].touch()
        asleep = 0
        while time.monotonic() < spans[-1][1] + seconds and asleep < ASLEEP:
            left = [pid for pid, file in zip(pids, begun, strict=True) if not file.exists()]
            if not left:
                break
            asleep = 0 if "work" in map(activity, left) else asleep + 1
            time.sleep(0.005)
        spans[-1].append(time.monotonic())
        if fails[number] == rank():
            thrown.append(DataSetMissingError(message))
            raise thrown[-1]
        return values[rank()]

    own = True
    pids: list[Any] = [None] * len(values)
    dist.all_gather_object(pids, os.getpid())
    for _ in fails:
        dist.barrier()
        try:
            found.append(answer(work))
            own &= found[-1] is values[rank()]
        except Unattempted:
            raise
        except Exception as error:
            name = "its own exception" if any(error is one for one in thrown) else "an exception"
            found.append(Raised(name, f"{type(error).__name__}: {error}"[:160], "raised"))
            if fails == [1] and rank() == 1:
                dist.destroy_process_group()  # who waits for this rank hears of it
    return {"result": found, "results are the very objects that the calls returned": own, "clock": spans}


def probe(answer: Watched, **inputs: Any) -> Observations:
    """Observe all ranks."""
    with tempfile.TemporaryDirectory() as folder:
        return on_ranks(answer, program, {**inputs, "folder": folder}, len(inputs["values"]))


def derive(case_: Case, seen: Observations) -> Observations:
    """Derive how often each rank called the function, and who was first each time."""
    found = {name: value for name, value in seen.items() if not name.startswith("clock")}
    clocks: list[Any] = [seen.get(f"clock, rank {number}") for number in range(len(case_.inputs["values"]))]
    for number, spans in enumerate(clocks):
        if spans is not None:
            found[f"calls on rank {number}"] = len(spans)
    if case_.inputs["fails"] == [1]:  # rank 0 may wait for the end of rank 1, or not
        return {name: value for name, value in found.items() if "rank 0" not in name}
    if all(clocks):
        first = {number: times for number, *times in reversed(clocks[0])}
        found["order"] = [
            _order(first[number], times, other)
            for other, clock in enumerate(clocks[1:], 1) for number, *times in clock if number in first
        ]  # fmt: skip
    return found


def _order(zero: list[float], one: list[float], other: int) -> str:
    if zero[1] <= one[0]:
        return f"rank 0, then rank {other}"
    return f"rank {other}, then rank 0" if one[1] <= zero[0] else "both at once"


def cases(draw: Draw) -> list[Case]:
    def calls(*values: Any, fails: Sequence[int | None] = (None,)) -> dict[str, Any]:
        return {"values": list(values), "seconds": LASTS, "fails": list(fails), "message": "no data"}

    return [
        case("a file and a number", **calls("the file", draw.size(1, 99))),
        case("twice in a row", **calls(draw.size(1, 99), draw.size(100, 199), fails=(None, None))),
        case("three ranks, results of other kinds", **calls(None, draw.normal(2, 2), draw.size(1, 99))),
        case("rank 0's call raises", **calls(1, 2, fails=(0,))),
        case("three ranks: rank 0's call raises, and the next one does not",
             **calls(1, 2, 3, fails=(0, None)) | {"message": ""}),
        case("rank 1's call raises", **calls(1, 2, fails=(1,))),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"result0": seen.get("result, rank 0"), "result1": seen.get("result, rank 1")}
    fields |= {"right0": wanted.get("result, rank 0"), "right1": wanted.get("result, rank 1")}
    fields |= {"ended1": seen.get("rank 1"), "calls1": seen.get("calls on rank 1")}
    waiting = next((n for n in range(len(inputs["values"])) if seen.get(f"rank {n}") != "returned"), 0)
    fields |= {"who": waiting, "ended": seen.get(f"rank {waiting}")}
    return fields | {"order": (seen.get("order") or ["unknown"])[0]}


EXERCISE = Exercise(
    "rank_zero_first",
    probe,
    cases,
    hints=(
        "`dist.barrier()` lets nobody through until all have come. If rank 0 comes after its call and the others "
        "before theirs, who waits for whom? And what if rank 0 never comes?",
        "Rank 0 has to reach the meeting point even when its call raises: `try` and `finally`. But then the others go "
        "on, and they should not. What could rank 0 send in place of an empty barrier?",
        "Broadcast one number from rank 0: 0 for done, 1 for failed. The others wait for it, and raise if it is 1. "
        "Each returns what its own `fn()` returned.",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    imports=MODULES,
)
