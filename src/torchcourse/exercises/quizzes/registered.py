"""The exercise `registered`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations

Attributes = list[tuple[str, str]]
KINDS = {
    "parameter": "nn.Parameter(torch.ones(2))",
    "tensor": "torch.ones(2)",
    "buffer": "nn.Buffer(torch.ones(2))",
    "non-persistent buffer": "nn.Buffer(torch.ones(2), persistent=False)",
    "module": "nn.Linear(2, 2)",
    "list of modules": "[nn.Linear(2, 2)]",
    "ModuleList": "nn.ModuleList([nn.Linear(2, 2)])",
}
"""The kinds of attribute, as the code that makes one."""
PLACES = ("parameters", "state_dict", "moved")


def probe(answer: Watched, attributes: Attributes) -> Observations:
    """Observe the names that an answer predicts for each place, in any order and any container."""
    predicted = answer(attributes)
    if not isinstance(predicted, dict):
        return {"prediction": predicted}
    return {str(place): in_order(names) for place, names in predicted.items()}


def in_order(names: object) -> object:
    """Return the names in a container, sorted; anything else as it is."""
    if isinstance(names, list | tuple | set | frozenset) and all(isinstance(name, str) for name in names):
        return sorted(map(str, names))
    return names


def value(kind: str) -> Any:
    """Return an attribute of this kind."""
    made: dict[str, Any] = {
        "parameter": lambda: nn.Parameter(torch.ones(2)),
        "tensor": lambda: torch.ones(2),
        "buffer": lambda: nn.Buffer(torch.ones(2)),
        "non-persistent buffer": lambda: nn.Buffer(torch.ones(2), persistent=False),
        "module": lambda: nn.Linear(2, 2),
        "list of modules": lambda: [nn.Linear(2, 2)],
        "ModuleList": lambda: nn.ModuleList([nn.Linear(2, 2)]),
    }
    return made[kind]()


def tensors(attribute: Any) -> list[Tensor]:
    """Return the tensors of an attribute, also those of modules in it."""
    if isinstance(attribute, nn.Module):
        return [*attribute.parameters(), *attribute.buffers()]
    return [t for part in attribute for t in tensors(part)] if isinstance(attribute, list) else [attribute]


def ground_truth(attributes: Attributes) -> dict[str, list[str]]:
    """Make a module with these attributes, move it, and look."""
    module = nn.Module()
    for name, kind in attributes:
        setattr(module, name, value(kind))
    module.to("meta")
    moved = [name for name, _ in attributes if all(t.is_meta for t in tensors(getattr(module, name)))]
    trained = {name.split(".")[0] for name, _ in module.named_parameters()}
    saved = {name.split(".")[0] for name in module.state_dict()}
    return {
        "parameters": [name for name, _ in attributes if name in trained],
        "state_dict": [name for name, _ in attributes if name in saved],
        "moved": moved,
    }


NAMES = ["weight", "scale", "mean", "mask", "first", "layers", "table", "head"]


def drawn(draw: Draw, *kinds: str) -> Attributes:
    """Return an attribute of each kind, with different names."""
    names = sorted(NAMES, key=lambda _: draw.size(0, 999))
    return list(zip(names, kinds, strict=False))


def cases(draw: Draw) -> list[Case]:
    def of(name: str, *kinds: str) -> Case:
        return case(name, attributes=drawn(draw, *kinds))

    return [
        of("one parameter", "parameter"),
        of("a tensor and a parameter", "tensor", "parameter"),
        of("a buffer", "buffer", "parameter"),
        of("a buffer that is not saved", "non-persistent buffer", "parameter"),
        of("a module", "module"),
        of("a list of modules", "list of modules", "parameter"),
        of("a ModuleList", "ModuleList"),
        of("buffers of both kinds and a tensor", "buffer", "tensor", "non-persistent buffer"),
        of("one of each", *KINDS),
        case("nothing", attributes=[]),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    kinds = dict(inputs["attributes"])
    wrong = next((place for place in PLACES if seen.get(place) != wanted[place]), PLACES[0])
    got, want = (set(side.get(wrong) or ()) for side in (seen, wanted))
    name = min(got ^ want or kinds, default="")
    where = {"parameters": "among the parameters", "state_dict": "in the state_dict", "moved": "moved by `.to`"}[wrong]
    told = f"finds m.{name} {where}" if name in want else f"does not find m.{name} {where}"
    run = f"m.{name} = {KINDS.get(kinds.get(name, ''), '...')}" if name in kinds else "m = nn.Module()"
    return {"run": run, "said": told if name in kinds else f"finds {sorted(want)} {where}"}


EXERCISE = Exercise(
    "registered",
    probe,
    cases,
    hints=(
        "`nn.Module` notices an assignment only if it knows the kind of the value. Which of the seven kinds does it "
        "know, and which two are plain Python attributes for it?",
        "What does `.to` go through: what is trained, what is saved, or everything that the module knows? Compare a "
        "buffer that is saved with one that is not.",
        "Make a table of seven kinds and three questions, and fill it in by trying `nn.Module` in a cell of its own. "
        "Your function only looks it up.",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "What is the difference between a parameter, a buffer and a plain tensor attribute?",
        "A parameter is trained, saved and moved; a buffer is moved and saved but not trained, and with "
        "`persistent=False` it is only moved. A plain tensor, or a Python list of modules, is none of that: the "
        "module does not know it, so the optimizer, the checkpoint and `.to` all miss it. Use `nn.ModuleList` for the "
        "layers and `register_buffer` or `nn.Buffer` for statistics and masks.",
        "03_modules",
    ),
)
