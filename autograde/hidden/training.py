"""Lesson 05: hidden cases and known mistakes."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograde.hidden.common import apart
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case
from torchcourse.exercises.trainable import drawn_weights
from torchcourse.exercises.training import _learning, _logits_for

DEVICES = "Devices in the loop"
MIXED = (
    "On the CPU all is right, on the second device the call raised {got}: something was made, or left, on the CPU "
    "while "
    "the rest lives elsewhere."
)
VALUE = "In the case \"{case}\", `{what}` came out as {got} where {want} is wanted: "


def one(name: str, program: Callable[..., Any], sentence: str, read: str, **options: Any) -> Mistake:
    """A mistake that is not tried together with others."""
    return apart([Mistake(name, program, sentence, read, options)])[0]


# --- cross_entropy -----------------------------------------------------------------------------------------------

LOSSES = "Losses from logits"


def cross_entropy(
    logits: Tensor, labels: Tensor, *, log: str = "stable", reduce: str = "mean", sign: int = -1, detach: bool = False,
    chosen: str = "rows", dtype: torch.dtype | None = None, twice: bool = False,
) -> Tensor:  # fmt: skip
    logits = logits.detach() if detach else logits
    logits = logits.softmax(1) if twice else logits
    logits = logits.to(dtype) if dtype else logits
    logs: dict[str, Callable[[], Tensor]] = {
        "stable": lambda: logits - logits.logsumexp(1, keepdim=True),
        "naive": lambda: (logits.exp() / logits.exp().sum(1, keepdim=True)).log(),
        "apart": lambda: logits - logits.exp().sum(1, keepdim=True).log(),
        "of softmax": lambda: logits.softmax(1).log(),
        "eps": lambda: (logits.softmax(1) + 1e-8).log(),
        "clamped": lambda: logits.softmax(1).clamp(min=1e-7).log(),
        "down": lambda: logits - logits.logsumexp(0, keepdim=True),
        "none": lambda: logits,
        "probabilities": lambda: logits.softmax(1),
        "base two": lambda: (logits - logits.logsumexp(1, keepdim=True)) / math.log(2),
    }
    made = logs[log]()
    if chosen == "rows":
        losses = sign * made.gather(1, labels.unsqueeze(1)).squeeze(1)
    elif chosen == "columns":
        losses = sign * made[:, labels]
    else:
        losses = sign * made * F.one_hot(labels, made.shape[1])
    return losses if reduce == "none" else getattr(losses, reduce)()


def cross_entropy_on_cpu(logits: Tensor, labels: Tensor) -> Tensor:
    made = logits - logits.logsumexp(1, keepdim=True)
    return -(made * torch.eye(made.shape[1])[labels]).sum(1).mean()


OVERFLOW = (
    "In the case \"{case}\" the {what} came out as {got} where {want} is wanted: the largest logit is {largest}, and "
    "its "
    "exponential, or the probability of another class, no longer fits in a float. `logsumexp` never forms it."
)
EPS = (
    "In the case \"{case}\" the {what} came out as {got} where {want} is wanted: a small number put under the "
    "logarithm "
    "keeps it finite, but also keeps the loss from growing where the model is surely wrong."
)
CROSS_ENTROPY = [
    *slips(
        cross_entropy, LOSSES,
        double_softmax=({"twice": True}, VALUE + "a softmax was taken first, and its probabilities were treated as "
                        "logits again. Such a loss can never come near zero."),
        sum_not_mean=({"reduce": "sum"}, VALUE + "that is the sum over the {n} examples, where their mean is wanted."),
        overflow=({"log": "naive"}, OVERFLOW),
        sign_missing=({"sign": 1}, VALUE + "the sign is turned round, and a training would make the label less likely "
                      "with every step."),
    ),
    one("overflow", cross_entropy, OVERFLOW, LOSSES, log="apart"),
    one("overflow", cross_entropy, OVERFLOW, LOSSES, log="of softmax"),
    one("eps-in-the-logarithm", cross_entropy, EPS, LOSSES, log="eps"),
    one("eps-in-the-logarithm", cross_entropy, EPS, LOSSES, log="clamped"),
    one("softmax-over-the-batch", cross_entropy, VALUE + "the classes of one example have to share a probability of 1, "
        "not the examples of one class.", LOSSES, log="down"),
    one("logits-taken-as-logarithms", cross_entropy, VALUE + "the logits were looked up as they are. They become "
        "logarithms of probabilities only when the logsumexp of their row is taken away.", LOSSES, log="none"),
    one("probabilities-without-logarithm", cross_entropy, VALUE + "that is made from the probability of the label "
        "itself, where its logarithm is wanted.", LOSSES, log="probabilities"),
    one("selects-columns", cross_entropy, VALUE + "`[:, labels]` takes for every row the columns of all {n} labels, "
        "and so averages over pairs that do not belong together.", LOSSES, chosen="columns"),
    one("divides-by-classes-too", cross_entropy, VALUE + "the mean went over all {n} times {c} entries of a one-hot "
        "table, most of them zero; there are only {n} examples.", LOSSES, chosen="table"),
    one("not-reduced", cross_entropy, "The result is {got} where one number, {want}, is wanted: the mean over the "
        "examples is missing.", LOSSES, reduce="none"),
    one("detached", cross_entropy, VALUE + "the result has to be connected to the logits, or nothing can be learned.",
        LOSSES, detach=True),
    one("wrong-base", cross_entropy, VALUE + "the logarithm is the natural one.", LOSSES, log="base two"),
    one("dtype-not-kept", cross_entropy, "The result is {got_dtype} where {want_dtype} is wanted: it keeps the dtype "
        "of "
        "the logits.", LOSSES, dtype=torch.float32),
    one("made-on-cpu", cross_entropy_on_cpu, MIXED, DEVICES),
]  # fmt: skip


def more_cross_entropy(draw: Draw) -> list[Case]:
    n, c = draw.size(2, 20), draw.size(2, 12)
    labels = draw.integers(0, c, n)
    return [
        case("two classes", logits=5 * draw.normal(n, 2), labels=draw.integers(0, 2, n)),
        case("transposed logits", logits=draw.normal(c, n).t(), labels=labels),
        case("all logits equal", logits=torch.zeros(n, c), labels=labels),
        case("very low logits", atol=2e-3, logits=draw.normal(n, c) - 1e4, labels=labels),
    ]


# --- train_step --------------------------------------------------------------------------------------------------

LOOP = "The loop, line by line"


def train_step(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, *, order: str = "zsb", mode: str = "train",
    forward: bool = False, returns: str = "item", swapped: bool = False,
) -> Any:  # fmt: skip
    x, y = batch
    if mode != "none":
        getattr(model, mode)()
    if "z" in order and order.index("z") == 0:
        optimizer.zero_grad()
    output = model.forward(x) if forward else model(x)
    loss = loss_fn(y, output) if swapped else loss_fn(output, y)
    for what in order.lstrip("z"):
        {"b": loss.backward, "s": optimizer.step, "z": optimizer.zero_grad}[what]()
    if returns == "after":
        with torch.no_grad():
            return loss_fn(model(x), y).item()
    made = {"item": loss.item, "tensor": lambda: loss, "detached": loss.detach, "nothing": lambda: None}
    return made[returns]()


STALE = VALUE + (
    "gradients of an earlier step were still there, and `backward` added the new ones to them."
)
NO_NUMBER = (
    "What came back is {got} where {want} is wanted: a tensor holds its whole graph, or at least memory on the device; "
    "`item()` gives the number alone."
)
TRAIN_STEP = [
    one("missing-zero-grad", train_step, STALE, LOOP, order="bs"),
    one("returns-tensor", train_step, NO_NUMBER, LOOP, order="zbs", returns="tensor"),
    one("returns-tensor", train_step, NO_NUMBER, LOOP, order="zbs", returns="detached"),
    one("step-before-backward", train_step, VALUE + "`step` ran before `backward`, so it found no gradients, or those "
        "of the batch before.", LOOP, order="zsb"),
    one("step-before-backward", train_step, VALUE + "`step` ran before `backward`, so it found no gradients, or those "
        "of the batch before.", LOOP, order="sb"),
    one("calls-forward-directly", train_step, "The hooks of the model {got}, and they should have run: `model(x)` runs "
        "them, `model.forward(x)` goes past them.", LOOP, order="zbs", forward=True),
    one("eval-mode", train_step, "The model ran in {ran} where {should_run} is wanted: dropout does nothing there, "
        "and batch "
        "norm learns no statistics.", LOOP, order="zbs", mode="eval"),
    one("eval-mode", train_step, "The model ran in {ran} where {should_run} is wanted: it came so, and the step did "
        "not "
        "change it.", LOOP, order="zbs", mode="none"),
    one("gradients-cleared-before-step", train_step, VALUE + "the gradients were forgotten between `backward` and "
        "`step`, so nothing was learned from them.", LOOP, order="zbzs"),
    one("never-steps", train_step, "The optimizer took {got} steps where {want} is wanted: gradients alone change "
        "no parameter.", LOOP, order="zb"),
    one("never-differentiates", train_step, VALUE + "without `backward` there are no gradients to step along.", LOOP,
        order="zs"),
    one("steps-twice", train_step, "The optimizer took {got} steps where {want} is wanted: one batch, one step.", LOOP,
        order="zbss"),
    one("loss-after-the-step", train_step, VALUE + "the batch was predicted once more after the step. The loss that "
        "was differentiated is known already.", LOOP, order="zbs", returns="after"),
    one("arguments-swapped", train_step, VALUE + "`loss_fn` takes the prediction first and the target second; for many "
        "losses the order matters.", LOOP, order="zbs", swapped=True),
    one("returns-nothing", train_step, "What came back is {got} where {want} is wanted.", LOOP, order="zbs",
        returns="nothing"),
]  # fmt: skip


def more_train_step(draw: Draw) -> list[Case]:
    n = draw.size(2, 9)
    return [
        case("five steps from evaluation mode", **_learning(draw, "mean squared error", [n] * 5, starts="evaluation",
             lr=0.05)),
        case("a batch of one", **_learning(draw, "cross entropy", [1, n], starts="training", lr=0.3)),
        case("float64", **_learning(draw, "lopsided", [n, n], torch.float64, starts="training", lr=0.02)),
    ]  # fmt: skip


# --- evaluate ----------------------------------------------------------------------------------------------------

EVALUATING = "Judging without learning"


def evaluate(
    model: Any, loader: Any, loss_fn: Any, device: Any, *, mode: str = "eval", graph: bool = False, mean: str = "rows",
    after: str = "back", moves: str = "both", percent: bool = False, hits: str = "rows",
) -> dict[str, float]:  # fmt: skip
    was = model.training
    if mode != "none":
        getattr(model, mode)()
    losses, sizes, right = [], [], []
    with torch.set_grad_enabled(graph):
        for x, y in loader:
            x = x.to(device) if moves != "neither" else x
            y = y.to(device) if moves == "both" else y
            logits = model(x)
            losses.append(loss_fn(logits, y).item())
            sizes.append(len(y))
            right.append((logits.argmax(1) == y).sum().item())
    if after == "back":
        model.train(was)
    elif after == "train":
        model.train()
    n = sum(sizes)
    weighted = sum(a * b for a, b in zip(losses, sizes, strict=True))
    loss = {"rows": weighted / n, "batches": sum(losses) / len(losses), "sum": weighted, "last": losses[-1],
            "batch sum": sum(losses), "mixed": sum(losses) / n}[mean]  # fmt: skip
    shares = [r / s for r, s in zip(right, sizes, strict=True)]
    accuracy = {"rows": sum(right) / n, "batches": sum(shares) / len(shares), "last": shares[-1],
                "count": float(sum(right))}[hits]  # fmt: skip
    return {"loss": loss, "accuracy": 100 * accuracy if percent else accuracy}


TRAIN_MODE = (
    "The model ran in {ran} where {should_run} is wanted: dropout and batch norm behave otherwise there, and what is "
    "measured "
    "is not the model that will be used."
)
UNEVEN = VALUE + (
    "each batch counted the same, and so the few samples of a smaller last batch counted more than the others."
)
LEFT_MODE = "The model was left in {got} and should be in {want}, the one it came in: whoever called goes on with it."
EVALUATE = [
    *slips(
        evaluate, EVALUATING,
        averages_batches=({"mean": "batches", "hits": "batches"}, UNEVEN),
        builds_graph=({"graph": True}, "{got} of the batches built a graph where {want} should: nothing is "
                      "differentiated here, so it only costs memory. `torch.no_grad()` switches it off."),
        train_mode=({"mode": "train"}, TRAIN_MODE),
        leaves_eval_mode=({"after": "none"}, LEFT_MODE),
    ),
    one("train-mode", evaluate, TRAIN_MODE, EVALUATING, mode="none"),
    one("averages-batches", evaluate, UNEVEN, EVALUATING, mean="batches"),
    one("averages-batches", evaluate, UNEVEN, EVALUATING, hits="batches"),
    one("leaves-train-mode", evaluate, LEFT_MODE, EVALUATING, after="train"),
    one("sum-of-batch-means-over-samples", evaluate, VALUE + "the means of the batches were added up and divided by "
        "the "
        "number of samples; a mean has to be multiplied by its batch's size first.", EVALUATING, mean="mixed"),
    one("not-divided", evaluate, VALUE + "the sum is missing its division by the number of samples.", EVALUATING,
        mean="sum"),
    one("not-divided", evaluate, VALUE + "the sum of the batches' means is no mean.", EVALUATING, mean="batch sum"),
    one("counts-instead-of-share", evaluate, VALUE + "that is how many were right, where their share is wanted.",
        EVALUATING, hits="count"),
    one("percent-not-fraction", evaluate, VALUE + "an accuracy is a fraction here, from 0 to 1.", EVALUATING,
        percent=True),
    one("last-batch-only", evaluate, VALUE + "only the last batch was kept.", EVALUATING, mean="last", hits="last"),
    one("batch-not-moved", evaluate, MIXED, DEVICES, moves="neither"),
    one("batch-not-moved", evaluate, MIXED, DEVICES, moves="inputs"),
]  # fmt: skip


def more_evaluate(draw: Draw) -> list[Case]:
    def judged(n: int, batch: int, starts: str) -> dict[str, Any]:
        inputs, classes = draw.size(2, 5), draw.size(2, 6)
        weights = drawn_weights(draw, inputs, 7, classes)
        y = draw.integers(0, classes, n)
        return {"weights": weights, "x": draw.normal(n, inputs), "y": y, "batch": batch, "starts": starts}

    return [
        case("one sample", **judged(1, 4, "training")),
        case("batches of one", **judged(draw.size(3, 6), 1, "evaluation")),
        case("many", **judged(draw.size(50, 99), 16, "training")),
    ]


# --- overfit_one_batch -------------------------------------------------------------------------------------------

ONE_BATCH = "Overfit one batch first"


def overfit(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int, *, keeps: str = "item", zero: bool = True,
    steps_more: int = 0, when: str = "before", learns: bool = True, only_last: bool = False,
) -> Any:  # fmt: skip
    x, y = batch
    history: list[Any] = []
    for _ in range(steps + steps_more):
        if zero:
            optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        if learns:
            loss.backward()
        optimizer.step()
        if when == "after":
            with torch.no_grad():
                loss = loss_fn(model(x), y)
        history.append(loss.item() if keeps == "item" else loss.detach() if keeps == "detached" else loss)
    if keeps == "until the end":
        history = [loss.item() for loss in history]
    if keeps == "array":
        return torch.tensor([loss.item() for loss in history])
    return history[-1] if only_last and history else history


STORED = (
    "Graphs kept alive: {got}; wanted: {want}. A loss tensor that is stored holds the graph that made it; store its "
    "number, and the graph can go."
)
OVERFIT = [
    *slips(
        overfit, ONE_BATCH,
        missing_zero_grad=({"zero": False}, STALE),
        loss_after_the_step=({"when": "after"}, VALUE + "the first entry is the loss of the untouched model, from "
            "which "
                             "the first step starts."),
    ),
    one("stores-graph", overfit, STORED, ONE_BATCH, keeps="tensor"),
    one("stores-graph", overfit, STORED, ONE_BATCH, keeps="until the end"),
    one("returns-tensors", overfit, "The history came out as {got} where {want} is wanted: Python floats, which a log "
        "or a plot can take.", ONE_BATCH, keeps="detached"),
    one("returns-tensors", overfit, "The history came out as {got} where {want} is wanted: a list of Python floats.",
        ONE_BATCH, keeps="array"),
    one("one-step-more", overfit, VALUE + "the loop ran once too often.", ONE_BATCH, steps_more=1),
    one("never-differentiates", overfit, VALUE + "the loss stays where it is, because no gradient was ever computed.",
        ONE_BATCH, learns=False),
    one("last-loss-only", overfit, "What came back is {got} where {want} is wanted: the losses of all steps.",
        ONE_BATCH, only_last=True),
]  # fmt: skip


def more_overfit(draw: Draw) -> list[Case]:
    return [
        case("one example", **_learning(draw, "cross entropy", [1], lr=0.2, steps=draw.size(3, 9))),
        case("many steps", **_learning(draw, "mean squared error", [8], lr=0.05, steps=40)),
        case("float64", **_learning(draw, "lopsided", [5], torch.float64, lr=0.02, steps=5)),
    ]


# --- accumulated_step --------------------------------------------------------------------------------------------

ACCUMULATE = "Accumulation: a large batch in small pieces"


def accumulated(
    model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any, *, weight: str = "rows", step: str = "once",
    zero: str = "first", returns: str = "mean", mode: str = "",
) -> Any:  # fmt: skip
    total, count = sum(len(y) for _, y in micro_batches), len(micro_batches)
    if mode:
        getattr(model, mode)()
    if zero == "first":
        optimizer.zero_grad()
    mean, losses = 0.0, []
    for x, y in micro_batches:
        if zero == "each":
            optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        share = {"rows": len(y) / total, "equal": 1 / count, "none": 1.0, "total": 1 / total}[weight]
        (loss * share).backward()
        losses.append(loss.item())
        mean += loss.item() * (share if returns == "same" else len(y) / total)
        if step == "each":
            optimizer.step()
            optimizer.zero_grad()
    if step == "once":
        optimizer.step()
    given = {"mean": mean, "same": mean, "last": losses[-1], "sum": sum(losses), "plain": sum(losses) / count}
    return torch.tensor(given["mean"]) if returns == "tensor" else given[returns]


UNSCALED = VALUE + (
    "each micro-batch's loss went in unscaled, so the gradient is a sum over micro-batches, as if the learning rate "
    "had "
    "grown with their number."
)
EQUALLY = VALUE + (
    "each micro-batch counted the same, whatever its size; in the whole batch every example counts the same."
)
ACCUMULATED = [
    one("equal-weights", accumulated, EQUALLY, ACCUMULATE, weight="equal", returns="same"),
    one("equal-weights", accumulated, EQUALLY, ACCUMULATE, weight="equal"),
    one("equal-weights", accumulated, VALUE + "the gradients are right, but the loss that is returned lets each "
        "micro-batch count the same.", ACCUMULATE, returns="plain"),
    one("no-scaling", accumulated, UNSCALED, ACCUMULATE, weight="none", returns="same"),
    one("no-scaling", accumulated, UNSCALED, ACCUMULATE, weight="none", returns="plain"),
    one("no-scaling", accumulated, UNSCALED, ACCUMULATE, weight="none"),
    one("steps-every-micro-batch", accumulated, VALUE + "the optimizer stepped after every micro-batch, which is plain "
        "training with small batches.", ACCUMULATE, step="each"),
    one("steps-every-micro-batch", accumulated, VALUE + "the optimizer stepped after every micro-batch, which is plain "
        "training with small batches.", ACCUMULATE, step="each", weight="none", returns="plain"),
    one("steps-every-micro-batch", accumulated, VALUE + "the optimizer stepped after every micro-batch, which is plain "
        "training with small batches.", ACCUMULATE, step="each", weight="equal", returns="plain"),
    one("forgets-earlier-micro-batches", accumulated, VALUE + "the gradients were cleared before each micro-batch, so "
        "only the last of them counted.", ACCUMULATE, zero="each"),
    one("missing-zero-grad", accumulated, STALE, ACCUMULATE, zero="never"),
    one("mean-of-a-mean", accumulated, VALUE + "the losses are means already, and were divided by the number of "
        "examples once more.", ACCUMULATE, weight="total"),
    one("returns-last-loss", accumulated, VALUE + "that is the loss of the last micro-batch, where that of the whole "
        "batch is wanted.", ACCUMULATE, returns="last"),
    one("returns-summed-losses", accumulated, VALUE + "the losses were added up without weights.", ACCUMULATE,
        returns="sum"),
    one("returns-tensor", accumulated, NO_NUMBER, ACCUMULATE, returns="tensor"),
    one("changes-mode", accumulated, "In the case \"{case}\", the model ran in {ran} where {should_run} is wanted: "
        "the mode is "
        "the "
        "caller's.", ACCUMULATE, mode="train"),
    one("changes-mode", accumulated, "In the case \"{case}\", the model ran in {ran} where {should_run} is wanted: "
        "the mode is "
        "the "
        "caller's.", ACCUMULATE, mode="eval"),
]  # fmt: skip


def more_accumulated(draw: Draw) -> list[Case]:
    sizes = [draw.size(1, 6) for _ in range(draw.size(2, 5))]
    more = {"lr": 0.1, "starts": "training"}
    exactly = {"rtol": 1e-9, "atol": 1e-10}
    return [
        case("drawn sizes", **exactly, **_learning(draw, "cross entropy", sizes, torch.float64, **more, times=2)),
        case("one example each", **exactly,
             **_learning(draw, "lopsided", [1, 1, 1], torch.float64, lr=0.02, starts="training", times=1)),
    ]  # fmt: skip


# --- clip_gradients ----------------------------------------------------------------------------------------------

CLIPPING = "Gradients that are too large"


def clip(
    parameters: Iterable[Tensor], max_norm: float, *, norm: str = "global", scale: str = "down", place: bool = True,
    returns: str = "before", twice: bool = False, none: bool = True,
) -> Any:  # fmt: skip
    if twice:  # the parameters walked a second time, when a generator is at its end
        total = math.sqrt(sum(float((p.grad**2).sum()) for p in parameters if p.grad is not None))
        for p in parameters:
            if p.grad is not None and total > max_norm:
                p.grad.mul_(max_norm / total)
        return total
    kept = [p for p in parameters if not none or p.grad is not None]
    grads: list[Tensor] = [p.grad for p in kept]  # type: ignore[misc]
    norms = [g.norm().item() for g in grads]
    total = {"global": math.sqrt(sum(n * n for n in norms)), "sum": sum(norms), "square": sum(n * n for n in norms),
             "largest": max(norms), "each": math.sqrt(sum(n * n for n in norms))}[norm]  # fmt: skip
    if scale == "values":
        for g in grads:
            g.clamp_(-max_norm, max_norm)
        return total
    for p, g, own in zip(kept, grads, norms, strict=True):
        below = own if norm == "each" else total
        factor = max_norm / (below + 1e-6)
        factor = min(factor, 1.0) if scale == "down" else factor
        if place:
            g.mul_(factor)
        else:
            p.grad = g * factor
    after = math.sqrt(sum(p.grad.norm().item() ** 2 for p in kept))  # type: ignore[union-attr]
    return {"before": total, "after": after, "tensor": torch.tensor(total), "nothing": None}[returns]


CLIP = [
    *slips(
        clip, CLIPPING,
        per_tensor_clipping=({"norm": "each"}, VALUE + "each gradient was clipped by a norm of its own, which changes "
                             "the direction of the step; one norm goes over all of them."),
        returns_clipped_norm=({"returns": "after"}, VALUE + "that is the norm after clipping. The one before is what a "
                              "log needs: it says how often, and how hard, the clipping bites."),
        scales_up_small_gradients=({"scale": "always"}, VALUE + "gradients smaller than max_norm = {max_norm} were "
                                   "scaled up to it, and should be left alone."),
        rebinds_gradients=({"place": False}, "The gradient tensors were {got} and should be {want}: an optimizer or a "
                           "view may hold on to them, so they are scaled in place."),
    ),
    one("adds-norms", clip, VALUE + "the norms of the tensors were added up; their squares add up, and the root of "
        "that "
        "is the norm of all.", CLIPPING, norm="sum"),
    one("squared-not-rooted", clip, VALUE + "that is the square of the norm.", CLIPPING, norm="square"),
    one("largest-norm-only", clip, VALUE + "only the largest tensor was measured.", CLIPPING, norm="largest"),
    one("clips-values", clip, VALUE + "every entry was cut to the range of ±{max_norm}, which changes the direction of "
        "the step; clipping by norm changes only its length.", CLIPPING, scale="values"),
    one("walks-a-generator-twice", clip, VALUE + "`model.parameters()` is a generator and was at its end when the "
        "gradients should have been scaled.", CLIPPING, twice=True),
    one("fails-on-none", clip, "In the case \"{case}\" the call raised {got}: a parameter that took no part in the "
        "loss "
        "has no gradient.", CLIPPING, none=False),
    one("returns-tensor", clip, NO_NUMBER, CLIPPING, returns="tensor"),
    one("returns-nothing", clip, "What came back is {got} where the norm before, {want}, is wanted.", CLIPPING,
        returns="nothing"),
]  # fmt: skip


def more_clip(draw: Draw) -> list[Case]:
    sizes = [draw.size(1, 6) for _ in range(4)]
    return [
        case("drawn sizes", gradients=[draw.normal(s) for s in sizes], max_norm=draw.uniform(0.2, 3).item(),
             generator=False),
        case("some without gradient", gradients=[None, draw.normal(3, 3), None, draw.normal(2)], max_norm=0.1,
             generator=True),
        case("tiny gradients", gradients=[1e-6 * draw.normal(5)], max_norm=1.0, generator=False),
        case("huge gradients", rtol=1e-3, gradients=[1e6 * draw.normal(5), draw.normal(2)], max_norm=1.0,
             generator=False),
    ]  # fmt: skip


# --- warmup_cosine -----------------------------------------------------------------------------------------------

SCHEDULES = "Schedules"


def schedule(
    step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0, up: str = "line", down: str = "cosine",
    low: str = "floor", end: str = "flat", start: str = "warmup",
) -> float:  # fmt: skip
    if step < warmup and up != "none":
        ways = {"line": step / warmup, "late": (step + 1) / warmup, "floor": step / warmup}
        base = floor if up == "floor" else 0.0
        return base + (peak - base) * ways[up]
    if step > total and end == "zero":
        return 0.0
    done = (step - warmup) / (total - warmup) if start == "warmup" else step / total
    done = done if end == "open" else min(max(done, 0.0), 1.0)
    shape = {"cosine": 0.5 * (1 + math.cos(math.pi * done)), "line": 1 - done, "quarter": math.cos(math.pi / 2 * done),
             "half": math.cos(math.pi * done)}[down]  # fmt: skip
    lows = {"floor": floor + (peak - floor) * shape, "none": peak * shape, "added": floor + peak * shape,
            "max": max(floor, peak * shape)}  # fmt: skip
    return lows[low]


def schedule_dividing(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    return min(step / warmup, 1.0) * schedule(step, warmup=warmup, total=total, peak=peak, floor=floor, up="none")


RATES = "In the case \"{case}\", the rates {what} came out as {got} where {want} is wanted: "
SCHEDULE = [
    *slips(
        schedule, SCHEDULES,
        no_warmup=({"up": "none"}, RATES + "from step 0 the rate should climb in a straight line from 0 to the peak."),
        misses_floor=({"low": "none"}, RATES + "the cosine has to come down to the floor of {floor}, not to 0."),
        oscillates_after_total=({"end": "open"}, RATES + "a cosine goes up again after its lowest point; from `total` "
                                "on the rate stays at the floor."),
        straight_line_down=({"down": "line"}, RATES + "it went down in a straight line, not in half a cosine."),
    ),
    one("misses-floor", schedule, RATES + "the floor of {floor} was added on top, so the peak is too high.", SCHEDULES,
        low="added"),
    one("misses-floor", schedule, RATES + "the cosine ran towards 0 and was cut off at the floor of {floor}; it should "
        "arrive there at `total`, not before.", SCHEDULES, low="max"),
    one("misses-floor", schedule, RATES + "after the end the rate stays at the floor of {floor}.", SCHEDULES,
        end="zero"),
    one("warms-up-a-step-early", schedule, RATES + "step 0 has the rate 0, and step `warmup` the peak.", SCHEDULES,
        up="late"),
    one("warms-up-from-the-floor", schedule, RATES + "the warm-up starts from 0, and only the decay ends at the floor.",
        SCHEDULES, up="floor"),
    one("cosine-from-step-zero", schedule, RATES + "the cosine has to begin at `warmup`, where the rate is at its "
        "peak, "
        "not at step 0.", SCHEDULES, start="zero"),
    one("wrong-part-of-the-cosine", schedule, RATES + "from peak to floor the angle goes from 0 to π, and (1 + cos) "
        "/ 2 "
        "goes from 1 to 0.", SCHEDULES, down="quarter"),
    one("wrong-part-of-the-cosine", schedule, RATES + "the cosine itself goes from 1 to -1; half of (1 + cos) goes "
        "from "
        "1 to 0.", SCHEDULES, down="half"),
    one("divides-by-no-warmup", schedule_dividing, "In the case \"{case}\" the call raised {got}: `warmup` may be 0, "
        "and "
        "then there is no climb to compute.", SCHEDULES),
]  # fmt: skip


def more_schedule(draw: Draw) -> list[Case]:
    warmup = draw.size(1, 30)
    total = warmup + draw.size(1, 300)
    steps = sorted({0, 1, warmup - 1, warmup, warmup + 1, (warmup + total) // 2, total - 1, total, total + 1, 10**6})
    common = {"rtol": 1e-6, "atol": 1e-9, "warmup": warmup, "total": total}
    return [
        case("drawn", **common, peak=draw.uniform(0.01, 2).item(), floor=draw.uniform(0, 0.01).item(), steps=steps),
        case("a floor as high as the peak", **common, peak=0.3, floor=0.3, steps=steps),
        case("one step of each", rtol=1e-6, atol=1e-9, warmup=1, total=2, peak=0.1, floor=None, steps=[0, 1, 2, 3]),
    ]  # fmt: skip


# --- AdamW -------------------------------------------------------------------------------------------------------

OPTIMIZERS = "Optimizers"


class AdamW(torch.optim.Optimizer):
    def __init__(
        self, params: Any, lr: float = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        *, decay: str = "decoupled", correct: str = "both", root: str = "beside", history: str = "state",
        options: str = "group", fresh: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.decay, self.correct, self.root, self.history, self.options = decay, correct, root, history, options
        self.count, self.own, self.fresh = 0, dict[Tensor, Any](), fresh

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.count += 1
        groups = self.param_groups[:1] if self.options == "first" else self.param_groups
        for group in groups:
            used = {"group": group, "first": group, "defaults": self.defaults}[self.options]
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, used)

    def update(self, p: Tensor, group: Any) -> None:
        lr, (b1, b2), eps, weight = group["lr"], group["betas"], group["eps"], group["weight_decay"]
        state = self.own.setdefault(p, {}) if self.history == "own" else self.state[p]
        assert p.grad is not None
        gradient = p.grad + weight * p if self.decay == "coupled" else p.grad
        if not state:
            start = gradient if self.fresh else torch.zeros_like(p)
            square = gradient**2 if self.fresh else torch.zeros_like(p)
            state.update(step=0, mean=start.clone(), square=square.clone())
        state["step"] += 1
        t = self.count if self.history == "counter" else state["step"]
        state["mean"] = b1 * state["mean"] + (1 - b1) * gradient
        state["square"] = b2 * state["square"] + (1 - b2) * gradient**2
        c1 = 1 - b1**t if self.correct in ("both", "first") else 1.0
        c2 = 1 - b2**t if self.correct in ("both", "second") else 1.0
        mean, square = state["mean"] / c1, state["square"] / c2
        below = {"beside": square.sqrt() + eps, "inside": (square + eps).sqrt(), "none": square.sqrt(),
                 "early": (state["square"].sqrt() + eps) / c2**0.5, "missing": square + eps}[self.root]  # fmt: skip
        if self.decay in ("decoupled", "whole"):
            p.mul_(1 - (lr if self.decay == "decoupled" else 1) * weight)
        p.sub_(lr * mean / below)
        if self.decay == "late":
            p.mul_(1 - lr * weight)


ADAMW = [
    *slips(
        AdamW, OPTIMIZERS,
        coupled_weight_decay=({"decay": "coupled"}, VALUE + "the decay was added to the gradient, where Adam divides "
            "it "
                              "by the size of the gradients. In AdamW it shrinks the parameter directly."),
        no_bias_correction=({"correct": "none"}, VALUE + "both averages start at zero and are too small at first; "
                            "dividing by 1 - beta**t makes up for it."),
        eps_inside_root=({"root": "inside"}, VALUE + "eps was added to the square before the root; it belongs to the "
                         "root itself, where it is far smaller in effect."),
    ),
    one("no-bias-correction", AdamW, VALUE + "only one of the two averages was corrected for its start at zero.",
        OPTIMIZERS, correct="first"),
    one("no-bias-correction", AdamW, VALUE + "only one of the two averages was corrected for its start at zero.",
        OPTIMIZERS, correct="second"),
    one("no-bias-correction", AdamW, VALUE + "the averages were started from the first gradient; they start at zero.",
        OPTIMIZERS, fresh=True),
    one("eps-before-correction", AdamW, VALUE + "eps was added before the second average was corrected, and so was "
        "corrected along with it.", OPTIMIZERS, root="early"),
    one("square-not-rooted", AdamW, VALUE + "the step is divided by the average square itself; its root is wanted.",
        OPTIMIZERS, root="missing"),
    one("no-weight-decay", AdamW, VALUE + "the parameters were not shrunk by lr times weight_decay.", OPTIMIZERS,
        decay="none"),
    one("decay-not-scaled-by-lr", AdamW, VALUE + "the parameters were shrunk by weight_decay alone; the learning rate "
        "scales the decay too.", OPTIMIZERS, decay="whole"),
    one("decays-after-the-step", AdamW, VALUE + "the decay came after the step and so shrank the step as well.",
        OPTIMIZERS, decay="late"),
    one("ignores-parameter-groups", AdamW, VALUE + "every group was updated with the defaults, whatever its own "
        "settings said; a schedule writes to the groups too.", OPTIMIZERS, options="defaults"),
    one("ignores-parameter-groups", AdamW, VALUE + "only the first group was updated.", OPTIMIZERS, options="first"),
    one("state-outside-state-dict", AdamW, "Resumed from its state_dict, the training went on {got}: the averages are "
        "kept in an attribute. `self.state[p]` is what `state_dict()` saves.", OPTIMIZERS, history="own"),
    one("state-outside-state-dict", AdamW, "Resumed from its state_dict, the training went on {got}: the count of "
        "steps "
        "is an attribute, and started again. `self.state[p]` is what `state_dict()` saves.", OPTIMIZERS,
        history="counter"),
]  # fmt: skip


def more_adamw(draw: Draw) -> list[Case]:
    shape, steps = (draw.size(1, 4), draw.size(1, 4)), draw.size(6, 20)
    values = [draw.normal(*shape), draw.normal(5)]
    gradients = [draw.normal(steps, *shape), 10 * draw.normal(steps, 5)]
    common: dict[str, Any] = {"values": values, "gradients": gradients, "slower_at": 2}
    drawn = {"lr": draw.uniform(0.001, 0.1).item(), "weight_decay": draw.uniform(0.0, 0.3).item()}
    groups = [{"betas": (0.5, 0.99)}, {"eps": 0.01, "lr": 0.2}]
    return [
        case("drawn settings", **common, groups=[], options=drawn),
        case("groups with betas and eps of their own", **common, groups=groups, options={"weight_decay": 0.1}),
        case("no decay", **common, groups=[], options={"weight_decay": 0.0, "lr": 0.05}),
    ]


# --- EarlyStopping -----------------------------------------------------------------------------------------------

STOPPING = "When to stop"


class EarlyStopping:
    def __init__(
        self, patience: int, min_delta: float = 0.0, *, keeps: str = "deep", extra: int = 0, nan: str = "worse",
        higher: bool = False, resets: bool = True, delta: bool = True, equal: bool = False,
    ) -> None:  # fmt: skip
        self.patience, self.min_delta = patience + extra, min_delta if delta else 0.0
        self.keeps, self.nan, self.higher, self.resets, self.equal = keeps, nan, higher, resets, equal
        self.best = {"worse": -math.inf if higher else math.inf, "stops": math.inf}.get(nan, math.nan)
        self.waited, self.weights, self.first = 0, dict[str, Tensor](), True

    def better(self, metric: float) -> bool:
        if self.nan == "best" and self.first:
            return True
        if self.nan == "not worse":
            return self.first or not metric >= self.best - self.min_delta
        if self.higher:
            return metric > self.best + self.min_delta
        limit = self.best - self.min_delta
        return metric <= limit if self.equal else metric < limit

    def update(self, metric: float, model: nn.Module) -> Any:
        if self.better(metric):
            self.best, self.waited, self.first = metric, 0 if self.resets else self.waited, False
            state: Any = model.state_dict() if self.keeps != "parameters" else dict(model.named_parameters())
            self.weights = {k: v if self.keeps == "reference" else v.detach().clone() for k, v in state.items()}
            self.weights = state.copy() if self.keeps == "shallow" else self.weights
        else:
            self.waited += 1
        if self.keeps == "last":
            self.weights = copy.deepcopy(model.state_dict())
        if self.nan == "stops" and math.isnan(metric):
            return True
        return self.waited >= self.patience

    def restore(self, model: nn.Module) -> None:
        if self.keeps != "never":
            model.load_state_dict(self.weights, strict=False)


REFERENCE = (
    "In the case \"{case}\", `{what}` is {got} where {want} is wanted: `state_dict()` holds the tensors that training "
    "goes on changing, so what was remembered changed too. Copy them."
)
STOPS = "For the metrics {metrics}, the stop came {stopped}, and should come {should_stop}: "
NAN_FIRST = (
    "In the case \"{case}\", `{what}` came out as {got} where {want} is wanted: a NaN was taken for the best so far, "
    "and "
    "no number is ever less than NaN."
)
EARLY_STOPPING = [
    one("keeps-reference", EarlyStopping, REFERENCE, STOPPING, keeps="reference"),
    one("keeps-reference", EarlyStopping, REFERENCE, STOPPING, keeps="shallow"),
    one("off-by-one-patience", EarlyStopping, STOPS + "the patience-th update in a row without improvement is the one "
        "that says stop, not the one after it.", STOPPING, extra=1),
    one("off-by-one-patience", EarlyStopping, STOPS + "the patience-th update in a row without improvement is the one "
        "that says stop, not the one before it.", STOPPING, extra=-1),
    one("nan-counts-as-best", EarlyStopping, NAN_FIRST, STOPPING, nan="best"),
    one("nan-counts-as-best", EarlyStopping, NAN_FIRST, STOPPING, nan="not worse"),
    one("nan-stops-at-once", EarlyStopping, STOPS + "a NaN is an update without improvement, no more.", STOPPING,
        nan="stops"),
    one("higher-is-better", EarlyStopping, VALUE + "the metric is a loss here, and lower is better.", STOPPING,
        higher=True),
    one("patience-never-renewed", EarlyStopping, STOPS + "after an improvement the counting starts anew; only updates "
        "in a row count.", STOPPING, resets=False),
    one("min-delta-ignored", EarlyStopping, STOPS + "a gain smaller than min_delta = {min_delta} is no improvement.",
        STOPPING, delta=False),
    one("equal-counts-as-better", EarlyStopping, STOPS + "a metric that stays the same is no improvement.", STOPPING,
        equal=True),
    one("keeps-last-weights", EarlyStopping, "In the case \"{case}\", `{what}` is {got} where {want} is wanted: the "
        "weights were stored at every update, and not only at improvements.", STOPPING, keeps="last"),
    one("forgets-buffers", EarlyStopping, "In the case \"{case}\", `{what}` is {got} where {want} is wanted: "
        "parameters "
        "are not all of a model; the statistics of a batch norm are buffers.", STOPPING, keeps="parameters"),
    one("never-restores", EarlyStopping, "In the case \"{case}\", `{what}` is {got} where {want} is wanted: the model "
        "was left as it was.", STOPPING, keeps="never"),
]  # fmt: skip


def more_stopping(draw: Draw) -> list[Case]:
    nan, patience = math.nan, draw.size(1, 4)
    noise = draw.uniform(0, 0.5, 12, dtype=torch.float64) + torch.linspace(2, 1, 12, dtype=torch.float64)
    noise[draw.size(2, 10)] = nan
    common = {"width": draw.size(1, 5)}
    return [
        case("drawn", **common, metrics=noise, patience=patience, min_delta=None),
        case("drawn, with min_delta", **common, metrics=torch.cat([noise, noise.new_tensor([0.1])]), patience=patience,
             min_delta=0.6),
        case("two NaN at first", **common, metrics=noise.new_tensor([nan, nan, 3.0, 4.0]), patience=2, min_delta=None),
        case("below zero", **common, metrics=noise.new_tensor([0.0, -2.0, -1.0, -3.0]), patience=3, min_delta=0.5),
    ]  # fmt: skip


# --- macro_f1 ----------------------------------------------------------------------------------------------------

METRICS = "Metrics"


def macro_f1(logits: Tensor, labels: Tensor, num_classes: int, *, average: str = "macro", absent: str = "zero",
             score: str = "f1", returns: str = "float") -> Any:  # fmt: skip
    classes = torch.arange(num_classes, device=labels.device)[:, None]
    predicted, real = logits.argmax(1) == classes, labels == classes
    hits, chosen, there = (t.sum(1).double() for t in (predicted & real, predicted, real))
    precision, recall = (hits / n if absent == "nan" else hits / n.clamp(min=1) for n in (chosen, there))
    f1 = 2 * hits / (chosen + there) if absent == "nan" else 2 * hits / (chosen + there).clamp(min=1)
    if absent == "one":
        f1 = f1.where(chosen + there > 0, torch.ones_like(f1))
    scores = {"f1": f1, "precision": precision, "recall": recall}[score if score != "averages" else "f1"]
    if score == "averages":
        p, r = precision.mean(), recall.mean()
        result = 2 * p * r / (p + r) if p + r > 0 else p * 0
    elif average == "micro":
        result = hits.sum() / len(labels)
    elif average == "weighted":
        result = (scores * there).sum() / there.sum()
    else:
        used: dict[str, Any] = {"zero": slice(None), "nan": slice(None), "one": slice(None), "skip": chosen + there > 0,
                "labels": there > 0}  # fmt: skip
        result = scores[used[absent]].mean()
    return result if returns == "tensor" else 100 * result.item() if returns == "percent" else result.item()


def macro_f1_from_ratios(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    scores = []
    for c in range(num_classes):
        predicted, real = logits.argmax(1) == c, labels == c
        precision = (predicted & real).sum() / predicted.sum()
        recall = (predicted & real).sum() / real.sum()
        scores.append(2 * precision * recall / (precision + recall))
    return torch.stack(scores).mean().item()


def macro_f1_on_cpu(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    classes = torch.arange(num_classes)[:, None]
    predicted, real = logits.argmax(1) == classes, labels == classes
    return float((2 * (predicted & real).sum(1) / (predicted.sum(1) + real.sum(1)).clamp(min=1)).mean())


NAN = VALUE + "a class without predictions, or without labels, gave 0 / 0. Such a class has an F1 of 0."
MACRO_F1 = [
    *slips(
        macro_f1, METRICS,
        micro_average=({"average": "micro"}, VALUE + "all classes were counted together, which is the accuracy: a rare "
                       "class hardly matters in it. Macro gives each class one F1 and averages those."),
        nan_on_absent_class=({"absent": "nan"}, NAN),
        skips_absent_classes=({"absent": "skip"}, VALUE + "a class that nobody has and nobody predicts was left out of "
                              "the mean; here it counts as 0, and the mean goes over all {num_classes} classes."),
        weighted_average=({"average": "weighted"}, VALUE + "each class counted by its size; macro lets all count the "
                          "same."),
    ),
    one("nan-on-absent-class", macro_f1_from_ratios, NAN, METRICS),
    one("skips-absent-classes", macro_f1, VALUE + "the mean went only over classes that the labels have; it goes over "
        "all {num_classes}.", METRICS, absent="labels"),
    one("absent-class-counts-as-right", macro_f1, VALUE + "a class that is absent got an F1 of 1; with zero_division=0 "
        "it gets 0.", METRICS, absent="one"),
    one("recall-instead-of-f1", macro_f1, VALUE + "that is the mean recall.", METRICS, score="recall"),
    one("precision-instead-of-f1", macro_f1, VALUE + "that is the mean precision.", METRICS, score="precision"),
    one("f1-of-averages", macro_f1, VALUE + "precision and recall were averaged first. Take the F1 of each class, then "
        "the mean.", METRICS, score="averages"),
    one("percent-not-fraction", macro_f1, VALUE + "F1 runs from 0 to 1.", METRICS, returns="percent"),
    one("returns-tensor", macro_f1, "What came back is {got} where a Python float, {want}, is wanted.", METRICS,
        returns="tensor"),
    one("made-on-cpu", macro_f1_on_cpu, MIXED, DEVICES),
]  # fmt: skip


def more_macro_f1(draw: Draw) -> list[Case]:
    n, c = draw.size(20, 60), draw.size(2, 9)
    labels = draw.integers(0, c, n)
    predicted = torch.where(draw.flags(n), labels, draw.integers(0, c, n))
    return [
        case("drawn", logits=_logits_for(draw, predicted, c), labels=labels, num_classes=c),
        case("more classes than there are", logits=_logits_for(draw, predicted, c + 4), labels=labels,
             num_classes=c + 4),
        case("one class", logits=draw.normal(5, 1), labels=torch.zeros(5, dtype=torch.int64), num_classes=1),
    ]  # fmt: skip


# --- seed_everything ---------------------------------------------------------------------------------------------

SEEDS = "The same numbers again: seeds"


def seed_everything(
    seed: int, *, python: bool = True, numpy: str = "seed", of_torch: str = "all", fixed: int | None = None
) -> None:
    seed = seed if fixed is None else fixed
    if python:
        random.seed(seed)
    if numpy == "seed":
        np.random.seed(seed)
    elif numpy == "generator":
        np.random.default_rng(seed)
    if of_torch == "all":
        torch.manual_seed(seed)
    elif of_torch == "cpu":
        torch.default_generator.manual_seed(seed)
    elif of_torch == "generator":
        torch.Generator().manual_seed(seed)


NOT_SEEDED = "Whether \"{what}\" holds came out as {got} and should be {want}: "
SEED = [
    one("forgets-numpy", seed_everything, NOT_SEEDED + "NumPy has a generator of its own, which was not seeded.", SEEDS,
        numpy="none"),
    one("forgets-numpy", seed_everything, NOT_SEEDED + "`default_rng` makes a new generator; `np.random.rand` draws "
        "from "
        "the global one.", SEEDS, numpy="generator"),
    one("forgets-random", seed_everything, NOT_SEEDED + "Python's `random` has a generator of its own, and transforms "
        "and samplers often draw from it.", SEEDS, python=False),
    one("forgets-torch", seed_everything, NOT_SEEDED + "torch draws weights, dropout and shuffles from a generator of "
        "its own.", SEEDS, of_torch="none"),
    one("forgets-torch", seed_everything, NOT_SEEDED + "a new generator was seeded and dropped.", SEEDS,
        of_torch="generator"),
    one("forgets-gpus", seed_everything, "The generators of GPUs were {got} and should be {want}: a device draws "
        "from a "
        "generator of its own. `torch.manual_seed` reaches all of them.", SEEDS, of_torch="cpu"),
    one("ignores-the-seed", seed_everything, NOT_SEEDED + "every seed gave the same numbers.", SEEDS, fixed=42),
]  # fmt: skip


def more_seed(draw: Draw) -> list[Case]:
    return [case("drawn", seed=draw.size(20_001, 10**6), other=draw.size(1, 20_000)),
            case("the largest that NumPy takes", seed=2**32 - 1, other=2**32 - 2)]  # fmt: skip


# --- fit ---------------------------------------------------------------------------------------------------------

CAPSTONE = "The capstone: handwritten digits"


def fit(
    model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any, keep: str = "best",
    mode: str = "eval", schedule: str = "cosine", learns: str = "yes", percent: bool = False, moves: bool = True,
    times: int = 1, trains_in: str = "train", keys: str = "all", accuracy: str = "share",
) -> Any:  # fmt: skip
    place = torch.device("cpu") if not moves else device
    optimizer = torch.optim.AdamW(model.parameters(), lr * (1e-4 if learns == "slowly" else 1))
    steps = epochs * max(len(train_loader), 1)
    anneal = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history: dict[str, list[float]] = {"train_loss": [], "val_loss": [], "val_accuracy": [], "lr": []}
    best, weights = -math.inf if keep == "worst" else math.inf, copy.deepcopy(model.state_dict())
    for epoch in range(epochs):
        history["lr"].append(optimizer.param_groups[0]["lr"])
        if trains_in == "train" or (trains_in == "once" and epoch == 0):
            model.train()
        elif trains_in == "eval":
            model.eval()
        history["train_loss"].append(sum(_epoch(model, train_loader, optimizer, anneal, place, learns, schedule)
                                         for _ in range(times)) / times)  # fmt: skip
        loss, share = _validated(model, val_loader, place, mode)
        history["val_loss"].append(loss)
        history["val_accuracy"].append(share * (100 if percent else 1))
        if (loss > best if keep == "worst" else loss < best) or keep == "last":
            best, weights = loss, copy.deepcopy(model.state_dict())
    if keep != "last":
        model.load_state_dict(weights)
    if keys == "losses":
        return {key: history[key] for key in ("train_loss", "val_loss")}
    if keys == "last":
        return {key: values[-1] for key, values in history.items()}
    return None if keys == "none" else history


def _epoch(
    model: Any, loader: Any, optimizer: Any, anneal: Any, device: Any, learns: str, schedule: str
) -> float:
    total, count = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        if learns != "stale":
            optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits.softmax(1) if learns == "twice" else logits, y)
        loss.backward()  # type: ignore[no-untyped-call]
        if learns != "no":
            optimizer.step()
            if schedule == "cosine":
                anneal.step()
        total, count = total + loss.item() * len(y), count + len(y)
    return total / count


def _validated(model: Any, loader: Any, device: Any, mode: str) -> tuple[float, float]:
    if mode != "none":
        getattr(model, mode)()
    total, right, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            logits, y = model(x.to(device)), y.to(device)
            total += F.cross_entropy(logits, y, reduction="sum").item()
            right += int((logits.argmax(1) == y).sum())
            count += len(y)
    return total / count, right / count


LAST = (
    "In the case \"{case}\" the weights at the end are {got} where {want} is wanted: the model learned, but kept "
    "what it "
    "had after its last epoch. A copy made at the best one has to be put back."
)
UNLEARNED = (
    "In the case \"{case}\", `{what}` is {got} where {want} is wanted: "
)
CONSTANT = "The learning rate {got} over the epochs where {want} is wanted: no schedule moved it."
VAL_TRAIN = (
    "Validation ran in {got} where {want} is wanted: batch norm then uses the statistics of each validation batch, and "
    "even learns from them."
)
FIT = [
    *apart(slips(
        fit, CAPSTONE,
        keeps_last_not_best=({"keep": "last"}, LAST),
        validates_in_train_mode=({"mode": "train"}, VAL_TRAIN),
        constant_lr=({"schedule": "none"}, "The {what} {got} over the epochs and should not: no schedule moved it, "
                     "or it was never stepped."),
    )),
    one("keeps-worst-not-best", fit, "In the case \"{case}\" the weights at the end are {got} where {want} is wanted: "
        "the comparison is turned round, a lower loss is better.", CAPSTONE, keep="worst"),
    one("did-not-learn", fit, UNLEARNED + "the rate that the optimizer used is so small that the model hardly moved.",
        CAPSTONE, learns="slowly"),
    one("did-not-learn", fit, UNLEARNED + "the optimizer never made a step, so there was nothing to learn or keep.",
        CAPSTONE, learns="no"),
    one("trains-in-eval-mode", fit, "Training ran in {got} where {want} is wanted: batch norm learns no statistics "
        "there.", CAPSTONE, trains_in="eval"),
    one("trains-in-eval-mode", fit, "Training ran in {got} where {want} is wanted: the validation of the first epoch "
        "left the model in evaluation mode.", CAPSTONE, trains_in="once"),
    one("percent-not-fraction", fit, "In the case \"{case}\", `{what}` is {got} where {want} is wanted: accuracies are "
        "listed from 0 to 1.", CAPSTONE, percent=True),
    one("two-passes-an-epoch", fit, "The training data were passed {got} times where {want} is wanted: one pass is one "
        "epoch.", CAPSTONE, times=2),
    one("batch-not-moved", fit, MIXED, DEVICES, moves=False),
    one("history-incomplete", fit, "The history has {got}, and should have {want}.", CAPSTONE, keys="losses"),
    one("history-incomplete", fit, "The history has {got}, and should have {want}: a list for each, with one entry "
        "an epoch.", CAPSTONE, keys="last"),
    one("returns-nothing", fit, "What came back is {got}, where a history is wanted.", CAPSTONE, keys="none"),
]  # fmt: skip


def more_fit(draw: Draw) -> list[Case]:
    def small(sign: float, epochs: int) -> dict[str, Any]:
        x = torch.cat([torch.ones(40, 1), draw.normal(40, 4)], dim=1)
        other = torch.cat([-torch.ones(24, 1), draw.normal(24, 4)], dim=1)
        weights = drawn_weights(draw, 4, 8, 2)
        weights |= {"w2": 0.1 * weights["w2"], "b2": 0.0 * weights["b2"]}
        train, val = [x, (x[:, 2] > 0).long()], [other, (sign * other[:, 2] > 0).long()]
        return {"train": train, "val": val, "test": [], "weights": weights, "epochs": epochs, "lr": 0.05, "batch": 8}

    return [case("one epoch", **small(1.0, 1)), case("worse with every epoch", **small(-1.0, draw.size(3, 7)))]


MISTAKES: dict[str, list[Mistake]] = {
    "cross_entropy": CROSS_ENTROPY,
    "train_step": TRAIN_STEP,
    "evaluate": EVALUATE,
    "overfit_one_batch": OVERFIT,
    "accumulated_step": ACCUMULATED,
    "clip_gradients": CLIP,
    "warmup_cosine": SCHEDULE,
    "AdamW": ADAMW,
    "EarlyStopping": EARLY_STOPPING,
    "macro_f1": MACRO_F1,
    "seed_everything": SEED,
    "fit": FIT,
}

MORE_CASES = {
    "cross_entropy": more_cross_entropy,
    "train_step": more_train_step,
    "evaluate": more_evaluate,
    "overfit_one_batch": more_overfit,
    "accumulated_step": more_accumulated,
    "clip_gradients": more_clip,
    "warmup_cosine": more_schedule,
    "AdamW": more_adamw,
    "EarlyStopping": more_stopping,
    "macro_f1": more_macro_f1,
    "seed_everything": more_seed,
    "fit": more_fit,
}
