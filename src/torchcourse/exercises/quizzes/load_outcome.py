"""The exercise `load_outcome`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations

Shapes = dict[str, tuple[int, ...]]
PARTS = ("missing", "unexpected", "raises")


def probe(answer: Watched, saved: Shapes, wanted: Shapes, strict: bool) -> Observations:
    """Observe the outcome that an answer predicts; the order of names, and their container, do not matter."""
    predicted = answer(saved, wanted, strict)
    if not isinstance(predicted, dict):
        return {"prediction": predicted}
    return {str(part): in_order(value) for part, value in predicted.items()}


def in_order(names: object) -> object:
    """Return the names in a container, sorted; anything else as it is."""
    if isinstance(names, list | tuple | set | frozenset) and all(isinstance(name, str) for name in names):
        return sorted(map(str, names))
    return names


def model(shapes: Shapes) -> nn.Module:
    """Return a module with parameters of these names and shapes; names with dots lie in inner modules."""
    whole = nn.Module()
    for name, shape in shapes.items():
        *path, last = name.split(".")
        inner = whole
        for part in path:
            if not hasattr(inner, part):
                inner.add_module(part, nn.Module())
            inner = inner.get_submodule(part)
        inner.register_parameter(last, nn.Parameter(torch.zeros(shape)))
    return whole


def ground_truth(saved: Shapes, wanted: Shapes, strict: bool) -> dict[str, Any]:
    """Load such weights into such a model: once as asked, and once to read the names, with shapes that fit."""
    message = load(saved, wanted, strict)
    fitting = {name: torch.zeros(wanted.get(name, shape)) for name, shape in saved.items()}
    keys = model(wanted).load_state_dict(fitting, strict=False)
    return {"missing": keys.missing_keys, "unexpected": keys.unexpected_keys, "raises": bool(message)}


def load(saved: Shapes, wanted: Shapes, strict: bool) -> str:
    """Return the message with which `load_state_dict` raises, or "" if it does not."""
    try:
        model(wanted).load_state_dict({name: torch.zeros(shape) for name, shape in saved.items()}, strict=strict)
    except RuntimeError as error:
        return str(error)
    return ""


def cases(draw: Draw) -> list[Case]:
    a, b = draw.size(2, 3), draw.size(4, 5)
    body: Shapes = {"body.weight": (b, a), "body.bias": (b,)}
    head: Shapes = {"head.weight": (a, b), "head.bias": (a,)}
    other: Shapes = {"head.weight": (a + 5, b), "head.bias": (a + 5,)}

    def loading(name: str, saved: Shapes, wanted: Shapes, strict: bool = True) -> Case:
        return case(name, saved=saved, wanted=wanted, strict=strict)

    return [
        loading("everything fits", body | head, body | head),
        loading("in another order", head | body, body | head),
        loading("one missing", body, body | head),
        loading("one missing, not strict", body, body | head, strict=False),
        loading("a single bias missing", body, body | {"head.bias": (a,)}),
        loading("one too many", body | head, body),
        loading("one too many, not strict", body | head, body, strict=False),
        loading("other names", body, head),
        loading("other names, not strict", body, head, strict=False),
        loading("a prefix, not strict", {f"module.{name}": shape for name, shape in body.items()}, body, strict=False),
        loading("another shape", body | other, body | head),
        loading("another shape, not strict", body | other, body | head, strict=False),
        loading("another shape, and one missing", {"head.weight": (a + 5, b)}, body | head),
        loading("another shape, and one too many, not strict", body | other, head, strict=False),
        loading("turned round, not strict", {"w": (a, b)}, {"w": (b, a)}, strict=False),
        loading("the last of four sizes differs", {"conv.0.weight": (b, a, 3, 3)}, {"conv.0.weight": (b, a, 3, 5)}),
        loading("a shape that would broadcast, not strict", {"w": (1, a)}, {"w": (b, a)}, strict=False),
    ]


def quotes(inputs: Observations, _seen: Observations, wanted: Observations) -> dict[str, object]:
    message = load(inputs["saved"], inputs["wanted"], inputs["strict"]).partition(":")[2]
    first = re.sub(r"torch\.Size\(\[(.*?)\]\)", r"(\1)", " ".join(message.split())).split(". ")[0].rstrip(".")
    lists = " and ".join(f"{part} {wanted[part]}" for part in PARTS[:2])
    run = f"model.load_state_dict(saved, strict={inputs['strict']})"
    return {"run": run, "said": f"raises: {first}" if message else f"reports {lists}, and raises nothing"}


EXERCISE = Exercise(
    "load_outcome",
    probe,
    cases,
    hints=(
        "Say it from the model's point of view: which names does it want and not get, and which does it get and not "
        "want? Which of the two dicts do you go through for each?",
        "`strict` is about names. What happens to a name that both sides have, with a different shape on each, when "
        "strict is False?",
        "There are three reasons to raise. Two of them are excused by `strict=False`, the third is not. Is a shape "
        "that could be broadcast, or one with the same number of elements, the same shape?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "You load a checkpoint with `strict=False` and nothing raises. What can still be wrong?",
        "Every name may have failed to match: missing and unexpected keys are then only reported in what "
        "`load_state_dict` returns, and the model keeps its random weights. Shapes are compared in any case, so a "
        "head with another number of classes still raises. Read the two lists, or filter by name and shape yourself "
        "and assert that what is left over is what you expect.",
        "09_persistence",
    ),
)
