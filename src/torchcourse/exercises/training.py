"""Lesson 05: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

import copy
import gc
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from torchcourse import digits
from torchcourse.exercise import Case, Draw, Exercise, case
from torchcourse.exercises.looking import kind, look
from torchcourse.exercises.trainable import (
    LOSSES,
    Noted,
    Witness,
    drawn_weights,
    flat,
    mode,
    number,
    plainly_float,
    remark,
)
from torchcourse.observations import Observations
from torchcourse.probing import Watched

# --- cross_entropy -----------------------------------------------------------------------------------------------


def probe_cross_entropy(answer: Watched, logits: Tensor, labels: Tensor) -> dict[str, Any]:
    logits = logits.requires_grad_()
    loss = answer(logits, labels)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        return {**look(loss, logits), "gradient of the logits": "none: the result has no history"}
    loss.sum().backward()  # type: ignore[no-untyped-call]
    return {**look(loss, logits), "gradient of the logits": logits.grad}


def cases_cross_entropy(draw: Draw) -> list[Case]:
    n, c = draw.size(5, 7), draw.size(3, 4)
    labels = draw.integers(0, c, n)
    far = torch.full((4, c), -1000.0)
    far[torch.arange(4), draw.integers(0, c, 4)] = 0.0
    return [
        case("a batch", logits=draw.normal(n, c), labels=labels),
        case("as many examples as classes", logits=2 * draw.normal(c, c), labels=draw.integers(0, c, c)),
        case("one example", logits=draw.normal(1, c), labels=draw.integers(0, c, 1)),
        case("logits in the hundreds", logits=draw.uniform(-900, 900, n, c), labels=labels),
        case("sure of itself, and often wrong", logits=far, labels=draw.integers(0, c, 4)),
        case("logits all near 10000", atol=2e-3, logits=1e4 + draw.normal(n, c), labels=labels),
        case("float64", logits=draw.normal(n, c, dtype=torch.float64), labels=labels),
    ]


def quotes_cross_entropy(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    n, c = inputs["logits"].shape
    return {"n": n, "c": c, "largest": inputs["logits"].max().item()}


cross_entropy = Exercise(
    "cross_entropy",
    probe_cross_entropy,
    cases_cross_entropy,
    hints=(
        "The loss of one example is minus the logarithm of the probability that its label gets. Which number of each "
        "row do you have to look up, and which function looks up one per row?",
        "Write log(exp(z_y) / Σ exp(z)) as a difference of two terms. Which of the two needs no exponential at all?",
        "What is exp(1000) in float32? `torch.logsumexp` takes the largest entry out of the sum before it "
        "exponentiates. Does what you use do so too?",
    ),
    forbids=(
        "cross_entropy", "log_softmax", "nll_loss", "cross_entropy_loss", "nll_loss_nd", "nll_loss2d",
        "nll_loss_forward", "nll_loss2d_forward", "special_log_softmax", "sparse_log_softmax", "linear_cross_entropy",
    ),
    quotes=quotes_cross_entropy,
)  # fmt: skip

# --- train_step --------------------------------------------------------------------------------------------------


def _counted(optimizer: torch.optim.Optimizer) -> list[int]:
    """A list that gets an entry for each step the optimizer takes."""
    steps: list[int] = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    return steps


def quotes_modes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return {"ran": seen["the model ran in"], "should_run": wanted["the model ran in"]}


def probe_train_step(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, lr: float, starts: str
) -> dict[str, Any]:
    model = Noted(weights).train(starts == "training")
    optimizer = torch.optim.SGD(model.parameters(), lr)
    steps, witness, first = _counted(optimizer), Witness(LOSSES[loss]), list[str]()
    optimizer.register_step_post_hook(lambda *_: witness.events.append("step"))
    losses = []
    for x, y in zip(xs, ys, strict=True):
        losses.append(plainly_float(answer(model, (x, y), witness, optimizer)))
        first = first or list(witness.events)
    return {
        "returned": losses,
        "the model ran in": model.modes(),
        "hooks of the model": "ran" if model.hooked >= len(model.ran) else "were skipped",
        "optimizer steps": len(steps),
        "in the first step": ", then ".join(first),
        "parameters afterwards": flat(model.parameters()),
    }


def _batches(draw: Draw, loss: str, sizes: list[int], inputs: int, outputs: int, dtype: torch.dtype) -> dict[str, Any]:
    xs = [draw.normal(size, inputs, dtype=dtype) for size in sizes]
    if loss == "cross entropy":
        return {"xs": xs, "ys": [draw.integers(0, outputs, size) for size in sizes]}
    return {"xs": xs, "ys": [draw.normal(size, outputs, dtype=dtype) for size in sizes]}


def _learning(
    draw: Draw, loss: str, sizes: list[int], dtype: torch.dtype = torch.float32, **more: Any
) -> dict[str, Any]:
    inputs, hidden, outputs = draw.size(2, 4), draw.size(4, 5), draw.size(2, 3)
    weights = drawn_weights(draw, inputs, hidden, outputs, dtype)
    return {"weights": weights, **_batches(draw, loss, sizes, inputs, outputs, dtype), "loss": loss, **more}


def cases_train_step(draw: Draw) -> list[Case]:
    n, slow = draw.size(4, 6), dict[str, Any](lr=0.1)
    return [
        case("one step", **_learning(draw, "mean squared error", [n], starts="training", **slow)),
        case("three steps", **_learning(draw, "mean squared error", [n, n, n], starts="training", **slow)),
        case("a model that comes in evaluation mode", **_learning(draw, "cross entropy", [n, n], starts="evaluation",
             **slow)),
        case("a loss that is not symmetric", **_learning(draw, "lopsided", [n, 2], starts="training", lr=0.05)),
    ]  # fmt: skip


train_step = Exercise(
    "train_step",
    probe_train_step,
    cases_train_step,
    hints=(
        "A step is five things: forget the old gradients, predict, compare, differentiate, update. In which order, and "
        "which two of them belong to the optimizer?",
        "Dropout and batch norm look at the model's mode. Who guarantees that the model is in training mode when your "
        "step begins?",
        "A loss tensor carries the graph that made it. Which method gives its one number to Python without it?",
    ),
    quotes=quotes_modes,
)

# --- evaluate ----------------------------------------------------------------------------------------------------


def probe_evaluate(
    answer: Watched, weights: dict[str, Tensor], x: Tensor, y: Tensor, batch: int, starts: str
) -> dict[str, Any]:
    model = Noted(weights).train(starts == "training")
    before = flat(model.parameters())
    loader = DataLoader(TensorDataset(x.cpu(), y.cpu()), batch_size=batch)
    returned = answer(model, loader, F.cross_entropy, x.device)
    if not isinstance(returned, dict) or not {"loss", "accuracy"} <= returned.keys():
        return {"returned": f"{kind(returned)} without the keys loss and accuracy"}
    return {
        "loss": number(returned["loss"]),
        "accuracy": number(returned["accuracy"]),
        "the model ran in": model.modes(),
        "graphs built": sum(note["graph"] for note in model.ran),
        "mode afterwards": f"{mode(model)} mode",
        "parameters": "as before" if torch.equal(before, flat(model.parameters())) else "changed",
    }


def cases_evaluate(draw: Draw) -> list[Case]:
    def judged(n: int, batch: int, starts: str) -> dict[str, Any]:
        inputs, classes = draw.size(3, 4), draw.size(3, 4)
        weights = drawn_weights(draw, inputs, 6, classes)
        weights["w2"] *= 3
        x, some = draw.normal(n, inputs), draw.flags(n, share=0.6)
        y = torch.where(some, Noted(weights).eval()(x).argmax(1), draw.integers(0, classes, n))
        return {"weights": weights, "x": x, "y": y, "batch": batch, "starts": starts}

    return [
        case("batches of one size", **judged(12, 4, "training")),
        case("a last batch of one", **judged(13, 4, "training")),
        case("a last batch of three, in evaluation mode", **judged(11, 8, "evaluation")),
        case("everything in one batch", **judged(draw.size(5, 7), 64, "evaluation")),
    ]


evaluate = Exercise(
    "evaluate",
    probe_evaluate,
    cases_evaluate,
    hints=(
        "Three things should be different from training: the mode, the graph, and who may change. Which two settings "
        "do you make before the loop, and which one do you take back after it?",
        "`loss_fn` gives the mean over one batch. If the last batch is smaller, what must each mean be multiplied by "
        "before you add it up, and what do you divide by at the end?",
        "The loader gives CPU tensors. On which device is the model? And in which mode was it when you got it?",
    ),
    quotes=quotes_modes,
)

# --- accumulated_step --------------------------------------------------------------------------------------------


def probe_accumulated(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, lr: float, starts: str,
    times: int,
) -> dict[str, Any]:  # fmt: skip
    model = Noted(weights).train(starts == "training")
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.5)
    steps = _counted(optimizer)
    micro_batches = list(zip(xs, ys, strict=True))
    losses = [plainly_float(answer(model, list(micro_batches), LOSSES[loss], optimizer)) for _ in range(times)]
    return {
        "returned": losses,
        "optimizer steps": len(steps),
        "the model ran in": model.modes(),
        "mode afterwards": f"{mode(model)} mode",
        "parameters afterwards": flat(model.parameters()),
    }


def cases_accumulated(draw: Draw) -> list[Case]:
    def pieces(loss: str, sizes: list[int], starts: str = "training", times: int = 1) -> dict[str, Any]:
        return _learning(draw, loss, sizes, torch.float64, lr=0.2, starts=starts, times=times)

    exactly = {"rtol": 1e-9, "atol": 1e-10}
    return [
        case("three of one size", **exactly, **pieces("mean squared error", [4, 4, 4])),
        case("sizes differ", **exactly, **pieces("cross entropy", [5, 2, 1])),
        case("a single micro-batch", **exactly, **pieces("mean squared error", [draw.size(3, 5)])),
        case("two steps in a row", **exactly, **pieces("mean squared error", [4, 1], times=2)),
        case("a model in evaluation mode", **exactly, **pieces("cross entropy", [3, 3], "evaluation")),
    ]


accumulated_step = Exercise(
    "accumulated_step",
    probe_accumulated,
    cases_accumulated,
    hints=(
        "`backward` adds to `.grad`. How many times do you call it, how many times `step`, and when are the old "
        "gradients forgotten?",
        "The mean over all examples is a weighted mean of the micro-batches' means. Which weight does one of 2 "
        "examples get beside one of 6?",
        "You need the number of examples of all micro-batches before the first backward. What do you return, so that "
        "it is the loss of the whole batch?",
    ),
    quotes=quotes_modes,
)

# --- clip_gradients ----------------------------------------------------------------------------------------------


def probe_clip(
    answer: Watched, gradients: list[Tensor | None], max_norm: float, generator: bool
) -> dict[str, Any]:
    like = next(g for g in gradients if g is not None)
    parameters = [nn.Parameter(torch.ones_like(like if g is None else g)) for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = None if gradient is None else gradient.clone()
    before = [p.grad for p in parameters]
    norm = answer((p for p in parameters) if generator else parameters, max_norm)
    kept = all(p.grad is b for p, b in zip(parameters, before, strict=True))
    return {
        "returned": plainly_float(norm),
        "gradients": flat(p.grad for p in parameters if p.grad is not None),
        "gradient tensors": "the same objects" if kept else "replaced by others",
    }


def cases_clip(draw: Draw) -> list[Case]:
    def gradients(scale: float = 1.0) -> list[Tensor | None]:
        return [scale * draw.normal(3, 2), scale * 2 * draw.normal(4), scale * draw.normal(2, 2)]

    return [
        case("too large", gradients=gradients(3.0), max_norm=1.0, generator=False),
        case("small enough", gradients=gradients(0.01), max_norm=2.0, generator=False),
        case("a parameter without gradient", gradients=[*gradients(), None], max_norm=0.5, generator=False),
        case("as model.parameters() gives them", gradients=gradients(), max_norm=1.5, generator=True),
        case("all zero", gradients=[torch.zeros(3), torch.zeros(2, 2)], max_norm=1.0, generator=False),
        case("a single number", gradients=[draw.uniform(3, 4)], max_norm=0.5, generator=False),
        case("float64", gradients=[5 * draw.normal(4, dtype=torch.float64)], max_norm=1.0, generator=True),
    ]


clip_gradients = Exercise(
    "clip_gradients",
    probe_clip,
    cases_clip,
    hints=(
        "Think of all gradients as one long vector. How do you get its length from the lengths of its pieces?",
        "`model.parameters()` is a generator: it can be walked once. How often do you need to walk it, and what do you "
        "do about parameters whose `.grad` is None?",
        "By what is every gradient multiplied, and what should that factor never exceed? Which operation multiplies a "
        "tensor in place?",
    ),
    forbids=("torch.nn.utils.clip_grad",),
)

# --- warmup_cosine -----------------------------------------------------------------------------------------------


def probe_schedule(
    answer: Watched, warmup: int, total: int, peak: float, floor: float | None, steps: list[int]
) -> dict[str, Any]:
    more = {} if floor is None else {"floor": floor}
    rates = {step: number(answer(step, warmup=warmup, total=total, peak=peak, **more)) for step in steps}
    return {
        "while it warms up": [rate for step, rate in rates.items() if step < warmup],
        "from the peak to the end": [rate for step, rate in rates.items() if warmup <= step <= total],
        "after the end": [rate for step, rate in rates.items() if step > total],
    }


def cases_schedule(draw: Draw) -> list[Case]:
    warmup, total, peak = draw.size(8, 12), draw.size(90, 110), draw.pick([0.1, 0.02, 0.5])

    def at(warmup: int, total: int) -> list[int]:
        span = total - warmup
        up = sorted({0, warmup // 4, warmup // 2, max(warmup - 1, 0)})
        down = [warmup, warmup + 1, warmup + span // 3, warmup + span // 2, total - 1, total]
        return [*(step for step in up if step < warmup), *dict.fromkeys(down), total + 1, total + span // 2, 3 * total]

    def plan(warmup: int, total: int, peak: float, floor: float | None) -> dict[str, Any]:
        return {"warmup": warmup, "total": total, "peak": peak, "floor": floor, "steps": at(warmup, total)}

    exactly = {"rtol": 1e-6, "atol": 1e-9}
    return [
        case("up, down to zero, and on", **exactly, **plan(warmup, total, peak, None)),
        case("down to a floor", **exactly, **plan(warmup, total, peak, peak / 10)),
        case("no warm-up at all", **exactly, **plan(0, total, peak, peak / 20)),
        case("more warm-up than decay", **exactly, **plan(60, 80, 1.0, 0.25)),
    ]


def quotes_schedule(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"floor": 0.0 if inputs["floor"] is None else inputs["floor"]}


warmup_cosine = Exercise(
    "warmup_cosine",
    probe_schedule,
    cases_schedule,
    hints=(
        "There are three stretches. What is the rate at step 0, at step `warmup`, at step `total`, and at every step "
        "after that?",
        "For the middle stretch, work out how much of the way from `warmup` to `total` is done, a number from 0 to 1. "
        "What is the cosine of π times it at both ends?",
        "Half of (1 + cosine) runs from 1 to 0. What must it be multiplied by, and what added, to run from peak to "
        "floor? And what if warmup is 0?",
    ),
    any_device=False,
    quotes=quotes_schedule,
)

# --- EarlyStopping -----------------------------------------------------------------------------------------------


def _fill(model: nn.BatchNorm1d, value: float) -> None:
    """Make a model recognisable: every weight, and every buffer of floats, is `value`."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(int(value) if tensor.dtype == torch.int64 else value)


def _restored(stopper: Any, answer: Watched, model: nn.BatchNorm1d) -> tuple[float, float]:
    with answer.watched():
        stopper.restore(model)
    assert model.running_mean is not None
    return model.weight[0].item(), model.running_mean[0].item()


def probe_stopping(
    answer: Watched, metrics: Tensor, patience: int, min_delta: float | None, width: int
) -> dict[str, Any]:
    stopper = answer(patience) if min_delta is None else answer(patience, min_delta)
    model, told = nn.BatchNorm1d(width), list[Any]()
    for count, metric in enumerate(metrics.tolist(), 1):
        _fill(model, count)
        with answer.watched():
            stop = stopper.update(metric, model)
        told.append(kind(stop) if stop is None or isinstance(stop, str) else bool(stop))
    best = number(stopper.best)
    _fill(model, -1)
    weights, buffers = _restored(stopper, answer, model)
    _fill(model, -2)
    again, _ = _restored(stopper, answer, nn.BatchNorm1d(width))
    return {
        "update returned": told,
        "best": best,
        "restore gave the weights of update": weights,
        "restore gave the buffers of update": buffers,
        "restored into a second model": again,
    }


def cases_stopping(draw: Draw) -> list[Case]:
    width, nan = draw.size(2, 4), math.nan

    def told(metrics: list[float], patience: int, min_delta: float | None = None) -> dict[str, Any]:
        series = torch.tensor(metrics, dtype=torch.float64)
        return {"metrics": series, "patience": patience, "min_delta": min_delta, "width": width}

    low = draw.uniform(0.3, 0.5).item()
    return [
        case("better, then worse", **told([1.0, 0.8, 0.9, 1.0, 1.1, 1.2], 3)),
        case("worse in between, then better", **told([1.0, 1.2, 1.1, low, 0.9, 0.8, 0.7], 3)),
        case("a plateau", **told([1.0, low, low, low], 2)),
        case("NaN at the start", **told([nan, 1.0, low, 0.9], 2)),
        case("NaN on the way", **told([1.0, low, nan, nan, nan], 2)),
        case("gains below min_delta", **told([1.0, 0.96, 0.92, 0.4, 0.38, 0.36], 2, 0.1)),
        case("a patience of one", **told([1.0, 0.9, 0.95, 0.5], 1)),
    ]


def quotes_stopping(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    def first(told: list[Any]) -> object:
        return f"at update {told.index(True) + 1}" if True in told else "never"

    return {
        "metrics": ", ".join(f"{m:.3g}" for m in inputs["metrics"].tolist()),
        "stopped": first(seen["update returned"]), "should_stop": first(wanted["update returned"]),
    }  # fmt: skip


early_stopping = Exercise(
    "EarlyStopping",
    probe_stopping,
    cases_stopping,
    hints=(
        "Two things have to be remembered from one update to the next beside the weights. Which, and when is each of "
        "them set back?",
        "`model.state_dict()` holds the very tensors that the next optimizer step changes. What do you have to do so "
        "that the best weights stay what they were?",
        "Every comparison with NaN is False. Write the question so that False means no improvement, also when NaN is "
        "the first value ever seen.",
    ),
    any_device=False,
    quotes=quotes_stopping,
)

# --- AdamW -------------------------------------------------------------------------------------------------------


class _Run:
    """Parameters, the learner's optimizer over them, and gradients given from outside."""

    def __init__(self, answer: Watched, values: Sequence[Tensor], groups: list[dict[str, Any]], options: Any) -> None:
        self.answer, self.parameters = answer, [nn.Parameter(v.clone()) for v in values]
        apart = [{"params": [p], **g} for p, g in zip(self.parameters, groups, strict=True)] if groups else None
        self.optimizer = answer(apart or self.parameters, **options)

    def step(self, gradients: list[Tensor | None], number: int) -> None:
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient[number].clone()
        with self.answer.watched():
            self.optimizer.step()


def probe_adamw(
    answer: Watched, values: list[Tensor], gradients: list[Tensor | None], groups: list[dict[str, Any]],
    options: dict[str, Any], slower_at: int,
) -> dict[str, Any]:  # fmt: skip
    run, steps = _Run(answer, values, groups, options), len(next(g for g in gradients if g is not None))
    early, other = flat(run.parameters), None
    for number_ in range(steps):
        if number_ == slower_at:
            for group in run.optimizer.param_groups:
                group["lr"] *= 0.2
        if number_ == steps // 2:
            other = _Run(answer, run.parameters, [{} for _ in groups], {})
            other.optimizer.load_state_dict(copy.deepcopy(run.optimizer.state_dict()))
        for each in (run, other) if other else (run,):
            each.step(gradients, number_)
        early = flat(run.parameters) if number_ == 0 else early
    same = other is not None and torch.equal(flat(run.parameters), flat(other.parameters))
    return {
        "parameters after the first step": early,
        "parameters after the last step": flat(run.parameters),
        "resumed from its state_dict": "exactly the same" if same else "different",
    }


def cases_adamw(draw: Draw) -> list[Case]:
    def task(steps: int, *, scale: float = 1.0, groups: Any = (), none: bool = False, slower_at: int = -1,
             dtype: torch.dtype = torch.float32, **options: Any) -> dict[str, Any]:  # fmt: skip
        shapes = [(3, 2), (4,)]
        values = [3 * draw.normal(*shape, dtype=dtype) for shape in shapes]
        gradients: list[Tensor | None] = [scale * (draw.normal(steps, *shape, dtype=dtype) + 0.5) for shape in shapes]
        if none:
            values, gradients = [*values, draw.normal(2, dtype=dtype)], [*gradients, None]
        return {"values": values, "gradients": gradients, "groups": list(groups), "options": options,
                "slower_at": slower_at}  # fmt: skip

    apart = [{"lr": 0.05, "weight_decay": 0.2}, {"lr": 0.005, "weight_decay": 0.0}]
    close = {"rtol": 1e-4, "atol": 1e-5}
    return [
        case("fifty steps as it comes", **close, **task(50)),
        case("a strong decay", **close, **task(6, lr=0.1, weight_decay=0.5)),
        case("two parameter groups", **close, **task(8, groups=apart)),
        case("other betas, a large eps", **close, **task(8, lr=0.05, betas=(0.7, 0.9), eps=0.1, scale=0.3)),
        case("a parameter without gradient", **close, **task(6, lr=0.02, none=True)),
        case("lr lowered on the way", **close, **task(8, lr=0.1, slower_at=3)),
        case("float64", rtol=1e-8, atol=1e-9, **task(6, lr=0.03, dtype=torch.float64)),
    ]


OPTIMIZERS = (
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "lbfgs", "nadam", "radam", "rmsprop", "rprop", "sgd",
    "sparse_adam", "_adafactor", "_muon", "_functional", "swa_utils",
)  # fmt: skip

adamw = Exercise(
    "AdamW",
    probe_adamw,
    cases_adamw,
    hints=(
        "The base class has two dicts: `self.param_groups` says what to update and how fast, `self.state[p]` is where "
        "a parameter's own history belongs. Which three things make up that history?",
        "Both averages start at zero, so after t steps they are too small by 1 - beta**t. Where do you divide by it, "
        "and where does eps stand: under the root or beside it?",
        "What makes it AdamW is that the weight decay shrinks the parameter itself, by lr times weight_decay, before "
        "the step, and never enters the gradient.",
    ),
    forbids=(*(f"torch.optim.{name}" for name in OPTIMIZERS), "fused_adamw", "fused_adam", "fused_sgd"),
)

# --- macro_f1 ----------------------------------------------------------------------------------------------------


def probe_macro_f1(answer: Watched, logits: Tensor, labels: Tensor, num_classes: int) -> dict[str, Any]:
    return {"returned": plainly_float(answer(logits, labels, num_classes))}


def _logits_for(draw: Draw, predicted: Tensor, num_classes: int) -> Tensor:
    """Logits of either sign whose largest entries are at `predicted`."""
    logits = draw.normal(len(predicted), num_classes)
    return logits.scatter(1, predicted[:, None], logits.max(1, keepdim=True).values + 0.5)


def cases_macro_f1(draw: Draw) -> list[Case]:
    def judged(labels: Tensor, num_classes: int, wrong: float) -> dict[str, Any]:
        other = draw.integers(0, num_classes, len(labels))
        predicted = torch.where(draw.flags(len(labels), share=wrong), other, labels)
        return {"logits": _logits_for(draw, predicted, num_classes), "labels": labels, "num_classes": num_classes}

    rare = torch.tensor([0] * 14 + [1] * 4 + [2] * 2)
    few = torch.tensor([0, 0, 1, 1, 1, 3, 3, 0])
    never = torch.tensor([0, 0, 1, 1, 2, 0, 1, 2])
    sure = _logits_for(draw, torch.tensor([0, 0, 1, 1, 1, 0, 1, 0]), 3)
    return [
        case("classes of different sizes", **judged(rare, 3, 0.5)),
        case("a class that neither labels nor predictions have", logits=_logits_for(draw, few.roll(1), 5), labels=few,
             num_classes=5),
        case("a class that is never predicted", logits=sure, labels=never, num_classes=3),
        case("all right", **judged(draw.integers(0, 4, 12), 4, 0.0)),
        case("all wrong", logits=_logits_for(draw, (few + 1) % 4, 4), labels=few, num_classes=4),
        case("one example", **judged(draw.integers(0, 3, 1), 3, 0.0)),
    ]  # fmt: skip


macro_f1 = Exercise(
    "macro_f1",
    probe_macro_f1,
    cases_macro_f1,
    hints=(
        "For one class, count three things: predicted and true, predicted and not true, true and not predicted. Which "
        "fraction of these is F1?",
        "F1 is 2·TP / (2·TP + FP + FN). The part in brackets is the number of predictions of the class plus the "
        "number of its labels. When is it zero, and what should F1 be then?",
        "Macro means: one F1 per class, then their plain mean over all `num_classes`. What would one F1 over "
        "everything together be called?",
    ),
)

# --- seed_everything ---------------------------------------------------------------------------------------------


def _drawn() -> dict[str, list[float]]:
    return {
        "random": [random.random() for _ in range(3)],
        "NumPy": np.random.rand(3).tolist(),
        "torch": torch.rand(3).tolist(),
    }


def probe_seed(answer: Watched, seed: int, other: int) -> dict[str, Any]:
    with mock.patch.object(torch.cuda, "manual_seed_all") as on_gpus:
        answer(seed)
        seeded = on_gpus.called
        first = _drawn()
        _drawn()
        answer(seed)
        again = _drawn()
        answer(other)
        different = _drawn()
    return {
        **{f"{name} draws the same again": first[name] == again[name] for name in first},
        **{f"{name} draws otherwise with another seed": first[name] != different[name] for name in first},
        "generators of GPUs": "seeded" if seeded else "not seeded",
    }


def cases_seed(draw: Draw) -> list[Case]:
    return [
        case("two seeds", seed=draw.size(1, 10_000), other=draw.size(10_001, 20_000)),
        case("seed 0", seed=0, other=1),
        case("a large seed", seed=2**31 + draw.size(0, 1000), other=7),
    ]


seed_everything = Exercise(
    "seed_everything",
    probe_seed,
    cases_seed,
    hints=(
        "Three libraries draw random numbers in a training script, each from a generator of its own. Which three?",
        "`np.random.default_rng(seed)` returns a new generator. Does it change what `np.random.rand` draws?",
        "`torch.manual_seed` seeds the CPU and the generators of every accelerator. Is there anything else of torch "
        "that you need to seed?",
    ),
    any_device=False,
)

# --- overfit_one_batch -------------------------------------------------------------------------------------------


def probe_overfit(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, lr: float, steps: int
) -> dict[str, Any]:
    model, witness = Noted(weights).train(), Witness(LOSSES[loss])
    optimizer = torch.optim.SGD(model.parameters(), lr)
    taken = _counted(optimizer)
    history = answer(model, (xs[0], ys[0]), witness, optimizer, steps)
    if witness.alive():  # in cycles perhaps, which die later
        gc.collect()
    kept = max(witness.alive(), witness.most - 1)  # the step before may still be bound to a name
    listed = [plainly_float(loss) for loss in history] if isinstance(history, list) else kind(history)
    return {
        "returned": listed,
        "optimizer steps": len(taken),
        "graphs kept alive": remark("more with every step", f"{kept} of {steps}") if kept > 1 else remark("none", "0"),
        "parameters afterwards": flat(model.parameters()),
    }


def cases_overfit(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)
    return [
        case("six steps", **_learning(draw, "mean squared error", [n], lr=0.1, steps=6)),
        case("cross entropy", **_learning(draw, "cross entropy", [n], lr=0.3, steps=12)),
        case("a single step", **_learning(draw, "mean squared error", [n], lr=0.1, steps=1)),
        case("no step at all", **_learning(draw, "mean squared error", [n], lr=0.1, steps=0)),
    ]


overfit_one_batch = Exercise(
    "overfit_one_batch",
    probe_overfit,
    cases_overfit,
    hints=(
        "It is the training step you know, `steps` times on the same batch. Which line must not be left out when it "
        "runs more than once?",
        "What does a loss tensor hold on to, besides its number? If a list holds a thousand of them, what stays in "
        "memory?",
        "Which loss belongs at place i of the list: the one that step i started from, or the one it led to? The first "
        "entry is the loss of the untouched model.",
    ),
)

# --- fit ---------------------------------------------------------------------------------------------------------

GOOD, KEYS = 0.97, ("train_loss", "val_loss", "val_accuracy", "lr")
WHOLE = "one number an epoch"


def _judged(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Loss and accuracy of a model in evaluation mode, on everything at once."""
    was = model.training
    model.eval()
    with torch.no_grad():
        logits = model(x)
    model.train(was)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).sum().item() / len(y)


def _listed(history: dict[str, Any]) -> dict[str, list[Any]]:
    lists = {key: history.get(key) for key in KEYS}
    return {key: [number(v) for v in value] for key, value in lists.items() if isinstance(value, list)}


def _rates(used: list[float]) -> Callable[..., None]:
    """A hook that notes the learning rate of each optimizer step."""

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        used.append(float(optimizer.param_groups[0]["lr"]))

    return note


class _Rows(TensorDataset):
    """Rows of tensors that are fetched a batch at a time, which is quicker than one by one."""

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, ...]:
        return tuple(tensor[rows] for tensor in self.tensors)


def _as_fetched(batch: Any) -> list[Tensor]:
    return list(batch)


def _fitted(answer: Watched, model: nn.Module, parts: dict[str, tuple[Tensor, Tensor]], **more: Any) -> dict[str, Any]:
    """Train, and note what came back, the rates in use, and how good the model is on `val` and `test` at the end."""
    device, batch, used = parts["val"][0].device, more.pop("batch"), list[float]()
    loaders = [
        DataLoader(_Rows(parts[name][0].cpu(), parts[name][1].cpu()), batch, shuffle=name == "train",
                   generator=torch.Generator().manual_seed(0), collate_fn=_as_fetched)
        for name in ("train", "val")
    ]  # fmt: skip
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    hook = register_optimizer_step_pre_hook(_rates(used))
    try:
        history = answer(model, *loaders, device=device, **more)
    finally:
        hook.remove()
    if not isinstance(history, dict):
        return {"returned": kind(history)}
    judged = {f"final {name}": _judged(model, *parts[name]) for name in ("val", "test") if name in parts}
    return {"history": _listed(history), "epochs": more["epochs"], "rates": sorted(set(used)), **judged}


def probe_fit(
    answer: Watched, train: list[Tensor], val: list[Tensor], test: list[Tensor], weights: dict[str, Tensor],
    epochs: int, lr: float, batch: int,
) -> dict[str, Any]:  # fmt: skip
    if weights:
        small = Noted(weights, marked=True)
        parts = {"train": (train[0], train[1]), "val": (val[0], val[1])}
        seen = _fitted(answer, small, parts, epochs=epochs, lr=lr, batch=batch)
        small.ran.pop()  # the last run was the probe's own
        learned = [note for note in small.ran if note["train"] and note["graph"]]
        passes = round(sum(note["rows"] for note in learned) / len(train[1]), 3)
        trained = " and ".join(sorted({note["mode"] for note in learned})) + " mode" if learned else "not at all"
        return {**seen, "trained in": trained, "validated in": small.modes(train=False), "passes": passes}
    device, real = train[0].device, train[0].device.type in ("cpu", "cuda")
    rows = len(train[1]) if real else 2 * batch  # a simulated device is slow, and learns what the CPU does
    parts = {
        name: (images[:rows].float() / 16, labels[:rows].long())
        for name, (images, labels) in (("train", train), ("val", val), ("test", test))
    }
    torch.manual_seed(0)
    model = digits.SmallCNN().to(device)
    seen = _fitted(answer, model, parts, epochs=epochs if real else 1, lr=lr, batch=batch)
    return {**seen, "real": real}


def _shape_of_history(history: dict[str, list[Any]], epochs: int) -> str:
    """What is listed under the keys, in words; the same words for all that is as it should be."""

    def words(values: list[Any] | None) -> str:
        if values is None:
            return "no list"
        if not all(isinstance(v, float) for v in values):
            return "a list of other things than numbers"
        return WHOLE if len(values) == epochs else "a list of another length"

    under: dict[str, list[str]] = {}
    for key in KEYS:
        under.setdefault(words(history.get(key)), []).append(key)
    return "; ".join(f"{what} under {', '.join(keys)}" for what, keys in under.items())


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4)


def _whose(losses: list[float], final: float) -> Any:
    detail = f"final validation loss {final:.3f}, best epoch {min(losses):.3f}, last epoch {losses[-1]:.3f}"
    if _near(final, min(losses)):
        return remark("those of the best epoch", detail)
    return remark("those of the last epoch" if _near(final, losses[-1]) else "those of no best epoch", detail)


def _share_right(accuracies: list[float], losses: list[float], final: tuple[float, float]) -> Any:
    """Whether the accuracy listed for the epoch whose weights were kept is the one that these weights have."""
    nearest = min(range(len(losses)), key=lambda i: abs(losses[i] - final[0]))
    listed, detail = accuracies[nearest], f"{accuracies[nearest]:.4g} listed, {final[1]:.4g} measured"
    if _near(listed, final[1]):
        return remark("a fraction, and right", detail)
    return remark("in percent" if _near(listed, 100 * final[1]) else "another than these weights have", detail)


def derive_fit(_case: Case, seen: Observations) -> Observations:
    history, epochs = seen["history"], seen["epochs"]
    shape = _shape_of_history(history, epochs)
    facts: Observations = {"history": shape}
    if shape != f"{WHOLE} under {', '.join(KEYS)}":
        return facts
    rates = seen["rates"] or sorted(set(history["lr"]))
    if epochs > 1:
        facts["learning rate"] = "changes" if rates[-1] > 1.001 * rates[0] else "stays the same"
        listed = max(history["lr"]) > 1.001 * min(history["lr"])
        facts["learning rate listed"] = "changes" if listed else "stays the same"
    if "trained in" in seen:
        facts |= {"training ran in": seen["trained in"], "validation ran in": seen["validated in"],
                  "passes over the training data": seen["passes"]}  # fmt: skip
        facts["val_accuracy"] = _share_right(history["val_accuracy"], history["val_loss"], seen["final val"])
    facts["weights at the end"] = _whose(history["val_loss"], seen["final val"][0])
    if seen.get("real"):
        share = seen["final test"][1]
        good = f"{GOOD:.0%} or more" if share >= GOOD else f"less than {GOOD:.0%}"
        facts["accuracy on held-out digits"] = remark(good, f"{share:.1%}")
    return facts


def _columns(draw: Draw, n: int, sign: float) -> Tensor:
    return torch.cat([torch.full((n, 1), sign), draw.normal(n, 3)], dim=1)


def _digits_for(draw: Draw) -> Iterator[list[Tensor]]:
    images, labels = digits.load()
    order = torch.randperm(len(labels), generator=draw.generator)
    for rows in torch.split(order, [1200, 300, 297]):
        yield [(16 * images[rows]).round().to(torch.uint8), labels[rows].to(torch.uint8)]


def cases_fit(draw: Draw) -> list[Case]:
    def small(sign: float, epochs: int) -> dict[str, Any]:
        """Where `sign` is -1, what is learned on the training data is wrong for the others, and more so every epoch."""
        x, other = _columns(draw, 32, 1.0), _columns(draw, 16, -1.0)
        weights = drawn_weights(draw, 3, 6, 2)
        weights["w2"] = 0.1 * weights["w2"]
        weights["b2"] = 0.0 * weights["b2"]
        train, val = [x, (x[:, 1] > 0).long()], [other, (sign * other[:, 1] > 0).long()]
        return {"train": train, "val": val, "test": [], "weights": weights, "epochs": epochs, "lr": 0.05, "batch": 8}

    train, val, test = _digits_for(draw)
    return [
        case("a small problem", **small(1.0, 4)),
        case("validation gets worse and worse", **small(-1.0, 5)),
        case("handwritten digits", train=train, val=val, test=test, weights={}, epochs=15, lr=0.01, batch=64),
    ]


fit = Exercise(
    "fit",
    probe_fit,
    cases_fit,
    hints=(
        "You have written the parts already: a training step, an evaluation, a memory for the best weights. What is "
        "left is the loop over epochs and a schedule. In which order do they come?",
        "Compute the learning rate of every step or epoch from `lr`, for instance with a warm-up and a cosine. Where "
        "does an optimizer keep the rate it uses, so that you can set it and write it down?",
        "Copy the weights whenever the validation loss is the lowest so far, and put them back at the end. Then does "
        "`val_loss` hold what the model really has on the validation data, in evaluation mode?",
    ),
    derive=derive_fit,
    seconds=20.0,
    watched=False,
    imports=("sklearn.datasets", "sklearn.metrics"),
)

EXERCISES = (
    cross_entropy, train_step, evaluate, overfit_one_batch, accumulated_step, clip_gradients, warmup_cosine, adamw,
    early_stopping, macro_f1, seed_everything, fit,
)  # fmt: skip
