"""The exercise `initial_loss_gap`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.diagnosed_models import Snapshot, changed_modes, classifier, plain_number, starting
from torchcourse.probes.observe import kept


def probe(
    answer: Watched, x: Tensor, y: Tensor, classes: int, sizes: list[int], seed: int, scale: float, starts: str,
    knows: bool, raises: bool = False,
) -> Observations:  # fmt: skip
    """Observe the gap, and what became of the model; `starts` is as in `starting`."""
    model = starting(classifier(seed, x.device, x.dtype, sizes, "random dropout"), "evaluation")
    with torch.no_grad():
        model.last.weight.mul_(scale)
        y = model(x).argmax(1) if knows else y
    starting(model, starts).runs.clear()
    model.options += ("picky",) * raises
    before, raw = Snapshot(model), x.clone()
    gap = None
    expected = [ValueError] if raises else []
    with contextlib.suppress(*expected):
        gap = answer(model, (x, y), classes)
    return {
        "gap": "not asked" if raises else plain_number(gap),
        "the model ran in": model.runs.modes,
        "graphs": model.runs.graphs,
        **before.seen(),
        **kept(x=(x, raw)),
    }


def cases(draw: Draw) -> list[Case]:
    def drawn(
        starts: str, rows: int, scale: float = 1.0, dtype: torch.dtype = torch.float32, spare: int = 0
    ) -> dict[str, Any]:
        inputs, classes = draw.size(3, 5), draw.size(3, 7)
        return {
            "x": draw.normal(rows, inputs, dtype=dtype), "y": draw.integers(0, classes, rows), "classes": classes,
            "sizes": [inputs, draw.size(5, 8), classes + spare], "seed": draw.size(0, 9999), "scale": scale,
            "starts": starts, "knows": False,
        }  # fmt: skip

    return [
        case("a model in training mode", **drawn("training", 8)),
        case("a model in evaluation mode", **drawn("evaluation", 6)),
        case("a frozen batch norm", **drawn("frozen norm", 7)),
        case("labels that the model gets right", **drawn("training", 9) | {"knows": True}),
        case("outputs of zero", **drawn("training", 6, scale=0.0)),
        case("very sure outputs", **drawn("frozen norm", 6, scale=60.0)),
        case("float64", **drawn("training", 5, dtype=torch.float64)),
        case("more outputs than classes", **drawn("evaluation", 7, spare=3)),
        case("the model raises", **drawn("frozen norm", 4), raises=True),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"ran": seen.get("the model ran in"), "graphs": seen.get("graphs")}
    fields |= {"modes": changed_modes(seen), "number": inputs["classes"]}
    return fields | {"outputs": inputs["sizes"][-1]}


EXERCISE = Exercise(
    "initial_loss_gap",
    probe,
    cases,
    hints=(
        "Which loss does a model have that gives each of C classes the same probability? Which logarithm does "
        "`F.cross_entropy` use, and which one in `math` is the same?",
        "Nothing is learned here. What has to be off, so that dropout does not change the number, batch norm keeps its "
        "statistics, and no graph is built?",
        "`F.cross_entropy` wants logits. `evaluating(model)` gives each submodule its own mode back, even one that was "
        "frozen in evaluation mode. What makes a Python float of a tensor?",
    ),
    quotes=quotes,
)
