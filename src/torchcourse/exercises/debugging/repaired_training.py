"""The exercise `repaired_training`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import number, with_detail
from torchcourse.probes.whole_trainings import watched_training

LEARNABLE, FALLS = 0.8, 0.45
"""From which accuracy to reach the loss has to fall, and to which share of the first; of probabilities, it cannot."""
ALIKE = 0.05
"""How far the accuracy may be from that of the network's outputs; a mean over unequal batches is a little off."""
NEVER_JUDGED = "no run over the whole test, with an output for each class, came after the last step"
EXPECTED = {
    "empty parameter list": "no parameter is registered",
    "attribute '_parameters'": "Module.__init__() was not called",
    "attribute '_modules'": "Module.__init__() was not called",
    "before Module.__init__() call": "Module.__init__() was not called",
    "object has no attribute 'parameters'": "Module.__init__() was not called",
    "is out of bounds": "a label has no output",
}


def probe(
    answer: Watched, train: list[Tensor], test: list[Tensor], epochs: int, lr: float, seed: int, good: float,
    most: float = 1.0,
) -> Observations:  # fmt: skip
    """Observe a training; where `good` is 0 it is short, and runs again with the same and with other settings."""
    settings: dict[str, Any] = {"epochs": epochs, "lr": lr, "seed": seed}
    real = train[0].device.type in ("cpu", "cuda")
    if good and not real:  # a simulated device is slow and computes what the CPU does
        train, test, settings["epochs"] = [t[:24] for t in train], [t[:12] for t in test], 3
    with watched_training(test[0], int(train[1].max()) + 1) as watch:
        try:
            result = answer(tuple(train), tuple(test), **settings)
        except (AttributeError, IndexError, ValueError) as error:
            reasons = [reason for words, reason in EXPECTED.items() if words in str(error)]
            if not reasons:
                raise
            return {"the call": Raised(type(error).__name__, str(error).split("\n")[0][:120].rstrip("."), reasons[0])}
    if not isinstance(result, dict) or not {"loss", "accuracy"} <= result.keys():
        return {"returned": f"{kind(result)} without the keys loss and accuracy"}
    seen = {**_of_numbers(result, settings["epochs"]), **watch.seen()}
    if good and real:
        seen |= _of_learning(result, watch.accuracy(test[1]), good, most)
    if not good:
        torch.rand(3)
        others: dict[str, dict[str, Any]] = {
            "the same seed again": {},
            "another seed": {"seed": seed + 1},
            "another lr": {"lr": 3 * lr},
        }
        for name, other in others.items():
            again = answer(tuple(train), tuple(test), **{**settings, **other})
            same = [number(v) for v in again["loss"]] == [number(v) for v in result["loss"]]
            accurate = number(again["accuracy"]) == number(result["accuracy"])
            seen[name] = "other losses" if not same else "the same losses" if accurate else "another accuracy"
    return seen


def _of_numbers(result: dict[str, Any], epochs: int) -> Observations:
    """Return what sort of numbers a training returns."""
    losses, accuracy = result["loss"], result["accuracy"]
    if not isinstance(losses, list):
        words = kind(losses)
    elif any(isinstance(loss, Tensor) for loss in losses):
        graph = any(isinstance(loss, Tensor) and loss.requires_grad for loss in losses)
        words = "tensors with a graph behind them" if graph else "tensors"
    else:
        floats = all(isinstance(loss, float) for loss in losses)
        words = f"{len(losses)} {'floats' if floats else 'values that are not all floats'} for {epochs} epochs"
    inside = not isinstance(number(accuracy), str) and 0 <= float(number(accuracy)) <= 1
    return {"losses": words, "the accuracy": "a number from 0 to 1" if inside else "not a number from 0 to 1"}


def _of_learning(result: dict[str, Any], measured: float | None, good: float, most: float) -> Observations:
    """Return how well it has learned, against a threshold, and whether the loss fell where it can.

    Args:
        measured: what share of the test the network got right while it was judged, if it was.
    """
    accuracy = number(result["accuracy"])
    share = accuracy if isinstance(accuracy, float) else 0.0
    verdict = "too low" if share < good else "too high" if share > most else "good"
    bound = {
        "too low": f", and {good:.0%} is within easy reach",
        "too high": f", and more than {most:.0%} is out of reach",
    }
    percent = math.floor(100 * share + 1e-6)  # rounded up, it might be the bound that it does not reach
    seen: Observations = {"accuracy": with_detail(verdict, f"{percent}%{bound.get(verdict, '')}")}
    if verdict == "good" and (measured is None or abs(measured - share) > ALIKE):
        told = f"the network got {measured:.0%} right" if measured is not None else NEVER_JUDGED
        seen = {"accuracy": with_detail("not the network's", f"{share:.0%} was returned, but {told}")}
    losses: list[Any] = [number(loss) for loss in result["loss"]] if isinstance(result["loss"], list) else []
    if good < LEARNABLE or not losses or not all(isinstance(loss, float) for loss in losses):
        return seen
    first, last = losses[0], min(losses[-5:])
    fell = "a fraction of" if 0 < last <= FALLS * first else "not far below"
    detail = f"{last:.3g} at the end and {first:.3g} at first"
    return {**seen, "loss": with_detail(f"{fell} what it was at first", detail)}


def rings(draw: Draw, n: int, count: int = 3) -> list[Tensor]:
    """Draw points in the plane; their class is the ring in which they lie."""
    angle, classes = draw.uniform(0, 6.2832, n), draw.integers(0, count, n)
    radius = 0.3 + classes + draw.uniform(0, 0.7, n)
    return [torch.stack([radius * angle.cos(), radius * angle.sin()], 1) / 1.5, classes]


def outer_rings(draw: Draw, n: int) -> list[Tensor]:
    """Draw points in the innermost and the outermost of three rings, with a third feature; no label is 1."""
    x, classes = rings(draw, n)
    x = torch.cat([x, draw.normal(n, 1)], 1)
    return [x[classes != 1], classes[classes != 1]]


def mixed(draw: Draw, n: int) -> list[Tensor]:
    """Draw points whose class on one side is 1, and on the other 0 or 2, whatever the place."""
    x = draw.normal(n, 2)
    either = torch.where(draw.flags(n, share=0.6), 0, 2)
    return [x, torch.where(x[:, 0] > 0, either, 1)]


def turned_rings(draw: Draw, n: int) -> list[Tensor]:
    """Draw points in rings, the middle one first; the labels of the inner and the outer one are exchanged."""
    x, classes = rings(draw, n)
    order = (classes != 1).long().argsort(stable=True)
    return [x[order], 2 - classes[order]]


def cases(draw: Draw) -> list[Case]:
    return [
        case("three rings", train=rings(draw, 240), test=rings(draw, 150), epochs=150, lr=0.02,
             seed=draw.size(0, 999), good=0.8),
        case("two classes that overlap", train=mixed(draw, 300), test=mixed(draw, 200), epochs=60, lr=0.02,
             seed=draw.size(0, 999), good=0.63),
        case("a test with other labels than the training data", train=rings(draw, 120), test=turned_rings(draw, 300),
             epochs=100, lr=0.02, seed=draw.size(0, 999), good=0.2, most=0.47),
        case("four epochs, four rings", train=rings(draw, 40, 4), test=rings(draw, 12, 4), epochs=4, lr=0.01,
             seed=draw.size(0, 999), good=0.0),
        case("three features, and a class that nobody has", train=outer_rings(draw, 45), test=outer_rings(draw, 20),
             epochs=3, lr=0.01, seed=draw.size(0, 999), good=0.0),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    names = {"accuracy": "accuracy", "active": "active while judging", "graphs": "graphs while judging",
             "gradients": "gradients at each step", "outside": "parameters outside the optimizer", "call": "the call",
             "losses": "losses", "kind_of_accuracy": "the accuracy", "again": "the same seed again",
             "loss": "loss"}  # fmt: skip
    fields: dict[str, object] = {field: seen[name] for field, name in names.items() if name in seen}
    accuracy = seen.get("accuracy")
    if isinstance(accuracy, Raised) and accuracy.kind != "good":
        fields["low" if accuracy.kind == "too low" else "told"] = accuracy.message
    return fields


EXERCISE = Exercise(
    "repaired_training",
    probe,
    cases,
    hints=(
        "Go through the code from the top, as the course has: the class, then the loss, then the loop, then the "
        "judging. Run it after each repair; the first two faults raise an error, which says what is missing.",
        "Without an activation, two linear layers are one. And which number of outputs does a classifier have, which "
        "loss goes with it, and which dtype do the labels have then?",
        "Read the loop line by line: where are gradients cleared, in which mode is the accuracy measured, is there a "
        "graph, and what exactly is appended to the history? Does everything lie on the device of the data?",
    ),
    quotes=quotes,
    seconds=30.0,
)
