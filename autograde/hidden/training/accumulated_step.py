"""The exercise `accumulated_step`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from autograde.hidden.training.shared import NO_NUMBER, STALE, VALUE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.trainable_models import learning as _learning

WHY = (
    "The mean over the whole batch is the sum of the small means, each weighted by its share of samples. So "
    "each loss is scaled before its backward, the gradients add up, and the step is taken once. Dividing by the"
    " number of pieces is right only if all are of one size."
)
"""Why the reference is written as it is."""
REQUIRED = ("equal-weights", "steps-every-micro-batch", "no-scaling")
"""The mistakes that a check must always be able to name."""

ACCUMULATE, LOSSES = "Accumulation: a large batch in small pieces", "Losses from logits"


def gradients(model: Any, micro_batches: Any, loss_fn: Any, share: Callable[[int, int], float]) -> list[float]:
    """Add up the gradients, each micro-batch's loss times `share(its rows, all rows)`; return the losses."""
    losses, total = [], sum(len(y) for _, y in micro_batches)
    for x, y in micro_batches:
        loss = loss_fn(model(x), y)
        (loss * share(len(y), total)).backward()
        losses.append(loss.item())
    return losses


def by_rows(rows: int, total: int) -> float:
    return rows / total


def mean(losses: list[float], micro_batches: Any) -> float:
    rows = [len(y) for _, y in micro_batches]
    return sum(loss * n for loss, n in zip(losses, rows, strict=True)) / sum(rows)


def losses_of_a_right_step(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> list[float]:
    optimizer.zero_grad()
    losses = gradients(model, micro_batches, loss_fn, by_rows)
    optimizer.step()
    return losses


def accumulated(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    return mean(losses_of_a_right_step(model, micro_batches, loss_fn, optimizer), micro_batches)


def mean_of_losses(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    losses = losses_of_a_right_step(model, micro_batches, loss_fn, optimizer)
    return sum(losses) / len(losses)


def concatenated(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    xs, ys = zip(*micro_batches, strict=True)
    return accumulated(model, [(torch.cat(xs), torch.cat(ys))], loss_fn, optimizer)


def one_backward_for_all(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    total = sum(len(y) for _, y in micro_batches)
    optimizer.zero_grad()
    loss = sum(loss_fn(model(x), y) * (len(y) / total) for x, y in micro_batches)
    loss.backward()
    optimizer.step()
    return float(loss)


def equal_weights(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    losses = gradients(model, micro_batches, loss_fn, lambda rows, total: 1 / len(micro_batches))
    optimizer.step()
    return sum(losses) / len(losses)


def equal_weights_in_the_gradient(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    losses = gradients(model, micro_batches, loss_fn, lambda rows, total: 1 / len(micro_batches))
    optimizer.step()
    return mean(losses, micro_batches)


def losses_unscaled(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> list[float]:
    optimizer.zero_grad()
    losses = gradients(model, micro_batches, loss_fn, lambda rows, total: 1)
    optimizer.step()
    return losses


def sums_undivided(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    losses = gradients(model, micro_batches, loss_fn, lambda rows, total: rows)
    optimizer.step()
    return mean(losses, micro_batches)


def unscaled_returning_the_sum(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    return sum(losses_unscaled(model, micro_batches, loss_fn, optimizer))


def unscaled_returning_the_mean_of_losses(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    return unscaled_returning_the_sum(model, micro_batches, loss_fn, optimizer) / len(micro_batches)


def unscaled(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    return mean(losses_unscaled(model, micro_batches, loss_fn, optimizer), micro_batches)


def divided_by_all_rows(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    losses = gradients(model, micro_batches, loss_fn, lambda rows, total: 1 / total)
    optimizer.step()
    return mean(losses, micro_batches)


def never_cleared(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    losses = gradients(model, micro_batches, loss_fn, by_rows)
    optimizer.step()
    return mean(losses, micro_batches)


def cleared_each_time(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    losses, total = [], sum(len(y) for _, y in micro_batches)
    for x, y in micro_batches:
        optimizer.zero_grad()
        losses += gradients(model, [(x, y)], loss_fn, lambda rows, _own: rows / total)
    optimizer.step()
    return mean(losses, micro_batches)


def step_each_time(weight: Callable[[int, int, int], float], plain: bool, clears: bool = True) -> Callable[..., float]:
    """Return a program that steps after each micro-batch; its loss is weighted by `weight(rows, total, count)`.

    Args:
        clears: whether the gradients are cleared for each micro-batch, or only for the first.
    """

    def steps(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
        losses, total = list[float](), sum(len(y) for _, y in micro_batches)
        for x, y in micro_batches:
            if clears or not losses:
                optimizer.zero_grad()
            share = weight(len(y), total, len(micro_batches))
            losses += gradients(model, [(x, y)], loss_fn, lambda rows, _own, share=share: share)  # type: ignore[misc]
            optimizer.step()
        optimizer.zero_grad()
        return sum(losses) / len(losses) if plain else mean(losses, micro_batches)

    return steps


def squeezes_the_prediction(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    return accumulated(lambda x: model(x).squeeze(-1), micro_batches, loss_fn, optimizer)


def in_mode(mode: str) -> Callable[..., float]:
    """Return a right program that first sets the model's mode."""

    def changing(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
        getattr(model, mode)()
        return accumulated(model, micro_batches, loss_fn, optimizer)

    return changing


UNSCALED = VALUE + (
    "each micro-batch's loss went in unscaled, so the gradient is a sum over micro-batches, as if the learning rate "
    "had grown with their number."
)
EQUALLY = VALUE + (
    "each micro-batch counted the same, whatever its size; in the whole batch every example counts the same."
)
STEPS = (
    'In the case "{case}" the optimizer took {steps} steps where {wanted_steps} is wanted: it stepped after every '
    "micro-batch, which is plain training with small batches."
)
MODE = 'In the case "{case}", the model ran in {ran} where {should_run} is wanted: leave the mode to the caller.'
HELD = (
    'In the case "{case}" graphs {held} were held at once: that takes the memory of the whole batch, which '
    "micro-batches should save. `backward` right after each micro-batch frees its graph."
)
MISTAKES = [
    Mistake("equal-weights", equal_weights, EQUALLY, ACCUMULATE),
    Mistake("equal-weights", equal_weights_in_the_gradient, EQUALLY, ACCUMULATE),
    Mistake("equal-weights", mean_of_losses, VALUE + "the gradients are right, but in the loss that is returned each "
            "micro-batch counts the same.", ACCUMULATE),
    Mistake("no-scaling", unscaled_returning_the_sum, UNSCALED, ACCUMULATE),
    Mistake("no-scaling", unscaled_returning_the_mean_of_losses, UNSCALED, ACCUMULATE),
    Mistake("no-scaling", unscaled, UNSCALED, ACCUMULATE),
    Mistake("gradient-of-the-sum", sums_undivided, VALUE + "each loss was multiplied by the number of its rows before "
            "`backward`, but the gradient was never divided by the number of all rows.", ACCUMULATE),
    Mistake("steps-every-micro-batch", step_each_time(lambda rows, total, n: rows / total, plain=False), STEPS,
            ACCUMULATE),
    Mistake("steps-every-micro-batch", step_each_time(lambda rows, total, n: 1, plain=True), STEPS, ACCUMULATE),
    Mistake("steps-every-micro-batch", step_each_time(lambda rows, total, n: 1 / n, plain=True), STEPS, ACCUMULATE),
    Mistake("steps-every-micro-batch",
            step_each_time(lambda rows, total, n: rows / total, plain=False, clears=False), STEPS, ACCUMULATE),
    Mistake("forgets-earlier-micro-batches", cleared_each_time, VALUE + "only the last micro-batch counted. "
            "Either the gradients were cleared before each of them, or `backward` ran once, after the loop.",
            ACCUMULATE),
    Mistake("missing-zero-grad", never_cleared, STALE, ACCUMULATE),
    Mistake("mean-of-a-mean", divided_by_all_rows, VALUE + "the losses are means already, but were divided by the "
            "number of examples once more.", ACCUMULATE),
    Mistake("returns-last-loss", lambda *given: losses_of_a_right_step(*given)[-1], VALUE + "that is the loss of the "
            "last micro-batch, where that of the whole batch is wanted.", ACCUMULATE),
    Mistake("returns-summed-losses", lambda *given: sum(losses_of_a_right_step(*given)), VALUE + "the losses were "
            "added up without weights.", ACCUMULATE),
    Mistake("returns-tensor", lambda *given: torch.tensor(accumulated(*given)), NO_NUMBER, ACCUMULATE),
    Mistake("squeezes-the-prediction", squeezes_the_prediction, VALUE + "the prediction lost its dimension of size 1, "
            "so it broadcasts against the target, which has it, to a table. Give both to `loss_fn` as they are.",
            LOSSES),
    Mistake("holds-all-graphs", concatenated, HELD, ACCUMULATE),
    Mistake("holds-all-graphs", one_backward_for_all, HELD, ACCUMULATE),
    Mistake("changes-mode", in_mode("train"), MODE, ACCUMULATE),
    Mistake("changes-mode", in_mode("eval"), MODE, ACCUMULATE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    sizes = [draw.size(1, 6) for _ in range(draw.size(2, 5))]
    more: dict[str, Any] = {"lr": 0.1, "starts": "training"}
    closely = {"rtol": 1e-6, "atol": 1e-7}
    return [
        case("drawn sizes", **closely, **_learning(draw, "cross entropy", sizes, torch.float64, **more, times=2)),
        case("one example each", **closely,
             **_learning(draw, "lopsided", [1, 1, 1], torch.float64, lr=0.02, starts="training", times=1)),
    ]  # fmt: skip


# Right answers unlike the reference


def accumulated_rescaling_gradients(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    total, count = 0.0, 0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) * x.shape[0]
        loss.backward()
        total, count = total + float(loss.detach()), count + x.shape[0]
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= count
    optimizer.step()
    return total / count


def accumulated_clearing_afterwards(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    sizes = [len(x) for x, _ in micro_batches]
    losses = []
    for size, (x, y) in zip(sizes, micro_batches, strict=True):
        loss = size / sum(sizes) * loss_fn(model(x), y)
        loss.backward()
        losses.append(loss.item())
    optimizer.step()
    optimizer.zero_grad()
    return math.fsum(losses)


def accumulated_in_own_sums(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    parameters = list(model.parameters())
    sums, n, value = [torch.zeros_like(p) for p in parameters], sum(len(y) for _, y in micro_batches), 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y)
        for total, g in zip(sums, torch.autograd.grad(loss, parameters), strict=True):
            total.add_(g, alpha=len(y) / n)
        value += loss.item() * len(y) / n
    for p, total in zip(parameters, sums, strict=True):
        p.grad = total
    optimizer.step()
    return float(value)


def accumulated_with_float32_shares(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    counts = torch.tensor([float(len(x)) for x, _ in micro_batches])
    optimizer.zero_grad()
    parts = []
    for share, (x, y) in zip((counts / counts.sum()).tolist(), micro_batches, strict=True):
        loss = loss_fn(model(x), y)
        (loss * share).backward()
        parts.append(share * float(loss.detach()))
    optimizer.step()
    return math.fsum(parts)


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    accumulated_rescaling_gradients,
    accumulated_clearing_afterwards,
    accumulated_in_own_sums,
    accumulated_with_float32_shares,
]
