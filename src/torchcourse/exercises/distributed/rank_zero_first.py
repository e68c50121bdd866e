"""The exercise `rank_zero_first`: its probe, visible cases and hints."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.on_ranks import MODULES, on_ranks, rank

LASTS = 0.2
"""Seconds that a call waits for the other rank to begin its own: more than both take to begin on a busy machine."""


class DataSetMissingError(Exception):
    """What the function of a rank may raise."""


def program(
    answer: Callable[..., Any], values: list[Any], seconds: float, fails: bool, times: int, folder: str
) -> Observations:
    """Observe when this rank's function ran, how often, and what the calls gave; rank 0's function may fail.

    A call ends as soon as the other rank has begun its own, which it says by a file in `folder`.
    """
    spans: list[list[float]] = []

    def work() -> Any:
        spans.append([time.monotonic()])
        begun, other = (Path(folder, f"call {len(spans)} on rank {number}") for number in (rank(), 1 - rank()))
        begun.touch()
        while time.monotonic() < spans[-1][0] + seconds and not other.exists():
            time.sleep(0.005)
        spans[-1].append(time.monotonic())
        if fails and rank() == 0:
            raise DataSetMissingError(f"no data on rank {rank()}")
        return values[rank()]

    found: list[Any] = []
    for _ in range(times):
        dist.barrier()
        try:
            found.append(answer(work))
        except Unattempted:
            raise
        except DataSetMissingError as error:
            found.append(Raised("its own exception", str(error), "raised"))
        except Exception as error:
            found.append(Raised("an exception", f"{type(error).__name__}: {error}"[:160], "raised"))
    return {"result": found, "clock": spans}


def probe(answer: Watched, **inputs: Any) -> Observations:
    """Observe both ranks."""
    with tempfile.TemporaryDirectory() as folder:
        return on_ranks(answer, program, {**inputs, "folder": folder})


def derive(_case: Case, seen: Observations) -> Observations:
    """Derive how often each rank called the function, and who was first each time."""
    found = {name: value for name, value in seen.items() if not name.startswith("clock")}
    clocks = [seen.get(f"clock, rank {number}") for number in range(2)]
    for number, spans in enumerate(clocks):
        if spans is not None:
            found[f"calls on rank {number}"] = len(spans)
    if all(clocks):
        pairs = zip(*clocks, strict=False)
        found["order"] = [_order(zero, one) for zero, one in pairs]
    return found


def _order(zero: list[float], one: list[float]) -> str:
    if zero[1] <= one[0]:
        return "rank 0, then rank 1"
    return "rank 1, then rank 0" if one[1] <= zero[0] else "both at once"


def cases(draw: Draw) -> list[Case]:
    def calls(*values: Any, fails: bool = False, times: int = 1) -> dict[str, Any]:
        return {"values": list(values), "seconds": LASTS, "fails": fails, "times": times}

    return [
        case("a file and a number", **calls("the file", draw.size(1, 99))),
        case("twice in a row", **calls(draw.size(1, 99), draw.size(100, 199), times=2)),
        case("results of other kinds", **calls(None, draw.normal(2, 2))),
        case("rank 0's call raises", **calls(1, 2, fails=True)),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"result0": seen.get("result, rank 0"), "result1": seen.get("result, rank 1")}
    fields |= {"right0": wanted.get("result, rank 0"), "right1": wanted.get("result, rank 1")}
    fields |= {"ended1": seen.get("rank 1"), "calls1": seen.get("calls on rank 1")}
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
