"""The exercise `suspect_labels`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograde.hidden.common import MIXED, NUMPY_ONLY
from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.suspect_labels import hopeless, judged, repeated
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "What counts is the probability of the ticket's own label, after a softmax over its row: logits of different rows "
    "have no common scale. The logarithm changes no order, and tells tiny probabilities apart that would round to 0. "
    "A stable sort keeps equal ones by index."
)
"""Why the reference is written as it is."""
REQUIRED = ("least-confident-not-wrong", "raw-logit-not-probability", "best-first")
"""The mistakes that a check must always be able to name."""


def by_own_probability(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(1, labels[:, None])[:, 0]


def least_confident(logits: Tensor, labels: Tensor, k: int) -> Any:
    return logits.softmax(-1).amax(-1).argsort(stable=True)[:k]


def highest_entropy(logits: Tensor, labels: Tensor, k: int) -> Any:
    p = logits.softmax(-1)
    return (p * p.log()).sum(-1).argsort(stable=True)[:k]


def raw_logit(logits: Tensor, labels: Tensor, k: int) -> Any:
    return logits.gather(1, labels[:, None])[:, 0].argsort(stable=True)[:k]


def margin(logits: Tensor, labels: Tensor, k: int) -> Any:
    own = logits.gather(1, labels[:, None])[:, 0]
    return (own - logits.amax(-1)).argsort(stable=True)[:k]


def margin_of_probabilities(logits: Tensor, labels: Tensor, k: int) -> Any:
    p = logits.softmax(-1)
    return (p.gather(1, labels[:, None])[:, 0] - p.amax(-1)).argsort(stable=True)[:k]


def over_the_tickets(logits: Tensor, labels: Tensor, k: int) -> Any:
    return logits.log_softmax(0).gather(1, labels[:, None])[:, 0].argsort(stable=True)[:k]


def best_first(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).argsort(descending=True, stable=True)[:k]


def smallest_loss_first(logits: Tensor, labels: Tensor, k: int) -> Any:
    return F.cross_entropy(logits, labels, reduction="none").argsort(stable=True)[:k]


def best_first_by_topk(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).topk(min(k, len(labels))).indices


def best_first_by_topk_of_k(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).topk(k).indices


def worst_last(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).argsort(stable=True)[:k].flip(0)


def in_float32(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits.float(), labels).argsort(stable=True)[:k]


def clamped(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).clamp(min=-1000.0).argsort(stable=True)[:k]


def reshapes_the_labels(logits: Tensor, labels: Tensor, k: int) -> Any:
    return logits.log_softmax(-1).gather(1, labels.unsqueeze_(1))[:, 0].argsort(stable=True)[:k]


def by_index(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).argsort(stable=True)[:k].sort().values


def ties_backwards(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).argsort(descending=True, stable=True).flip(0)[:k]


def wrong_only(logits: Tensor, labels: Tensor, k: int) -> Any:
    own = by_own_probability(logits, labels)
    own = own.masked_fill(logits.argmax(-1) == labels, torch.inf)
    return own.argsort(stable=True)[: min(k, int(own.isfinite().sum()))]


def surest_of_another(logits: Tensor, labels: Tensor, k: int) -> Any:
    p, predicted = logits.softmax(-1).max(-1)
    score = torch.where(predicted == labels, -p, p)
    return score.argsort(descending=True, stable=True)[:k]


def probabilities_not_indices(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).exp().sort().values[:k]


def more_than_there_are(logits: Tensor, labels: Tensor, k: int) -> Any:
    own = by_own_probability(logits, labels)
    own.topk(k, largest=False)
    return own.argsort(stable=True)[:k]


def topk_of_k(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).topk(k, largest=False).indices


def topk_of_what_there_is(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).topk(min(k, len(labels)), largest=False).indices


def as_a_list(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).argsort(stable=True)[:k].tolist()


def rows_on_the_cpu(logits: Tensor, labels: Tensor, k: int) -> Any:
    own = logits.log_softmax(-1)[torch.arange(len(labels)), labels] + torch.zeros(len(labels))
    return own.argsort(stable=True)[:k]


def brought_to_the_cpu(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).cpu().argsort(stable=True)[:k]


def with_numpy(logits: Tensor, labels: Tensor, k: int) -> Any:
    return torch.from_numpy(by_own_probability(logits, labels).numpy().argsort(kind="stable")[:k].copy())


def one_too_many(logits: Tensor, labels: Tensor, k: int) -> Any:
    return by_own_probability(logits, labels).argsort(stable=True)[: k + 1]


def underflowing(logits: Tensor, labels: Tensor, k: int) -> Any:
    return logits.softmax(-1).gather(1, labels[:, None])[:, 0].argsort(stable=True)[:k]


def underflowing_later(logits: Tensor, labels: Tensor, k: int) -> Any:
    return underflowing(logits.double(), labels, k)


SUSPECT = "Labels that look wrong"
FIRST = 'In the case "{case}" the first indices are {got_first} where {want_first} are wanted: '
MISTAKES = [
    Mistake("least-confident-not-wrong", least_confident, FIRST + "these are the tickets of which the model is least "
            "sure, whatever their label. A wrong label shows where it is sure of another one.", SUSPECT),
    Mistake("least-confident-not-wrong", highest_entropy, FIRST + "the entropy says how unsure the model is, and does "
            "not look at the label.", SUSPECT),
    Mistake("raw-logit-not-probability", raw_logit, FIRST + "logits were compared across tickets. Ticket {ticket} has "
            "a low logit for its label, but all its logits are low.", SUSPECT),
    Mistake("margin-not-probability", margin, FIRST + "the tickets were sorted by the distance to the largest logit. "
            "With several likely classes that is a different order from that by probability.", SUSPECT),
    Mistake("margin-not-probability", margin_of_probabilities, FIRST + "the tickets were sorted by the distance to the "
            "largest probability. With several likely classes that is a different order from that by the label's own "
            "probability.", SUSPECT),
    Mistake("softmax-over-tickets", over_the_tickets, FIRST + "the softmax ran over the tickets and not over the "
            "classes of each.", SUSPECT),
    Mistake("probabilities-underflow", underflowing, FIRST + "for extremely unlikely labels every probability is 0 in "
            "float32, and zeros have no order. Log probabilities have one.", SUSPECT),
    Mistake("probabilities-underflow", underflowing_later, FIRST + "for extremely unlikely labels every probability is "
            "0, in float64 as well, and zeros have no order. Log probabilities have one.", SUSPECT),
    Mistake("best-first", best_first, FIRST + "these are the tickets whose labels the model likes best.", SUSPECT),
    Mistake("best-first", smallest_loss_first, FIRST + "a small loss means a likely label, so these are the best "
            "ones.", SUSPECT),
    Mistake("best-first", best_first_by_topk, FIRST + "`topk` takes the largest unless it is told otherwise, and these "
            "are the tickets whose labels the model likes best.", SUSPECT),
    Mistake("best-first", best_first_by_topk_of_k, FIRST + "`topk` takes the largest unless it is told otherwise. And "
            "it raises where there are fewer than k.", SUSPECT),
    Mistake("worst-last", worst_last, FIRST + "the right tickets, but the worst one comes last.", SUSPECT),
    Mistake("sorted-by-index", by_index, FIRST + "the right tickets, but sorted by index; whoever looks through them "
            "begins with the worst.", SUSPECT),
    Mistake("ties-by-last-index", ties_backwards, FIRST + "equally likely ones come with the largest index first.",
            SUSPECT),
    Mistake("drops-agreeing", wrong_only, 'In the case "{case}" {count} indices came back and {want_count} are '
            "wanted: tickets for which the model agrees with the label were left out, although k are asked for.",
            SUSPECT),
    Mistake("confidence-in-another", surest_of_another, FIRST + "these are sorted by how sure the model is of its own "
            "choice. The label's own probability is what is asked for.", SUSPECT),
    Mistake("returns-probabilities", probabilities_not_indices, "The result is of {got_dtype} where {want_dtype} is "
            "wanted: these are probabilities and not indices.", SUSPECT),
    Mistake("computes-in-float32", in_float32, FIRST + "these log probabilities differ in digits that a float32 does "
            "not have, and the logits are float64.", SUSPECT),
    Mistake("probabilities-underflow", clamped, FIRST + "log probabilities were cut off from below, so that the "
            "worst labels could no longer be told apart.", SUSPECT),
    Mistake("changes-the-labels", reshapes_the_labels, 'In the case "{case}" the caller\'s labels were {got} by the '
            "call: `unsqueeze_` works in place.", SUSPECT),
    Mistake("fails-on-few", more_than_there_are, 'In the case "{case}" the call raised {got}: with fewer than k '
            "tickets, all of them are wanted.", SUSPECT),
    Mistake("fails-on-few", topk_of_k, FIRST + "`topk` keeps no order among equally likely ones. And it raises where "
            "there are fewer than k.", SUSPECT),
    Mistake("ties-by-topk", topk_of_what_there_is, FIRST + "`topk` keeps no order among equally likely ones; a stable "
            "sort does.", SUSPECT),
    Mistake("returns-a-list", as_a_list, "The call should give an int64 tensor with {want_first}, and gave a list.",
            SUSPECT),
    Mistake("one-too-many", one_too_many, 'In the case "{case}" {count} indices came back and {want_count} are '
            "wanted: `k` says how many.", SUSPECT),
    Mistake("made-on-cpu", rows_on_the_cpu, MIXED, SUSPECT),
    Mistake("made-on-cpu", brought_to_the_cpu, "On the second device the result came out on the {device}: it belongs "
            "where the logits are.", SUSPECT),
    Mistake("made-on-cpu", with_numpy, NUMPY_ONLY, SUSPECT),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case("200 tickets of seven classes", **judged(draw, 200, 7), k=40),
        case("labels that are less likely still", **hopeless(draw, 12, 3, least=9000.0), k=7),
        case("one ticket", **judged(draw, 1, 3), k=1),
        case("many equal ones", **repeated(draw, 4, 4, 12), k=30),
    ]


# Right answers unlike the reference


def by_loss(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    losses = F.cross_entropy(logits, labels, reduction="none")
    return losses.sort(descending=True, stable=True).indices[:k]


def one_by_one(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    scores = torch.log_softmax(logits.double(), dim=1)
    own = [scores[i, label].item() for i, label in enumerate(labels.tolist())]
    order = sorted(range(len(own)), key=lambda i: (own[i], i))[:k]
    return torch.tensor(order, dtype=torch.int64, device=logits.device)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_loss, one_by_one]
