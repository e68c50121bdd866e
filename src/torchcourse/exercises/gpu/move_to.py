"""The exercise `move_to`: its probe, visible cases and hints."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind, moved_to

Batch = namedtuple("Batch", ["x", "mask"])
Sample = namedtuple("Sample", ["ids", "length", "text"])
TUPLES: dict[str, Any] = {"Batch": Batch, "Sample": Sample}


OTHERS: dict[str, Any] = {"a set": {1, 2}, "bytes": b"ab", "an array": np.zeros(2), "a range": range(3)}


class Other:
    """Something that is neither a container nor a tensor, with a method that tensors have."""

    def to(self, *_: object) -> Other:
        return Other()


def assembled(spec: Any) -> Any:
    """Return the object that a case describes: a dict with a special key stands for what is not plain data."""
    if isinstance(spec, dict):
        word: str
        inside: Any
        word, inside = next(iter(spec.items()), ("", None))
        if word in TUPLES:
            return TUPLES[word](*(assembled(item) for item in inside))
        if word == "a module":
            return nn.Linear(inside, 1)
        if word == "a leaf":
            return inside.detach().requires_grad_()
        if word == "with history":
            return inside.detach().requires_grad_() * 2
        if word == "another thing":
            return OTHERS[inside]
        return Other() if word == "an object" else {key: assembled(item) for key, item in spec.items()}
    return type(spec)(assembled(item) for item in spec) if isinstance(spec, list | tuple) else spec


def probe(answer: Watched, obj: Any, target: str, like: Tensor) -> Observations:
    """Move a container to a device or away from it, and see where the parts are and whether the input changed."""
    host = torch.device("cpu")
    elsewhere = torch.device("meta") if like.device == host else host  # a place that differs from where obj is
    goal, source = {"elsewhere": (elsewhere, like.device), "device": (like.device, host)}[target]
    made = assembled(moved_to(obj, source))
    before = list(parts(made))
    result = answer(made, goal)
    after = list(parts(made))
    same = len(before) == len(after) and all(a is b and p == q for (a, p), (b, q) in zip(before, after, strict=True))
    originals = {id(item) for item, _ in before}
    return {"result": seen_in(result, goal, originals), "input afterwards": "as before" if same else "changed"}


def parts(obj: Any) -> Iterator[tuple[Any, str]]:
    """Yield the object and everything in it, each with its device if it is a module, else ""."""
    yield obj, where_parameters_are(obj)
    if isinstance(obj, dict | list | tuple):
        for item in obj.values() if isinstance(obj, dict) else obj:
            yield from parts(item)


def where_parameters_are(obj: Any) -> str:
    return str(obj.weight.device) if isinstance(obj, nn.Linear) else ""


def seen_in(obj: Any, goal: torch.device, originals: set[int]) -> Any:
    """Return the result as plain data; for other objects, whether each is the one that went in."""
    if isinstance(obj, Tensor):
        there = "on the target" if obj.device == goal else f"on {obj.device.type}"
        there += " and part of a graph" * obj.requires_grad
        if obj.is_meta:
            return f"a {str(obj.dtype).removeprefix('torch.')} tensor of shape {tuple(obj.shape)} {there}"
        return {"tensor": obj, "where": there}
    if isinstance(obj, dict):
        return {key: seen_in(item, goal, originals) for key, item in obj.items()}
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        inside = [seen_in(item, goal, originals) for item in obj]
        return {type(obj).__name__: dict(zip(obj._fields, inside, strict=False))}
    if isinstance(obj, list | tuple):
        made = [seen_in(item, goal, originals) for item in obj]
        return made if isinstance(obj, list) else tuple(made)
    if obj is None or isinstance(obj, str | int | float):
        return obj
    if isinstance(obj, nn.Linear) and str(obj.weight.device) == str(goal):
        return "a module that was moved to the target"
    return "the same object" if id(obj) in originals else kind(obj)


def cases(draw: Draw) -> list[Case]:
    like: dict[str, Any] = {"like": torch.zeros(1)}
    n, d = draw.size(2, 4), draw.size(2, 3)
    x, y, mask = draw.normal(n, d), draw.integers(0, 9, n), draw.flags(n)
    training = {"x": x, "y": y, "meta": {"mask": mask, "id": "a7", "weights": [draw.normal(2), 0.5]}}
    words = {"text": "abc", "count": 3, "none": None, "x": x}
    return [
        case("a tensor", obj=x, target="elsewhere", **like),
        case("a tuple of two", obj=(x, y), target="elsewhere", **like),
        case("a dict in a dict, a list inside", obj=training, target="elsewhere", **like),
        case("a list of lists", obj=[[x, y], [draw.normal(2)], []], target="elsewhere", **like),
        case("a namedtuple", obj={"Batch": [x, mask]}, target="elsewhere", **like),
        case("a namedtuple in a list", obj=[{"Sample": [y, 3, "a word"]}, (x,)], target="elsewhere", **like),
        case("text, numbers and None", obj=words, target="elsewhere", **like),
        case("tensors that gradients flow to", obj=[{"with history": x}, {"a leaf": x}], target="elsewhere", **like),
        case(
            "sets, bytes and the like",
            obj=[x, *({"another thing": name} for name in OTHERS)],
            target="elsewhere",
            **like,
        ),
        case("a module and an object", obj=[{"a module": d}, {"an object": 1}, x], target="elsewhere", **like),
        case("from the CPU to the device", obj=(x, {"y": y}), target="device", **like),
        case("a dict that is flat", obj={"x": x, "rest": [y, mask]}, target="elsewhere", **like),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"afterwards": seen["input afterwards"]} if "input afterwards" in seen else {}
    if "result" in seen:
        fields |= {"came": worded(seen["result"]), "should": worded(wanted["result"])}
    if isinstance(seen.get("raised"), Raised):
        fields["error"] = seen["raised"]
    return fields


def worded(value: Any) -> str:
    """Describe a result in words, its tensors by their devices."""
    if isinstance(value, dict) and value.keys() == {"tensor", "where"}:
        return f"a tensor {value['where']}"
    if isinstance(value, dict):
        word = next(iter(value), "") if len(value) == 1 else ""
        named = word in TUPLES and isinstance(value[word], dict)
        inside = ", ".join(f"{key}={worded(item)}" for key, item in (value[word] if named else value).items())
        return f"{word if named else 'dict'}({inside})"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(worded, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, str) and " tensor of shape" in value:
        return "a tensor " + value.partition(") ")[2]
    return str(value)


EXERCISE = Exercise(
    "move_to",
    probe,
    cases,
    hints=(
        "A container is moved by moving what is in it. Which function moves what is in it, whatever that is? And what "
        "comes back for something that is neither a tensor nor a container?",
        "`isinstance(obj, tuple)` is also True for a namedtuple. Which attribute does a namedtuple have that a plain "
        "tuple does not?",
        "`Batch(x, mask)` takes its fields one by one, `tuple(...)` takes one iterable. How do you call `type(obj)` "
        "so that either gets what it wants? Build new containers; callers still need theirs.",
    ),
    quotes=quotes,
)
