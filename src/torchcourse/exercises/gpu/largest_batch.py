"""The exercise `largest_batch`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.sealed import sealed
from torchcourse.probes.trainable_models import with_detail

ERRORS: dict[str, Callable[[str], Exception]] = {
    "RuntimeError": RuntimeError, "ValueError": ValueError, "KeyError": KeyError, "MemoryError": MemoryError,
}  # fmt: skip
MANY = 5000


class Allocator:
    """A device on which batches up to `capacity` fit. From `breaks_at` on, another error than memory comes."""

    def __init__(self, capacity: int, error: str, breaks_at: int) -> None:
        self.capacity, self.error, self.breaks_at = capacity, error, breaks_at
        self.tried: list[int] = []

    def run(self, size: int) -> None:
        self.tried.append(size)
        if type(size) is not int:
            raise TypeError(f"a batch size is an int, and this is {size!r}")
        if len(self.tried) > MANY:
            raise RuntimeError(f"{MANY} sizes were tried, and it goes on")
        if self.error and size >= self.breaks_at:
            name, _, detail = self.error.partition(": ")
            raise ERRORS[name](f"the model does not take this batch{detail and f': {detail}'}")
        if size > self.capacity:
            words = "CUDA out of memory. " if self.capacity % 2 else "No room. "  # each device has a wording of its own
            raise torch.OutOfMemoryError(f"{words}Tried to allocate {size} MiB.")


def probe(answer: Watched, start: int, limit: int, capacity: int, error: str, breaks_at: int) -> Observations:
    """Search with a device that runs out of memory above `capacity`, or breaks at a size with an error of its own."""
    device = Allocator(capacity, error, breaks_at)
    try:
        seen: Observations = {"result": answer(sealed(device.run), start=start, limit=limit)}
    except tuple(ERRORS.values()) as raised:  # type: ignore[misc]
        if "does not take this batch" not in str(raised):
            raise
        seen = {"error": type(raised).__name__}
    return {**seen, "tried": device.tried}


def derive(case: Case, seen: Observations) -> Observations:
    """Reduce the calls to whether there were too many, and describe the size returned.

    All sizes beyond the limit count as the same.
    """
    limit, result = case.inputs["limit"], seen.get("result")
    allowed = int(2 * math.log2(limit) + 2)
    calls = len(seen["tried"])
    words = "as many as allowed" if calls <= allowed else "too many"
    tidy: Observations = {name: value for name, value in seen.items() if name != "tried"}
    if type(result) is int:
        tidy["result"] = with_detail("beyond the limit", str(result)) if result > limit else result
        tidy["a batch of that size"] = "fits" if result <= case.inputs["capacity"] else "does not fit"
    tidy["sizes tried"] = "from 1 up" if min(seen["tried"], default=1) > 0 else "0 or less, too"
    return {**tidy, "calls": with_detail(words, f"{calls} calls, and {allowed} are allowed")}


def cases(draw: Draw) -> list[Case]:
    def drawn(name: str, start: int, limit: int, capacity: int, error: str = "", breaks_at: int = 0) -> Case:
        return case(name, start=start, limit=limit, capacity=capacity, error=error, breaks_at=breaks_at)

    odd = 2 * draw.size(20, 60) + 1
    return [
        drawn("something in between", 1, 256, odd),
        drawn("starting at 8", 8, 1024, draw.size(520, 900)),
        drawn("everything fits", 4, 64, 10_000),
        drawn("a limit that is not a power of two", 1, 100, 10_000),
        drawn("all but the limit fits", 1, 128, 127),
        drawn("exactly a power of two", 2, 512, 128),
        drawn("the start does not fit", 64, 256, draw.size(17, 30)),
        drawn("one fits and no more", 16, 64, 1),
        drawn("not even one", 8, 64, 0),
        drawn("a limit of 4096", 1, 4096, draw.size(3000, 4000)),
        drawn("a model that is broken", 4, 64, 32, "RuntimeError", 0),
        drawn("a model that cannot take large batches", 1, 64, 64, "ValueError", 3),
        drawn("an error that speaks of memory", 2, 64, 64, "RuntimeError: two tensors share one memory location", 5),
        drawn("an error about the host's memory", 2, 64, 64, "MemoryError", 7),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {name: seen[name] for name in ("result", "error") if name in seen}
    for name in ("calls", "result"):
        if isinstance(seen.get(name), Raised):
            fields[name] = seen[name].message
    fields |= {"fits": seen["a batch of that size"]} if "a batch of that size" in seen else {}
    return fields | {f"wanted_{name}": wanted[name] for name in ("result", "error") if name in wanted}


EXERCISE = Exercise(
    "largest_batch",
    probe,
    cases,
    hints=(
        "If 64 fits, so does 63. So two numbers are enough to know where you are: the largest size that did fit and "
        "the smallest that did not. What may both be before anything was tried?",
        "Double while it fits, halve the gap when something did not. When is the search over? What if doubling jumps "
        "over the limit, or the start itself does not fit?",
        "`torch.OutOfMemoryError` is a kind of RuntimeError. Which errors would `except RuntimeError` swallow as well, "
        "and what would your function then say about a broken model?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
