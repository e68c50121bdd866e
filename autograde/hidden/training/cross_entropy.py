"""The exercise `cross_entropy`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograde.hidden.common import ROUNDED, through_float32
from autograde.hidden.training.shared import MIXED, VALUE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "-log softmax of the right class is `logsumexp` minus its logit. `logsumexp` takes the largest logit out "
    "first, so nothing overflows, and no probability is rounded to 0 before its logarithm is taken."
)
"""Why the reference is written as it is."""
REQUIRED = ("double-softmax", "overflow", "sum-not-mean")
"""The mistakes that a check must always be able to name."""

DEVICES = "Devices in the loop"
LOSSES = "Losses from logits"


def logs_of(logits: Tensor) -> Tensor:
    return logits - logits.logsumexp(1, keepdim=True)


def at_labels(logs: Tensor, labels: Tensor) -> Tensor:
    return -logs.gather(1, labels[:, None])[:, 0]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return at_labels(logs_of(logits), labels).mean()


def naive(logits: Tensor, labels: Tensor) -> Tensor:
    return at_labels((logits.exp() / logits.exp().sum(1, keepdim=True)).log(), labels).mean()


def naive_logsumexp(logits: Tensor, labels: Tensor) -> Tensor:
    return at_labels(logits - logits.exp().sum(1, keepdim=True).log(), labels).mean()


def over_the_batch(logits: Tensor, labels: Tensor) -> Tensor:
    return at_labels(logits - logits.logsumexp(0, keepdim=True), labels).mean()


def all_over_the_batch(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.logsumexp(0).mean() + at_labels(logits, labels).mean()


def with_eps(eps: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a loss with a small number under the logarithm."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        return at_labels((logits.softmax(1) + eps).log(), labels).mean()

    return loss


def picked_before_the_logarithm(shares: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a loss that looks up the probability of the label first, and then takes its logarithm."""
    return lambda logits, labels: -shares(logits).gather(1, labels[:, None]).log().mean()


def of_clamped(bound: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a loss that is right, but of logits that were cut to a range."""
    return lambda logits, labels: cross_entropy(logits.clamp(-bound, bound), labels)


def mean_of_the_table(logits: Tensor, labels: Tensor) -> Tensor:
    return -(logs_of(logits) * F.one_hot(labels, logits.shape[1])).mean()


def cross_entropy_on_cpu(logits: Tensor, labels: Tensor) -> Tensor:
    return -(logs_of(logits) * torch.eye(logits.shape[1])[labels]).sum(1).mean()


OVERFLOW = (
    'In the case "{case}" the {what} came out as {got} where {want} is wanted: the largest logit is {largest}, and '
    "its exponential, or the probability of another class, no longer fits in a float. `logsumexp` never forms it."
)
EPS = (
    'In the case "{case}" the {what} came out as {got} where {want} is wanted: a small number put under the '
    "logarithm keeps it finite, but also keeps the loss from growing where the model is surely wrong."
)
MISTAKES = [
    Mistake("double-softmax", lambda logits, labels: cross_entropy(logits.softmax(1), labels), VALUE + "a softmax was "
            "taken first, and its probabilities were treated as logits again. Such a loss can never come near zero.",
            LOSSES),
    Mistake("sum-not-mean", lambda logits, labels: at_labels(logs_of(logits), labels).sum(), VALUE + "that is the sum "
            "over the {n} examples, where their mean is wanted.", LOSSES),
    Mistake("overflow", naive, OVERFLOW, LOSSES),
    Mistake("overflow", naive_logsumexp, OVERFLOW, LOSSES),
    Mistake("overflow", lambda logits, labels: at_labels(logits.softmax(1).log(), labels).mean(), OVERFLOW, LOSSES),
    Mistake("overflow", picked_before_the_logarithm(lambda logits: logits.softmax(1)), OVERFLOW, LOSSES),
    Mistake("overflow", picked_before_the_logarithm(lambda logits: logits.exp() / logits.exp().sum(1, keepdim=True)),
            OVERFLOW, LOSSES),
    *(Mistake("clamps-the-logits", of_clamped(bound), VALUE + "the logits were cut to a range. That keeps exponentials "
              "finite, but the loss and its gradient are those of other logits.", LOSSES) for bound in (20, 50, 80)),
    *(Mistake("eps-in-the-logarithm", with_eps(eps), EPS, LOSSES) for eps in (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)),
    Mistake("eps-in-the-logarithm",
            lambda logits, labels: at_labels(logits.softmax(1).clamp(min=1e-7).log(), labels).mean(), EPS, LOSSES),
    Mistake("sign-missing", lambda logits, labels: -cross_entropy(logits, labels), VALUE + "the sign is reversed, so "
            "training would make the label less likely with every step.", LOSSES),
    Mistake("softmax-over-the-batch", over_the_batch, VALUE + "the classes of one example have to share a probability "
            "of 1, not the examples of one class.", LOSSES),
    Mistake("softmax-over-the-batch", all_over_the_batch, VALUE + "`logsumexp` went over the examples; it belongs to "
            "the classes of one example.", LOSSES),
    Mistake("global-maximum", lambda logits, labels: naive_logsumexp(logits - logits.max(), labels), "In the case "
            "\"{case}\" the {what} came out as {got} where {want} is wanted: the largest of all logits was subtracted, "
            "so in a row far below it every exponential is 0. Subtract from each row its own largest.", LOSSES),
    Mistake("shifted-by-columns", lambda logits, labels: cross_entropy(logits - logits.amax(0, keepdim=True), labels),
            VALUE + "what is subtracted has to be the same for all classes of an example, but the largest logit of "
            "each class is not.", LOSSES),
    Mistake("logits-taken-as-logarithms", lambda logits, labels: at_labels(logits, labels).mean(), VALUE + "the logits "
            "were looked up as they are. They become logarithms of probabilities only when the logsumexp of their row "
            "is subtracted.", LOSSES),
    Mistake("probabilities-without-logarithm", lambda logits, labels: at_labels(logits.softmax(1), labels).mean(), VALUE
            + "that is made from the probability of the label itself, where its logarithm is wanted.", LOSSES),
    Mistake("selects-columns", lambda logits, labels: -logs_of(logits)[:, labels].mean(), VALUE + "`[:, labels]` takes "
            "for every row the columns of all {n} labels, and so averages over pairs that do not belong together.",
            LOSSES),
    Mistake("divides-by-classes-too", mean_of_the_table, VALUE + "the mean went over all {n} times {c} entries of a "
            "one-hot table, most of them zero; there are only {n} examples.", LOSSES),
    Mistake("not-reduced", lambda logits, labels: at_labels(logs_of(logits), labels), "The result is {got} where one "
            "number, {want}, is wanted: the mean over the examples is missing.", LOSSES),
    Mistake("detached", lambda logits, labels: cross_entropy(logits.detach(), labels), "In the case \"{case}\" "
            "the {what} came out as {got}. The result has to be connected to the logits, or nothing can be learned.",
            LOSSES),
    Mistake("wrong-base", lambda logits, labels: cross_entropy(logits, labels) / math.log(2), VALUE + "the logarithm "
            "should be the natural one.", LOSSES),
    Mistake("dtype-not-kept", lambda logits, labels: cross_entropy(logits.float(), labels), "The result is {got_dtype} "
            "where {want_dtype} is wanted: it keeps the dtype of the logits.", LOSSES),
    Mistake("computes-in-float32", through_float32(cross_entropy), ROUNDED, LOSSES),
    Mistake("made-on-cpu", cross_entropy_on_cpu, MIXED, DEVICES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, c = draw.size(2, 20), draw.size(2, 12)
    labels = draw.integers(0, c, n)
    return [
        case("two classes", logits=5 * draw.normal(n, 2), labels=draw.integers(0, 2, n)),
        case("transposed logits", logits=draw.normal(c, n).t(), labels=labels),
        case("all logits equal", logits=torch.zeros(n, c), labels=labels),
        case("very low logits", atol=2e-3, logits=draw.normal(n, c) - 1e4, labels=labels),
    ]


# Right answers unlike the reference


def cross_entropy_shifted(logits: Tensor, labels: Tensor) -> Tensor:
    shifted = logits - logits.max(dim=-1, keepdim=True).values.detach()
    logs = shifted - shifted.exp().sum(-1, keepdim=True).log()
    return -logs[torch.arange(len(labels), device=labels.device), labels].mean()


def cross_entropy_from_one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    rows = torch.zeros_like(logits).scatter_(1, labels[:, None], 1.0)
    return torch.logsumexp(logits, 1).mean() - (logits * rows).sum() / len(labels)


def cross_entropy_of_differences(logits: Tensor, labels: Tensor) -> Tensor:
    gaps = logits - torch.take_along_dim(logits, labels.view(-1, 1), 1)
    return gaps.logsumexp(-1).sum().div(gaps.size(0))


def cross_entropy_by_logaddexp(logits: Tensor, labels: Tensor) -> Tensor:
    total = logits[:, 0]
    for column in logits.unbind(1)[1:]:
        total = torch.logaddexp(total, column)
    return torch.stack([t - row[y] for t, row, y in zip(total, logits, labels, strict=True)]).mean()


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    cross_entropy_shifted,
    cross_entropy_from_one_hot,
    cross_entropy_of_differences,
    cross_entropy_by_logaddexp,
]
