"""The exercise `prefetch`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from torchcourse import simulated
from torchcourse.checking.probe import Watched
from torchcourse.exercises.gpu.move_to import assembled
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import moved_to, where
from torchcourse.probes.trainable_models import with_detail

FAR = 3
"""The number of batches from which on a lead is more than "one ahead", while there are more to come."""


class Loader:
    """A loader that counts the batches that were taken from it."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches, self.taken = batches, 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.taken += 1
            yield batch


class Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts copies from the CPU to another device; the simulated one counts its own."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device, self.seen = device, 0
        self.before = simulated.counters().copies_to_device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            source = args[1] if func is torch.ops.aten.copy_.default else args[0]
            self.seen += source.device.type == "cpu" and result.device.type == self.device.type != "cpu"
        return result

    def count(self) -> int:
        """Return the number of copies so far."""
        if self.device.type == simulated.NAME:
            return simulated.counters().copies_to_device - self.before
        return self.seen


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [tensor for item in inside for tensor in tensors_in(item)]


def probe(answer: Watched, batches: list[Any], like: Tensor, sized: bool = True) -> Observations:
    """Consume the batches, and note at each how many were taken from the loader and copied by then.

    Args:
        answer: what is called.
        batches: the loader's batches; {"Batch": [...]} stands for a namedtuple.
        like: a tensor on the device.
        sized: whether the loader has a length; else it is a generator.
    """
    shelf = Loader([assembled(batch) for batch in moved_to(batches, torch.device("cpu"))])
    copies = Copies(like.device)
    handed: list[Any] = []
    taken: list[int] = []
    copied: list[int] = []
    with copies if like.is_cuda else answer.watched():
        for batch in answer(shelf if sized else iter(shelf), like.device):
            taken.append(shelf.taken)
            copied.append(copies.count())
            handed.append(batch)
            if len(handed) > len(batches) + 2:
                break
    places = sorted({where(tensor, like) for batch in handed for tensor in tensors_in(batch)})
    handed = [{type(b).__name__: list(b)} if hasattr(b, "_fields") else b for b in handed]
    return {"batches": handed, "places": places, "taken": taken, "copied": copied}


def derive(case: Case, seen: Observations) -> Observations:
    """Describe how far ahead batches were taken and copied, in place of the counts."""
    batches = case.inputs["batches"]
    counts = [len(tensors_in(batch)) for batch in batches]
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    whole = [sum(end <= copied for end in ends) for copied in seen["copied"]]
    rest = {name: value for name, value in seen.items() if name not in ("taken", "copied")}
    if any(seen["copied"]):
        rest["copied ahead"] = ahead(whole, len(batches))
    return {**rest, "taken ahead": ahead(seen["taken"], len(batches))}


def ahead(counts: list[int], total: int) -> Raised:
    """Describe how far counts are ahead of the batches handed out; the largest and smallest lead are for people."""
    gaps = [count - place - 1 for place, count in enumerate(counts)]
    open_ends = [gap for place, gap in enumerate(gaps) if place + 1 + FAR <= total]
    if any(gap < 1 for place, gap in enumerate(gaps) if place + 1 < total):
        words = "not ahead"
    else:
        words = "too far ahead" if any(gap >= FAR for gap in open_ends) else "ahead"
    return with_detail(words, f"{counts[0]} of {total} when the first is handed out" if counts else "none")


def cases(draw: Draw) -> list[Case]:
    like: dict[str, Any] = {"like": torch.zeros(1)}

    def pairs(count: int, rows: int) -> list[Any]:
        return [(draw.normal(rows, 2), draw.integers(0, 9, rows)) for _ in range(count)]

    n = draw.size(6, 8)
    ragged = [*pairs(3, 4), *pairs(1, 1)]
    dicts = [{"ids": draw.integers(0, 9, 3), "mask": draw.flags(3)} for _ in range(4)]
    return [
        case("pairs", batches=pairs(n, 2), **like),
        case("a last batch that is smaller", batches=ragged, **like),
        case("tensors from a generator", batches=[draw.normal(3) for _ in range(5)], **like, sized=False),
        case("dicts", batches=dicts, **like),
        case("namedtuples", batches=[{"Batch": [draw.normal(1), draw.flags(1)]} for _ in range(2)], **like),
        case("None among the batches", batches=[draw.normal(2), None, draw.normal(1), draw.normal(3)], **like),
        case("a single batch", batches=pairs(1, 3), **like),
        case("two batches", batches=pairs(2, 3), **like),
        case("an empty loader", batches=[], **like),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"total": len(inputs["batches"])}
    if "batches" in seen:
        fields |= {"count": len(seen["batches"]), "places": ", ".join(seen["places"])}
    for name in ("taken ahead", "copied ahead"):
        if isinstance(seen.get(name), Raised):
            fields[name.replace(" ", "_")] = seen[name].message
    return fields


EXERCISE = Exercise(
    "prefetch",
    probe,
    cases,
    hints=(
        "A function with `yield` stops where it yields, until the next batch is asked for. So what has to happen "
        "before the `yield` of the present batch, and not after it?",
        "You hold two batches at a time: the present one and the following one. Where does the first present one come "
        "from, and what becomes the present one after the `yield`?",
        "`next(iterator, None)` gives None at the end. When that happens there is nothing more to copy, but is there "
        "still something to hand out? And what if the very first one is None?",
    ),
    derive=derive,
    quotes=quotes,
)
