"""The exercise `evaluate`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograde.hidden.common import override
from autograde.hidden.training.shared import (
    MIXED,
    VALUE,
    evaluate_in_inference_mode,
    evaluate_with_sums_on_the_device,
)
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.trainable_models import drawn_weights

WHY = (
    "`eval` switches dropout and batch norm, `no_grad` saves the memory of the graph: two different things, "
    "and both are needed. A batch counts by its length, because the last one may be shorter. Each module gets "
    "its own mode back: `train()` on the whole model would wake a frozen batch norm."
)
"""Why the reference is written as it is."""
REQUIRED = ("train-mode", "builds-graph", "averages-batches", "leaves-eval-mode")
"""The mistakes that a check must always be able to name."""

DEVICES = "Devices in the loop"
EVALUATING = "Judging without learning"


class Evaluate:
    """A right program; a mistake overrides one of its methods."""

    graph = False

    def __call__(self, model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
        was = model.training
        self.before(model)
        losses, right, sizes = [], [], []
        with torch.set_grad_enabled(self.graph):
            for x, y in loader:
                x, y = self.moved(x, y, device)
                logits = model(x)
                losses.append(loss_fn(logits, y).item())
                right.append((logits.argmax(1) == y).sum().item())
                sizes.append(len(y))
        self.after(model, was)
        return {"loss": self.loss(losses, sizes), "accuracy": self.accuracy(right, sizes)}

    def before(self, model: Any) -> None:
        model.eval()

    def after(self, model: Any, was: bool) -> None:
        model.train(was)

    def moved(self, x: Tensor, y: Tensor, device: Any) -> tuple[Tensor, Tensor]:
        return x.to(device), y.to(device)

    def loss(self, losses: list[float], sizes: list[int]) -> float:
        return summed(losses, sizes) / sum(sizes)

    def accuracy(self, right: list[int], sizes: list[int]) -> float:
        return sum(right) / sum(sizes)


def evaluating(**methods: Any) -> Callable[..., dict[str, float]]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., dict[str, float]] = override(Evaluate, **methods)()
    return program


def summed(losses: list[float], sizes: list[int]) -> float:
    return sum(loss * n for loss, n in zip(losses, sizes, strict=True))


def mean_loss_of_batches(_self: Evaluate, losses: list[float], _sizes: list[int]) -> float:
    return sum(losses) / len(losses)


def mean_accuracy_of_batches(_self: Evaluate, right: list[int], sizes: list[int]) -> float:
    return sum(r / n for r, n in zip(right, sizes, strict=True)) / len(sizes)


def switches_gradients_off(model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
    found = Evaluate()(model, loader, loss_fn, device)
    torch.set_grad_enabled(False)
    return found


class OwnLoss(Evaluate):
    """Computes a cross-entropy, whatever `loss_fn` is."""

    def __call__(self, model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
        return super().__call__(model, loader, F.cross_entropy, device)


def mode_of_the_outermost(_self: Evaluate, model: Any, was: bool) -> None:
    model.training = was


class LastBatchOnly(Evaluate):
    def loss(self, losses: list[float], sizes: list[int]) -> float:
        return losses[-1]

    def accuracy(self, right: list[int], sizes: list[int]) -> float:
        return right[-1] / sizes[-1]


class DividesByTheDataset(Evaluate):
    def __call__(self, model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
        self.all = len(loader.dataset)
        return super().__call__(model, loader, loss_fn, device)

    def loss(self, losses: list[float], sizes: list[int]) -> float:
        return summed(losses, sizes) / self.all

    def accuracy(self, right: list[int], sizes: list[int]) -> float:
        return sum(right) / self.all


class CountsFullBatches(Evaluate):
    def loss(self, losses: list[float], sizes: list[int]) -> float:
        return summed(losses, sizes) / (len(sizes) * sizes[0])

    def accuracy(self, right: list[int], sizes: list[int]) -> float:
        return sum(right) / (len(sizes) * sizes[0])


TRAIN_MODE = (
    "The model ran in {ran} where {should_run} is wanted: dropout and batch norm behave differently there, and what is "
    "measured is not the model that will be used."
)
UNEVEN = VALUE + (
    "each batch counted the same, and so the few samples of a smaller last batch counted more than the others."
)
LEFT_MODE = "The model was left in {got}, but should be in {want}, as it came: the caller goes on working with it."
MISTAKES = [
    Mistake("leaves-gradients-off", switches_gradients_off, "`{what}` is {got} where {want} is wanted: they were "
            "switched off and not on again, so the next training step would fail. `with torch.no_grad():` ends with "
            "its block.", EVALUATING),
    Mistake("averages-batches", evaluating(loss=mean_loss_of_batches, accuracy=mean_accuracy_of_batches), UNEVEN,
            EVALUATING),
    Mistake("averages-batches", evaluating(loss=mean_loss_of_batches), UNEVEN, EVALUATING),
    Mistake("averages-batches", evaluating(accuracy=mean_accuracy_of_batches), UNEVEN, EVALUATING),
    Mistake("builds-graph", evaluating(graph=True), "{got} of the batches built a graph where {want} should: nothing "
            "is differentiated here, so it only costs memory. `torch.no_grad()` switches it off.", EVALUATING),
    Mistake("train-mode", evaluating(before=lambda self, model: model.train()), TRAIN_MODE, EVALUATING),
    Mistake("train-mode", evaluating(before=lambda self, model: None), TRAIN_MODE, EVALUATING),
    Mistake("leaves-eval-mode", evaluating(after=lambda self, model, was: None), LEFT_MODE, EVALUATING),
    Mistake("leaves-train-mode", evaluating(after=lambda self, model, was: model.train()), LEFT_MODE, EVALUATING),
    Mistake("sets-the-outermost-mode", evaluating(after=mode_of_the_outermost), "The model was left in {got}, but "
            "should be in {want}: setting the attribute `training` changes one module only; give each one in "
            "`model.modules()` its own mode back.", EVALUATING),
    Mistake("train-mode", evaluating(before=lambda self, model: setattr(model, "training", False)), TRAIN_MODE
            + " Only the outermost module left training mode; `model.eval()` changes all modules in it.", EVALUATING),
    Mistake("ignores-loss-fn", OwnLoss(), VALUE + "that is a cross-entropy. Which loss is averaged is up to the "
            "caller: call `loss_fn`.", EVALUATING),
    Mistake("sum-of-batch-means-over-samples", evaluating(loss=lambda self, losses, sizes: sum(losses) / sum(sizes)),
            VALUE + "the means of the batches were added up and divided by the number of samples; a mean has to be "
            "multiplied by its batch's size first.", EVALUATING),
    Mistake("not-divided", evaluating(loss=lambda self, losses, sizes: summed(losses, sizes)), VALUE + "the sum was "
            "not divided by the number of samples.", EVALUATING),
    Mistake("not-divided", evaluating(loss=lambda self, losses, sizes: sum(losses)), VALUE + "the sum of the batches' "
            "means is not a mean.", EVALUATING),
    Mistake("counts-instead-of-share", evaluating(accuracy=lambda self, right, sizes: float(sum(right))), VALUE
            + "that is how many were right, where their share is wanted.", EVALUATING),
    Mistake("percent-not-fraction", evaluating(accuracy=lambda self, right, sizes: 100 * sum(right) / sum(sizes)), VALUE
            + "an accuracy is a fraction here, from 0 to 1.", EVALUATING),
    Mistake("divides-by-the-dataset", DividesByTheDataset(), VALUE + "the sum was divided by the size of the dataset. "
            "This loader drops its last batch and gives fewer samples: add up the sizes of the batches.", EVALUATING),
    Mistake("counts-full-batches", CountsFullBatches(), VALUE + "the sum was divided by the number of batches times "
            "the size of one. The last one may be smaller: add up the sizes of the batches.", EVALUATING),
    Mistake("last-batch-only", LastBatchOnly(), VALUE + "only the last batch was kept.", EVALUATING),
    Mistake("batch-not-moved", evaluating(moved=lambda self, x, y, device: (x, y)), MIXED, DEVICES),
    Mistake("batch-not-moved", evaluating(moved=lambda self, x, y, device: (x.to(device), y)), MIXED, DEVICES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def judged(n: int, batch: int, starts: str) -> dict[str, Any]:
        inputs, classes = draw.size(2, 5), draw.size(2, 6)
        weights = drawn_weights(draw, inputs, 7, classes)
        y = draw.integers(0, classes, n)
        return {"weights": weights, "x": draw.normal(n, inputs), "y": y, "batch": batch, "starts": starts}

    return [
        case("one sample", **judged(1, 4, "training")),
        case("batches of one", **judged(draw.size(3, 6), 1, "evaluation"), loss="margin"),
        case("many", **judged(draw.size(50, 99), 16, "training")),
    ]


# Right answers unlike the reference


def evaluate_on_the_cpu_at_once(model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, Any]:
    mode, outputs, labels = model.training, [], []
    model.train(False)
    for x, y in loader:
        with torch.no_grad():
            outputs.append(model(x.to(device)).cpu())
        labels.append(y)
    model.train(mode)
    out, y = torch.cat(outputs), torch.cat(labels)
    return {"accuracy": (out.max(1).indices == y).float().mean(), "loss": loss_fn(out, y), "count": len(y)}


def evaluate_a_copy(model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
    frozen = copy.deepcopy(model).requires_grad_(False).eval()
    found = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        z = frozen(x)
        found.append((float(loss_fn(z, y)) * len(y), int((z.argmax(1) == y).sum()), len(y)))
    loss, right, count = (sum(numbers) for numbers in zip(*found, strict=True))
    return {"loss": loss / count, "accuracy": right / count}


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    evaluate_in_inference_mode,
    evaluate_on_the_cpu_at_once,
    evaluate_a_copy,
    evaluate_with_sums_on_the_device,
]
