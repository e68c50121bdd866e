"""The exercise `check_batch`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.diagnosed_models import Classifier, Snapshot, changed_modes, classifier, starting
from torchcourse.probes.observe import kind

FAULTS = ("device", "output-shape", "x-dtype", "x-nonfinite", "y-dtype", "y-range", "y-shape")


def probe(
    answer: Watched, x: Tensor, y: Tensor, classes: int, sizes: list[int], dtype: torch.dtype, seed: int,
    options: list[str], starts: str, left_behind: str,
) -> Observations:  # fmt: skip
    """Observe for each fault whether it was reported, and what became of the model."""
    model = starting(classifier(seed, x.device, dtype, sizes, *options), "training")
    _backward(model, sizes)
    starting(model, starts)
    model.runs.clear()
    before = Snapshot(model)
    batch = (x.cpu() if "x" in left_behind else x, y.cpu() if "y" in left_behind else y)
    try:
        found = answer(model, batch, num_classes=classes)
    except (RuntimeError, IndexError, ValueError, AttributeError) as error:  # as models or losses on a faulty batch
        return {"raised on a batch": Raised(type(error).__name__, str(error).split("\n")[0][:160], "a fault")}
    if not isinstance(found, list):
        return {"returned": kind(found)}
    seen = {fault: "reported" if fault in found else "not reported" for fault in FAULTS}
    names = [name for name in found if isinstance(name, str)]
    unknown = [str(name) for name in found if name not in FAULTS]
    return {
        **seen,
        "order of the list": "sorted" if names == sorted(set(names)) else "not sorted, or a name twice",
        "names that were not asked for": unknown,
        **before.seen(),
        "the model ran in": model.runs.modes if model.runs else "evaluation mode",
    }


def _backward(model: Classifier, sizes: list[int]) -> None:
    """Give the model gradients to lose."""
    weight = model.first.weight
    x = torch.linspace(-1, 1, 4 * sizes[0]).view(4, -1).to(weight.device, weight.dtype)
    with torch.no_grad():
        statistics = [b.clone() for b in model.buffers()]
    model(x).sum().backward()
    with torch.no_grad():
        for buffer, value in zip(model.buffers(), statistics, strict=True):
            buffer.copy_(value)


def batches(draw: Draw, rows: int) -> dict[str, Any]:
    """Return the inputs of a case without a fault."""
    inputs, classes = draw.size(3, 5), draw.size(3, 5)
    return {
        "x": draw.normal(rows, inputs), "y": draw.integers(0, classes, rows), "classes": classes,
        "sizes": [inputs, draw.size(6, 8), classes], "dtype": torch.float32, "seed": draw.size(0, 9999),
        "options": ["random dropout"], "starts": "frozen norm", "left_behind": "",
    }  # fmt: skip


def with_entry(tensor: Tensor, place: int, value: float) -> Tensor:
    """Return a copy with one entry changed."""
    changed = tensor.clone()
    changed.view(-1)[place] = value
    return changed


def cases(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)

    def batch(**changes: Any) -> dict[str, Any]:
        return batches(draw, n) | changes

    good, tolerant = batch(), ["casts", "random dropout"]
    x, y, classes = good["x"], good["y"], good["classes"]
    wide = {"sizes": [*good["sizes"][:2], classes + 1]}
    return [
        case("nothing wrong", **batch(starts="training")),
        case("a frozen batch norm", **batch()),
        case("a model in evaluation mode", **batch(starts="evaluation")),
        case("NaN in x", **good | {"x": with_entry(x, n, torch.nan)}),
        case("infinity in x", **good | {"x": with_entry(x, 1, torch.inf)}),
        case("labels from 1 on", **good | {"y": with_entry(y, 0, classes)}),
        case("a label of -1", **good | {"y": with_entry(y, n - 1, -1)}),
        case("a label of -100", **good | {"y": with_entry(y, 1, -100)}),
        case("labels as floats, one too large", **good | {"y": with_entry(y.float(), 2, classes)}),
        case("labels as floats, one NaN", **good | {"y": with_entry(y.float(), 1, torch.nan)}),
        case("labels of int32", **good | {"y": y.int()}),
        case("labels as a column", **good | {"y": y.unsqueeze(1)}),
        case("a single label, without dimensions", **good | {"y": y[0]}),
        case("a label too few", **good | {"y": y[1:]}),
        case("no labels at all", **good | {"y": y[:0]}),
        case("one output too many", **good | wide),
        case("x has a column too many", **good | {"x": torch.cat([x, x[:, :1]], 1)}),
        case("a double x for a float model", **good | {"x": x.double(), "options": tolerant}),
        case("a double model", **batch(dtype=torch.float64) | {"options": tolerant}),
        case("bytes, one output too many", **good | wide | {"x": draw.integers(0, 255, n, good["sizes"][0],
             dtype=torch.uint8), "options": tolerant}),
        case("several faults", **good | wide | {"x": with_entry(x, 0, -torch.inf), "y": with_entry(y, 0, -3).int()}),
        case("an integer parameter comes first", **good | {"options": ["integers first"]}),
        case("a model that raises a ValueError", **good | {"options": ["picky"]}),
        case("a model that raises an IndexError", **good | {"options": ["out of range"]}),
        case("a model that puts out a tuple", **good | {"options": ["a pair"]}),
        case("a head of another dtype", **good | {"options": ["a double head", "random dropout"]}),
        case("a model that draws in evaluation mode too", **good | {"options": ["draws"]}),
        case("labels were not moved", **good | {"left_behind": "y"}),
        case("x was not moved", **good | {"left_behind": "x", "options": tolerant}),
        case("neither was moved", **good | {"left_behind": "xy", "options": tolerant}),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    missed = [f for f in FAULTS if wanted.get(f) == "reported" and seen.get(f) == "not reported"]
    invented = [f for f in FAULTS if wanted.get(f) == "not reported" and seen.get(f) == "reported"]
    fields: dict[str, object] = {"missed": ", ".join(missed)} if missed else {}
    fields |= {"invented": ", ".join(invented)} if invented else {}
    return fields | {
        "ran": seen.get("the model ran in"),
        "modes": changed_modes(seen),
    }


EXERCISE = Exercise(
    "check_batch",
    probe,
    cases,
    hints=(
        "Begin with an empty list and seven questions, none of which depends on the answer to another. Which of them "
        "need the model's parameters, which only the batch, and which one needs a run?",
        "A run can raise. What does `try` have to return in this case, so that the fault is reported and the other "
        "six as well? And which comparison with NaN is true?",
        "Four things must not move: modes, batch statistics, gradients, random numbers. `evaluating` brings back the "
        "modes; `torch.no_grad` and `torch.random.fork_rng` are there for others.",
    ),
    quotes=quotes,
)
