"""The exercise `layerwise_groups`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, raised
from torchcourse.probes.observe import kind


class Encoder(nn.Module):
    """A model with a head, encoder layers and embeddings, and nothing that computes.

    `extras` may hold "norm" (a norm beside the layers), "scale" (a parameter that belongs to no layer), "tied" (the
    head's weight is the embedding's), "words first" (the embeddings are made before the head), "frozen" (the
    embeddings and the lowest layer learn nothing), "frozen head", "others" (parts whose names begin as those of head
    and layers do) and "layers share" (the lowest layer shares a parameter with the highest, and one with the norm, if
    there is one).
    """

    def __init__(self, depth: int, extras: list[str]) -> None:
        super().__init__()
        if "words first" in extras:
            self.words = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5)
        if "norm" in extras:
            self.norm = nn.LayerNorm(3)
        if "scale" in extras:
            self.scale = nn.Parameter(torch.ones(()))
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)) for _ in range(depth))
        if "words first" not in extras:
            self.words = nn.Embedding(5, 3)
        self.places = nn.Embedding(4, 3)
        if "tied" in extras:
            self.head.weight = self.words.weight
        if "others" in extras:
            self.headroom, self.layers_norm = nn.Linear(3, 1), nn.LayerNorm(3)
        if "layers share" in extras:
            lowest: Any = self.layers[0]
            self.layers[-1][0].weight = lowest[0].weight  # type: ignore[index]
            if "norm" in extras:
                self.norm.bias = lowest[1].bias
        self.head.requires_grad_("frozen head" not in extras)
        if "frozen" in extras:
            self.words.requires_grad_(False)
            self.layers[0].requires_grad_(False)


def probe(answer: Watched, depth: int, extras: list[str], lr: float, decay: float) -> Observations:
    """Observe the rate that each parameter gets, and which are in no group, in several, or frozen and in one."""
    model = Encoder(depth, extras)
    groups: Any = answer(model, lr, decay)
    if not isinstance(groups, list) or not all(isinstance(g, dict) and "params" in g for g in groups):
        return {"returned": f"{kind(groups)}, where a list of dicts with `params` and `lr` is wanted"}
    listed = [{**g, "params": list(g["params"])} for g in groups]
    held = [(id(p), g.get("lr")) for g in listed for p in g["params"]]
    names = {id(p): name for name, p in model.named_parameters()}
    learning = {key: name for key, name in names.items() if dict(model.named_parameters())[name].requires_grad}
    times = {name: sum(one == key for one, _ in held) for key, name in names.items()}
    rates = {names[key]: rate for key, rate in held if key in names and times[names[key]] == 1}
    seen: Observations = {
        "rate by parameter": {name: rates[name] for name in sorted(rates) if name in learning.values()},
        "learn, but are in no group": [name for name in learning.values() if not times[name]],
        "are in several groups": [name for name in names.values() if times[name] > 1],
        "are frozen, but in a group": [name for key, name in names.items() if times[name] and key not in learning],
    }
    return {**seen, "an optimizer": _taken(listed)}


def _taken(groups: list[dict[str, Any]]) -> Any:
    try:
        torch.optim.SGD([dict(g) for g in groups], lr=1.0)
    except (ValueError, TypeError) as error:
        return raised(error)
    return "takes the groups"


def derive(_case: Case, seen: Observations) -> Observations:
    """Reduce the rates to one for each part."""
    if "rate by parameter" not in seen:
        return seen
    parts: dict[str, list[Any]] = {}
    for name, rate in seen["rate by parameter"].items():
        part = name.partition(".")[0]
        number = name.split(".")[1] if part == "layers" else ""
        parts.setdefault(f"layer {int(number):02d}" if number else part, []).append(rate)
    rest = {name: value for name, value in seen.items() if name != "rate by parameter"}
    one = {part: rates[0] if len(set(map(str, rates))) == 1 else rates for part, rates in parts.items()}
    return {**{f"rate of {part}": one[part] for part in sorted(one)}, **rest}


def cases(draw: Draw) -> list[Case]:
    lr, decay = draw.size(1, 9) / 1000, draw.size(60, 90) / 100
    near: dict[str, Any] = {"rtol": 1e-6, "atol": 0.0, "lr": lr}
    return [
        case("three layers", depth=3, extras=[], decay=decay, **near),
        case("twelve layers", depth=12, extras=[], decay=0.5, **near),
        case("a norm and a scale of its own", depth=2, extras=["norm", "scale"], decay=decay, **near),
        case("frozen from below", depth=3, extras=["frozen"], decay=decay, **near),
        case("head and embedding share a weight", depth=2, extras=["tied"], decay=decay, **near),
        case("parts called headroom and layers_norm", depth=2, extras=["others"], decay=decay, **near),
        case("layers that share", depth=3, extras=["norm", "layers share"], decay=decay, **near),
        case("the embedding is made first, and shared", depth=2, extras=["tied", "words first"], decay=decay, **near),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    layers = sorted(name for name in wanted if name.startswith("rate of layer"))
    rates = {"head": "rate of head", "top": layers[-1], "lowest": layers[0], "words": "rate of words"}
    fields: dict[str, object] = {field: seen[name] for field, name in rates.items() if name in seen}
    fields |= {f"want_{field}": wanted[name] for field, name in rates.items() if name in wanted}
    fields |= {"out": ", ".join(seen["learn, but are in no group"])} if seen.get("learn, but are in no group") else {}
    return fields | ({"returned": seen["returned"]} if "returned" in seen else {})


EXERCISE = Exercise(
    "layerwise_groups",
    probe,
    cases,
    hints=(
        "Put the parts in a row, from the head down to the embeddings. At which place in this row does each stand, and "
        "what has the rate to do with that place?",
        "`reversed(model.layers)` goes from the head down. After the last layer, what is left of the model? "
        "`parameters()` of the whole model still has it, along with everything that you have placed already.",
        "A set of the parameters placed so far answers two questions at once: is this one shared, and is it left over? "
        "And which attribute of a parameter says that it is frozen?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
