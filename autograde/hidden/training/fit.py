"""The exercise `fit`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from autograde.hidden.common import override
from autograde.hidden.training.shared import (
    MIXED,
    StoppingFromHistory,
    StoppingWithCountdown,
    evaluate_in_inference_mode,
    evaluate_with_sums_on_the_device,
    schedule_early_returns,
    step_clearing_afterwards,
    step_with_closure,
)
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.trainable_models import drawn_weights

WHY = (
    "It is built from four answers that were checked before: `train_step` sets the mode and clears the gradients, "
    "`evaluate` brings its own mode and `no_grad`, `EarlyStopping` copies the best weights when it sees them, and "
    "`warmup_cosine` gives each epoch its rate. The losses of an epoch are weighted by batch size."
)
"""Why the reference is written as it is."""
REQUIRED = ("keeps-last-not-best", "validates-in-train-mode", "constant-lr")
"""The mistakes that a check must always be able to name."""

DEVICES = "Devices in the loop"
CAPSTONE = "The capstone: handwritten digits"


class Fit:
    """A right training; a mistake overrides one of its methods."""

    def __call__(self, model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any) -> Any:
        device = self.place(device)
        optimizer = self.optimizer(model, lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * max(len(train_loader), 1))
        history: dict[str, list[float]] = {"train_loss": [], "val_loss": [], "val_accuracy": [], "lr": []}
        best, weights = math.inf, copy.deepcopy(model.state_dict())
        for epoch in range(epochs):
            history["lr"].append(optimizer.param_groups[0]["lr"])
            for part in self.parts():
                if part == "train":
                    self.before_training(model, epoch)
                    history["train_loss"].append(self.epoch(model, train_loader, optimizer, schedule, device))
                else:
                    self.before_judging(model)
                    loss, accuracy = self.judged(model, val_loader, device)
            history["val_loss"].append(loss)
            history["val_accuracy"].append(accuracy)
            if self.better(loss, best) or epoch == 0:
                best, weights = loss, copy.deepcopy(model.state_dict())
            if self.stops(history["val_loss"]):
                break
        self.restore(model, weights)
        return self.returned(history)

    def parts(self) -> tuple[str, str]:
        return "train", "judge"

    def place(self, device: Any) -> Any:
        return device

    def optimizer(self, model: Any, lr: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr)

    def before_training(self, model: Any, epoch: int) -> None:
        model.train()

    def before_judging(self, model: Any) -> None:
        model.eval()

    def epoch(self, model: Any, loader: Any, optimizer: Any, schedule: Any, device: Any) -> float:
        total, count = 0.0, 0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            self.step(optimizer, schedule)
            total, count = total + loss.item() * len(y), count + len(y)
        return total / count

    def step(self, optimizer: Any, schedule: Any) -> None:
        optimizer.step()
        schedule.step()

    @torch.no_grad()
    def judged(self, model: Any, loader: Any, device: Any) -> tuple[float, float]:
        total, right, count = 0.0, 0, 0
        for x, y in loader:
            logits, y = model(x.to(device)), y.to(device)
            total += F.cross_entropy(logits, y, reduction="sum").item()
            right += int((logits.argmax(1) == y).sum())
            count += len(y)
        return total / count, right / count

    def better(self, loss: float, best: float) -> bool:
        return loss < best

    def stops(self, losses: list[float]) -> bool:
        return False

    def restore(self, model: Any, weights: Any) -> None:
        model.load_state_dict(weights)

    def returned(self, history: dict[str, list[float]]) -> Any:
        return history


def listing_other_rates(_self: Fit, history: dict[str, list[float]]) -> Any:
    return history | {"lr": [rate / (1 + epoch) for epoch, rate in enumerate(history["lr"])]}


class TwoPasses(Fit):
    def epoch(self, model: Any, loader: Any, optimizer: Any, schedule: Any, device: Any) -> float:
        super().epoch(model, loader, optimizer, schedule, device)
        return super().epoch(model, loader, optimizer, schedule, device)


class AddsLosses(Fit):
    def epoch(self, model: Any, loader: Any, optimizer: Any, schedule: Any, device: Any) -> float:
        return super().epoch(model, loader, optimizer, schedule, device) * len(loader)


class DividesMeansBySamples(Fit):
    def epoch(self, model: Any, loader: Any, optimizer: Any, schedule: Any, device: Any) -> float:
        return super().epoch(model, loader, optimizer, schedule, device) * len(loader) / len(loader.dataset)


class SoftmaxFirst(Fit):
    """Hands probabilities to cross-entropy, and lists what the logits give."""

    def epoch(self, model: Any, loader: Any, optimizer: Any, schedule: Any, device: Any) -> float:
        total, count = 0.0, 0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            logits = model(x)
            F.cross_entropy(logits.softmax(1), y).backward()  # type: ignore[no-untyped-call]
            self.step(optimizer, schedule)
            total, count = total + F.cross_entropy(logits.detach(), y).item() * len(y), count + len(y)
        return total / count


class Percent(Fit):
    def judged(self, model: Any, loader: Any, device: Any) -> tuple[float, float]:
        loss, accuracy = super().judged(model, loader, device)
        return loss, 100 * accuracy


class SumsValidationLosses(Fit):
    def judged(self, model: Any, loader: Any, device: Any) -> tuple[float, float]:
        loss, accuracy = super().judged(model, loader, device)
        return loss * len(loader.dataset), accuracy


class AveragesBatches(Fit):
    @torch.no_grad()
    def judged(self, model: Any, loader: Any, device: Any) -> tuple[float, float]:
        losses = [F.cross_entropy(model(x.to(device)), y.to(device)).item() for x, y in loader]
        return sum(losses) / len(losses), super().judged(model, loader, device)[1]


class KeepsTheMostAccurate(Fit):
    def __call__(self, *given: Any, **named: Any) -> Any:
        self.accuracies: list[float] = []
        return super().__call__(*given, **named)

    def judged(self, model: Any, loader: Any, device: Any) -> tuple[float, float]:
        loss, accuracy = super().judged(model, loader, device)
        self.accuracies.append(accuracy)
        return loss, accuracy

    def better(self, loss: float, best: float) -> bool:
        *before, last = self.accuracies
        return last > max(before, default=-1.0)


def cleared_before_the_step(optimizer: Any, schedule: Any) -> None:
    optimizer.zero_grad()
    optimizer.step()
    schedule.step()


def train_mode_once(_self: Fit, model: Any, epoch: int) -> None:
    if epoch == 0:
        model.train()


def fitting(**methods: Any) -> Callable[..., Any]:
    """Return the right training with these methods in place of its own."""
    program: Callable[..., Any] = override(Fit, **methods)()
    return program


WEIGHTS = 'In the case "{case}" the weights at the end are {whose}: '
UNLEARNED = 'In the case "{case}", `{what}` is {got}: '
TRAINED = "Training ran in {got} where {want} is wanted: "
MISTAKES = [
    Mistake("keeps-last-not-best", fitting(restore=lambda self, model, weights: None), WEIGHTS + "the model learned, "
            "but kept what it had after its last epoch. A copy made at the best one has to be put back.", CAPSTONE),
    Mistake("keeps-worst-not-best", fitting(better=lambda self, loss, best: loss > best), WEIGHTS + "a lower "
            "validation loss is better.", CAPSTONE),
    Mistake("validates-in-train-mode", fitting(before_judging=lambda self, model: model.train()), "Validation ran in "
            "{ran_in} where {should_run_in} is wanted: batch norm then uses the statistics of each validation batch, "
            "and even learns from them.", CAPSTONE),
    Mistake("constant-lr", fitting(step=lambda self, optimizer, schedule: optimizer.step()), "The {what} is {got} over "
            "the epochs, but should be {want}: either no schedule changes it, or the schedule was never stepped.",
            CAPSTONE),
    Mistake("constant-lr",
            fitting(step=lambda self, optimizer, schedule: optimizer.step(), returned=listing_other_rates),
            "The {what} is {got} over the epochs, but should be {want}: the rates were computed and listed, but never "
            "put into the optimizer.", CAPSTONE),
    Mistake("ignores-lr", fitting(optimizer=lambda self, model, lr: torch.optim.AdamW(model.parameters(), 0.01)), "In "
            "the case \"{case}\" the rates listed are {got}: they should be computed from the `lr` that the caller "
            "gives.", CAPSTONE),
    Mistake("did-not-learn",
            fitting(optimizer=lambda self, model, lr: torch.optim.AdamW(model.parameters(), lr * 1e-4)), UNLEARNED
            + "either the learning rate is too small or too large for this optimizer, or old gradients were not "
                "cleared.",
            CAPSTONE),
    *(Mistake("did-not-learn", fitting(step=step), WEIGHTS + "either no step changed them, for lack of a step or "
              "of gradients, or they were put back.", CAPSTONE) for step in (
        lambda self, optimizer, schedule: None,
        lambda self, optimizer, schedule: schedule.step(),
        lambda self, optimizer, schedule: cleared_before_the_step(optimizer, schedule),
    )),
    Mistake("validates-before-training", fitting(parts=lambda self: ("judge", "train")), "Validation ran {got}, but "
            "should run {want}: the numbers of an epoch, and the weights kept as the best, are those after its pass.",
            CAPSTONE),
    Mistake("trains-in-eval-mode", fitting(before_training=lambda self, model, epoch: model.eval()), TRAINED + "batch "
            "norm learns no statistics there.", CAPSTONE),
    Mistake("trains-in-eval-mode", fitting(before_training=train_mode_once), TRAINED + "the validation of the first "
            "epoch left the model in evaluation mode.", CAPSTONE),
    Mistake("percent-not-fraction", Percent(), "In the case \"{case}\", `{what}` is {got}: accuracies should be "
            "fractions, from 0 to 1.", CAPSTONE),
    Mistake("not-cross-entropy", SoftmaxFirst(), "The model was trained with {got}. Either another loss was taken, or "
            "a softmax stands in front of `F.cross_entropy`, which takes the logits as they are.", CAPSTONE),
    Mistake("train-loss-not-a-mean", AddsLosses(), UNLEARNED + "the losses were added up, but not divided.",
            CAPSTONE),
    Mistake("train-loss-not-a-mean", DividesMeansBySamples(), UNLEARNED + "the loss of a batch is a mean already, so "
            "multiply it by the number of samples in its batch before the sum is divided by that of all samples.",
            CAPSTONE),
    Mistake("val-loss-not-a-mean", SumsValidationLosses(), WEIGHTS + "`val_loss` is not the mean cross-entropy. Either "
            "a sum was not divided, or the loss did not get logits.", CAPSTONE),
    Mistake("averages-batches", AveragesBatches(), WEIGHTS + "`val_loss` is the mean of the batches' means, in which "
            "the few samples of a smaller last batch count more than others. Each batch counts by its size.", CAPSTONE),
    Mistake("keeps-the-most-accurate", KeepsTheMostAccurate(), WEIGHTS + "the best epoch is the one with the lowest "
            "validation loss, not the one with the highest accuracy.", CAPSTONE),
    Mistake("two-passes-an-epoch", TwoPasses(), "The number of passes over the training data is {got} where {want} is "
            "wanted: one epoch is one pass.", CAPSTONE),
    Mistake("batch-not-moved", fitting(place=lambda self, device: torch.device("cpu")), MIXED, DEVICES),
    Mistake("history-incomplete",
            fitting(returned=lambda self, history: {key: history[key] for key in ("train_loss", "val_loss")}),
            "The history has {got}, but should have {want}.", CAPSTONE),
    Mistake("history-incomplete",
            fitting(returned=lambda self, history: {key: values[-1] for key, values in history.items()}),
            "The history has {got}, but should have {want}: a list for each, with one entry an epoch.", CAPSTONE),
    Mistake("stops-early", fitting(stops=lambda self, losses: min(losses) < min(losses[-5:])), "The history has {got}, "
            "but should have {want}: training ended early, when the validation loss no longer fell. It should go on "
            "for all epochs; only the weights go back to the best one.", CAPSTONE),
    Mistake("returns-nothing", fitting(returned=lambda self, history: None), "A history is wanted, but what came back "
            "is {returned}.", CAPSTONE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def small(sign: float, epochs: int) -> dict[str, Any]:
        x = torch.cat([torch.ones(40, 1), draw.normal(40, 4)], dim=1)
        other = torch.cat([-torch.ones(26, 1), draw.normal(26, 4)], dim=1)
        weights = drawn_weights(draw, 4, 8, 2)
        weights |= {"w2": 0.1 * weights["w2"], "b2": 0.0 * weights["b2"]}
        train, val = [x, (x[:, 2] > 0).long()], [other, (sign * other[:, 2] > 0).long()]
        return {"train": train, "val": val, "test": [], "weights": weights, "epochs": epochs, "lr": 0.05, "batch": 8}

    return [case("one epoch", **small(1.0, 1)), case("worse with every epoch", **small(-1.0, draw.size(3, 7)))]


# Right answers unlike the reference


def fit_with_one_cycle(
    model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any
) -> dict[str, list[float]]:
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=epochs * len(train_loader))
    history: dict[str, list[float]] = {k: [] for k in ("train_loss", "val_loss", "val_accuracy", "lr")}
    stopper = StoppingWithCountdown(patience=10**9)
    for _ in range(epochs):
        losses = []
        for x, y in train_loader:
            losses.append(step_clearing_afterwards(model, (x.to(device), y.to(device)), F.cross_entropy, optimizer))
            cycle.step()
        judged = evaluate_with_sums_on_the_device(model, val_loader, F.cross_entropy, device)
        history["train_loss"].append(sum(losses) / len(losses))
        history["val_loss"].append(judged["loss"])
        history["val_accuracy"].append(judged["accuracy"])
        history["lr"].append(float(cycle.get_last_lr()[0]))
        stopper.update(judged["loss"], model)
    stopper.restore(model)
    return history


def fit_with_momentum(
    model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any
) -> dict[str, list[float]]:
    optimizer = torch.optim.SGD(model.parameters(), lr=3 * lr, momentum=0.9, nesterov=True)
    stopper = StoppingFromHistory(patience=epochs + 1)
    rows: list[tuple[float, ...]] = []
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = 3 * lr * schedule_early_returns(epoch + 1, warmup=1, total=epochs + 1, peak=1.0)
        before = optimizer.param_groups[0]["lr"]
        total = sum(
            step_with_closure(model, (x.to(device), y.to(device)), nn.CrossEntropyLoss(), optimizer) * len(x)
            for x, y in train_loader
        )
        judged = evaluate_in_inference_mode(model, val_loader, nn.CrossEntropyLoss(), device)
        stopper.update(judged["loss"], model)
        rows.append((total / len(train_loader.dataset), judged["loss"], judged["accuracy"], before))
    stopper.restore(model)
    columns = [list(column) for column in zip(*rows, strict=True)]
    return dict(zip(["train_loss", "val_loss", "val_accuracy", "lr"], columns, strict=True))


def fit_without_an_optimizer(
    model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any
) -> dict[str, Sequence[float]]:
    velocity = {p: torch.zeros_like(p) for p in model.parameters()}
    size = {p: torch.zeros_like(p) for p in model.parameters()}
    out: dict[str, list[float]] = {"lr": [], "val_loss": [], "val_accuracy": [], "train_loss": []}
    best: Any = None
    for epoch in range(epochs):
        rate, last = lr * (1 - epoch / (epochs + 1)), 0.0
        model.train()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x.to(device)), y.to(device), label_smoothing=0.05)
            model.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            last = loss.item()
            with torch.no_grad():
                for p in velocity:
                    velocity[p] = 0.9 * velocity[p] + 0.1 * p.grad
                    size[p] = 0.99 * size[p] + 0.01 * p.grad**2
                    p -= rate * velocity[p] / (size[p].sqrt() + 1e-6)
        judged = evaluate_in_inference_mode(model, val_loader, F.cross_entropy, device)
        for key, value in {"lr": rate, "val_loss": judged["loss"], "val_accuracy": judged["accuracy"]}.items():
            out[key].append(value)
        out["train_loss"].append(last)
        if best is None or judged["loss"] <= best[0]:
            best = (judged["loss"], {k: v.clone() for k, v in model.state_dict().items()})
    model.load_state_dict(best[1])
    return dict(out)


RIGHT_ANSWERS: list[Callable[..., Any]] = [fit_with_one_cycle, fit_with_momentum, fit_without_an_optimizer]
