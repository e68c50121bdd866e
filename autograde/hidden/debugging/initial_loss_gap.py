"""The exercise `initial_loss_gap`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograde.hidden.common import override
from autograde.hidden.debugging.shared import (
    LOST_MODE,
    NOT_FINALLY,
    ONE_MODE,
    RAN,
    TRACES,
    Modes,
    judged,
    log_probabilities,
    no_eval,
    remembers_one,
    restores_nothing,
    restores_one,
    restores_training,
    train_mode,
)
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A guess among C classes costs ln(C), in the natural logarithm that `F.cross_entropy` uses. A gap far above "
    "zero means that the model is sure of something before it has learned anything. Only a number leaves the function, "
    "so no graph and no mode can leak."
)
"""Why the reference is written as it is."""
REQUIRED = ("log2-not-ln", "train-mode", "softmax-first", "builds-graph")
"""The mistakes that a check must always be able to name."""

START = "The loss before the first step"


class Gap(Modes):
    """A right program; a mistake overrides one of its methods."""

    graph = False

    def __call__(self, model: Any, batch: Any, num_classes: int) -> Any:
        x, y = batch
        modes = self.before(model)
        try:
            with torch.set_grad_enabled(self.graph):
                loss = self.loss(model(x), y)
        except Exception:
            self.failed(model, modes)
            raise
        self.after(model, modes)
        return self.gap(loss.item(), num_classes)

    def failed(self, model: Any, modes: Any) -> None:
        self.after(model, modes)

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(logits, y)

    def gap(self, loss: float, classes: int) -> Any:
        return loss - math.log(classes)


def measuring(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Gap, **methods)()
    return program


def as_a_tensor(model: Any, batch: Any, num_classes: int) -> Tensor:
    x, y = batch
    with judged(model), torch.no_grad():
        return F.cross_entropy(model(x), y) - math.log(num_classes)


def against_the_outputs(model: Any, batch: Any, num_classes: int) -> float:
    x, y = batch
    with judged(model), torch.no_grad():
        logits = model(x)
    return F.cross_entropy(logits, y).item() - math.log(logits.shape[1])


def without_surplus(model: Any, batch: Any, num_classes: int) -> float:
    x, y = batch
    with judged(model), torch.no_grad():
        logits = model(x)[:, :num_classes]
    return F.cross_entropy(logits, y).item() - math.log(num_classes)


GAP = 'In the case "{case}" the {what} came out as {got} where {want} is wanted: '
MISTAKES = [
    Mistake("log2-not-ln", measuring(gap=lambda self, loss, c: loss - math.log2(c)), GAP + "cross-entropy is measured "
            "with the natural logarithm, `math.log`.", START),
    Mistake("log10-not-ln", measuring(gap=lambda self, loss, c: loss - math.log10(c)), GAP + "cross-entropy is "
            "measured with the natural logarithm, `math.log`.", START),
    Mistake("train-mode", measuring(before=no_eval), RAN, TRACES),
    Mistake("train-mode", measuring(before=train_mode), RAN, TRACES),
    Mistake("softmax-first", measuring(loss=lambda self, z, y: F.cross_entropy(z.softmax(1), y)), GAP
            + "`cross_entropy` does the softmax itself, and after two of them nothing is far from a guess.", START),
    Mistake("builds-graph", measuring(graph=True), "The model ran with graphs {graphs}: nothing is differentiated "
            "here, so they only cost memory.", START),
    Mistake("leaves-eval-mode", measuring(after=restores_nothing), LOST_MODE, TRACES),
    Mistake("leaves-train-mode", measuring(after=restores_training), LOST_MODE, TRACES),
    Mistake("restores-one-mode", measuring(before=remembers_one, after=restores_one), ONE_MODE, TRACES),
    Mistake("leaves-eval-mode-when-it-raises", measuring(failed=restores_nothing), NOT_FINALLY, TRACES),
    Mistake("adds-the-guess", measuring(gap=lambda self, loss, c: loss - math.log(1 / c)), GAP + "the logarithm of 1 "
            "/ C is negative, so subtracting it adds what a guess costs.", START),
    Mistake("no-difference", measuring(gap=lambda self, loss, c: loss), GAP + "that is the loss itself; subtract "
            "what a guess costs.", START),
    Mistake("reversed", measuring(gap=lambda self, loss, c: math.log(c) - loss), GAP + "the sign is the wrong way "
            "round: take the loss minus what a guess costs.", START),
    Mistake("without-its-sign", measuring(gap=lambda self, loss, c: abs(loss - math.log(c))), GAP + "a model may be "
            "better than a guess, and the sign says so.", START),
    Mistake("ratio-not-difference", measuring(gap=lambda self, loss, c: loss / math.log(c)), GAP + "a difference is "
            "wanted, which is 0 for a guess.", START),
    Mistake("sum-not-mean", measuring(loss=lambda self, z, y: F.cross_entropy(z, y, reduction="sum")), GAP + "the "
            "losses of the samples were added up; a guess costs ln({number}) for each.", START),
    Mistake("cuts-surplus-outputs", without_surplus, GAP + "the loss is taken over all {outputs} outputs: whatever "
            "the model gives to those that stand for no class is lost to the others.", START),
    Mistake("counts-the-outputs", against_the_outputs, GAP + "a guess among {number} classes costs ln({number}); the "
            "model has {outputs} outputs, and some of them stand for no class.", START),
    Mistake("returns-a-tensor", as_a_tensor, GAP + "`item()` makes a number of it.", START),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(starts: str, rows: int, **more: Any) -> dict[str, Any]:
        inputs, classes = draw.size(2, 6), draw.size(2, 12)
        return {
            "x": draw.normal(rows, inputs), "y": draw.integers(0, classes, rows), "classes": classes,
            "sizes": [inputs, draw.size(3, 9), classes], "seed": draw.size(0, 9999), "scale": 1.0, "starts": starts,
            "knows": False,
        } | more  # fmt: skip

    return [
        case("one sample", **drawn("evaluation", 1)),
        case("many samples", **drawn("training", 90, scale=0.1)),
        case("a sure model", **drawn("frozen norm", 9, scale=200.0)),
    ]


# Right answers unlike the reference


def gap_of_a_copy(model: Any, batch: Any, num_classes: int) -> float:
    with torch.inference_mode():
        logits = copy.deepcopy(model).eval()(batch[0])
        return float(log_probabilities(logits, batch[1]).mean()) + math.log(1 / num_classes)


def gap_against_even_logits(model: Any, batch: Any, num_classes: int) -> float:
    x, y = batch
    with judged(model), torch.no_grad():
        logits = model(x)
    even = torch.zeros_like(logits[:, :num_classes])
    return (F.cross_entropy(logits, y) - F.cross_entropy(even, y)).item()


RIGHT_ANSWERS: list[Callable[..., Any]] = [gap_of_a_copy, gap_against_even_logits]
