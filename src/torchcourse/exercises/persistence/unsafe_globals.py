"""The exercise `unsafe_globals`: its probe, visible cases and hints."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import decimal
import fractions
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.crash_points import in_a_folder
from torchcourse.probes.observe import kind
from torchcourse.probes.savable_models import Copies, baited, savable
from torchcourse.probes.trainable_models import with_detail


def held_things(width: int) -> dict[str, Callable[[], Any]]:
    """Return the objects that a checkpoint may hold, by name."""
    return {
        "weights": lambda: savable("normed", width, 0.1).state_dict(),
        "namespace": lambda: argparse.Namespace(lr=0.1, width=width),
        "fraction": lambda: fractions.Fraction(1, width), "decimal": lambda: decimal.Decimal(width),
        "duration": lambda: datetime.timedelta(width), "id": lambda: uuid.UUID(int=width),
        "counter": lambda: Counter("abca"), "ordered": lambda: OrderedDict(a=1), "dtype": lambda: torch.float16,
        "device": lambda: torch.device("cpu"), "size": lambda: torch.Size([width]),
        "model": lambda: savable("mlp", width, 0.1), "code": Copies, "text": lambda: "shutil.copyfile os.system eval",
    }  # fmt: skip


@contextlib.contextmanager
def only_what_torch_admits() -> Iterator[None]:
    """Let weights-only loading in this block accept only torch's defaults: somebody may have allowed more."""
    admitted = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(admitted)


@in_a_folder
def probe(answer: Watched, holds: list[str], width: int, saved_as: str = "checkpoint.pt") -> Observations:
    """Ask for the unsafe globals of a file that runs code when it is unpickled.

    A file that was saved under another name has that name in its archive.
    """
    things = held_things(width)
    torch.save({f"{name} {place}": things[name]() for place, name in enumerate(holds)}, saved_as)
    Path(saved_as).rename("checkpoint.pt")
    with only_what_torch_admits(), baited() as was_run:
        result = answer(Path("checkpoint.pt"))
    seen: Observations = {"code in the file": was_run()}
    if not isinstance(result, list):
        return {**seen, "returned": kind(result)}
    return {**seen, "names": [name if isinstance(name, str) else kind(name) for name in result]}


def derive(_case: Case, seen: Observations) -> Observations:
    """Sort the names, and say whether they were. Torch keeps them in a set, whose order is another in each process:
    three or fewer are in order too often to tell."""
    if "names" not in seen:
        return seen
    names = seen["names"]
    sorted_ = len(names) <= 3 or names == sorted(names)
    return {**seen, "names": sorted(names), "order": "sorted" if sorted_ else with_detail("not sorted", str(names))}


def cases(draw: Draw) -> list[Case]:
    w = draw.size(2, 6)
    return [
        case("weights alone", holds=["weights"], width=w),
        case("weights and settings", holds=["weights", "namespace"], width=w),
        case("things of several kinds", holds=["namespace", "fraction", "duration", "decimal", "counter"], width=w),
        case("one kind twice", holds=["fraction", "weights", "fraction"], width=w),
        case("a whole model", holds=["model"], width=w),
        case("code that copies a file", holds=["weights", "code"], width=w),
        case("code between other things", holds=["id", "code", "namespace", "ordered"], width=w),
        case("a file that was renamed", holds=["weights", "fraction"], width=w, saved_as="best.pt"),
        case("a text that names functions", holds=["text", "dtype", "device", "size"], width=w),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"code": seen.get("code in the file")}
    if "names" in seen and "names" in wanted:
        extra = [n for n in seen["names"] if n not in wanted["names"]]
        lost = [n for n in wanted["names"] if n not in seen["names"]]
        fields |= {"names": seen["names"], "want_names": wanted["names"]}
        fields |= {"extra": extra[0]} if extra else {}
        fields |= {"lost": lost[0]} if lost else {}
        order = seen.get("order")
        fields |= {"came": order.message} if isinstance(order, Raised) else {}
    return fields


EXERCISE = Exercise(
    "unsafe_globals",
    probe,
    cases,
    hints=(
        "A pickle names every class and function that it wants to use. Reading the names is one thing, calling them "
        "another: which of the two does `torch.load(weights_only=False)` do?",
        "`torch.serialization` has a function with a long name that does this. Search its documentation for the words "
        "of the exercise.",
        "By hand: the file is a zip with a `data.pkl` in it, and `pickletools.genops` lists its operations without "
        "executing any. Some globals are fine with weights-only loading.",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
