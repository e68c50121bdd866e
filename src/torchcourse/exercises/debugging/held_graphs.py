"""The exercise `held_graphs`: its probe, visible cases and hints."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

Pair = namedtuple("Pair", "loss count")


def things(weight: nn.Parameter) -> dict[str, Any]:
    """Return what a log may hold, by name."""
    used = torch.ones(2, requires_grad=True)
    (used * 2).sum().backward()  # type: ignore[no-untyped-call]
    loss = (weight * weight).sum()
    return {
        "loss": loss, "its number": loss.item(), "detached": loss.detach(), "parameter": weight, "view": weight.T,
        "leaf": torch.zeros(2, requires_grad=True), "leaf with a gradient": used, "plain": torch.arange(3),
        "copy": weight.clone(), "text": "loss", "nothing": None,
    }  # fmt: skip


def built(plan: Any, made: dict[str, Any]) -> Any:
    """Return the object that a plan describes; "#3" as a key stands for 3, a list that begins with "pair" for one.

    A list that begins with "ordered" or "default" stands for such a dict.
    """
    if isinstance(plan, list) and plan[:1] == ["ordered"]:
        return OrderedDict(built(plan[1], made))
    if isinstance(plan, list) and plan[:1] == ["default"]:
        return defaultdict(list, built(plan[1], made))
    if isinstance(plan, dict):
        return {int(key[1:]) if key.startswith("#") else key: built(value, made) for key, value in plan.items()}
    if isinstance(plan, list) and plan[:1] == ["pair"]:
        return Pair(*(built(value, made) for value in plan[1:]))
    if isinstance(plan, list | tuple):
        return type(plan)(built(value, made) for value in plan)
    return made[plan]


def probe(answer: Watched, plan: Any, weight: Tensor) -> Observations:
    """Observe the paths."""
    found = answer(built(plan, things(nn.Parameter(weight))))
    if not isinstance(found, list):
        return {"returned": kind(found)}
    paths = [path if isinstance(path, str) else kind(path) for path in found]
    return {"paths": sorted(paths), "order": "sorted" if paths == sorted(paths) else "not sorted"}


def cases(draw: Draw) -> list[Case]:
    def log(plan: Any) -> dict[str, Any]:
        return {"plan": plan, "weight": draw.normal(2, 3)}

    return [
        case("a list of losses", **log({"losses": ["its number", "loss", "its number", "loss"]})),
        case("nothing that keeps a graph", **log({"losses": ["its number", "detached"], "step": "plain"})),
        case("parameters and leaves", **log({"weights": ["parameter", "leaf", "leaf with a gradient"],
             "loss": "loss"})),
        case("a view and a copy of a parameter", **log({"weights": ["parameter", "view"], "best": "copy"})),
        case("dicts in a dict", **log({"log": {"val": ["loss"], "train": {"#7": "loss", "lr": "text"}}})),
        case("a list at the top", **log(["its number", "loss", {"a": "loss"}])),
        case("a tuple at the top, with a pair", **log(("plain", ["pair", "loss", "nothing"]))),
        case("an OrderedDict and a defaultdict", **log({"best": ["ordered", {"w": "copy", "b": "parameter"}],
             "log": ["default", {"loss": ["loss"]}]})),
        case("numbers as keys at the top", **log({"#3": "loss", "#20": "leaf"})),
        case("twelve in a row", **log({"z": ["loss"] * 12, "a": "loss"})),
        case("the same tensor twice", **log({"one": "loss", "other": ["loss"]})),
        case("nothing at all", **log({})),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want = seen.get("paths"), wanted.get("paths")
    if not isinstance(got, list) or not isinstance(want, list):
        return {}
    extra, missing = sorted({*got} - {*want}), sorted({*want} - {*got})
    fields: dict[str, object] = {"extra": extra[0]} if extra else {}
    return fields | ({"missing": missing[0]} if missing else {})


EXERCISE = Exercise(
    "held_graphs",
    probe,
    cases,
    hints=(
        "Which attribute of a tensor leads to the graph that made it? Ask a parameter, a loss and a detached loss for "
        "it, and look at what they say.",
        "Containers hold containers. A function that calls itself needs two things: what it looks at, and the path "
        "that led there. What does it do with a tensor, what with a dict, what with a list?",
        "The top is special: a key stands there bare, an index in brackets. One level down both are in brackets, "
        "and `repr` writes quotes around a string.",
    ),
    any_device=False,
    quotes=quotes,
)
