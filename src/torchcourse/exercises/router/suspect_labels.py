"""The exercise `suspect_labels`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, look


def probe(answer: Watched, logits: Tensor, labels: Tensor, k: int) -> Observations:
    before = logits.clone(), labels.clone()
    seen = look(answer(logits, labels, k), logits)
    return {**seen, **kept(logits=(logits, before[0]), labels=(labels, before[1]))}


def judged(draw: Draw, n: int, classes: int, spread: float = 2.0) -> dict[str, Any]:
    """Draw logits with a level of its own for each ticket, and labels, most of which the model agrees with."""
    logits = spread * draw.normal(n, classes) + 4 * draw.normal(n, 1)
    labels = torch.where(draw.flags(n, share=0.4), draw.integers(0, classes, n), logits.argmax(1))
    return {"logits": logits, "labels": labels}


def repeated(draw: Draw, n: int, classes: int, times: int) -> dict[str, Any]:
    """Draw some tickets, all of them `times` times."""
    one = judged(draw, n, classes)
    return {"logits": one["logits"].repeat(times, 1), "labels": one["labels"].repeat(times)}


def hopeless(draw: Draw, n: int, classes: int, least: float = 1500.0) -> dict[str, Any]:
    """Draw tickets whose labels are so unlikely that a probability is 0 for all, in float64 as well."""
    found = judged(draw, n, classes)
    away = least + 10.0 * draw.normal(n).argsort()
    found["logits"] -= away[:, None] * F.one_hot(found["labels"], classes)
    return found


def nearly_equal(draw: Draw, n: int, classes: int) -> dict[str, Any]:
    """Draw one ticket in float64, n times, whose own logit differs by less than float32 can tell."""
    logits, labels = draw.normal(1, classes, dtype=torch.float64).repeat(n, 1), draw.integers(0, classes, 1).repeat(n)
    logits += 1e-9 * draw.normal(n).argsort()[:, None] * F.one_hot(labels, classes)
    return {"logits": logits, "labels": labels}


def cases(draw: Draw) -> list[Case]:
    return [
        case("twenty tickets", **judged(draw, 20, 3), k=8),
        case("two classes", **judged(draw, 12, 2), k=5),
        case("tickets that come three times", **repeated(draw, 5, 3, 3), k=9),
        case("labels that are all but impossible", **hopeless(draw, 9, 3), k=6),
        case("float64, nearly equal", **nearly_equal(draw, 8, 3), k=5),
        case("more asked for than there are", **judged(draw, 4, 3), k=10),
        case("none asked for", **judged(draw, 5, 3), k=0),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want = seen.get("result"), wanted["result"]
    fields: dict[str, object] = {"want_first": want[:5].tolist()}
    if isinstance(got, Tensor) and got.ndim == 1:
        own = inputs["logits"].softmax(-1).gather(1, inputs["labels"][:, None])[:, 0]
        fields |= {"got_first": got[:5].tolist(), "count": len(got), "want_count": len(want)}
        differ = (got[: len(want)] != want[: len(got)]).nonzero()
        if len(differ) and not got.is_floating_point() and 0 <= int(got[differ[0]]) < len(own):
            place = int(differ[0])
            fields |= {"ticket": int(got[place]), "own": float(own[got[place]])}
            fields |= {"want_ticket": int(want[place]), "want_own": float(own[want[place]])}
    return fields


EXERCISE = Exercise(
    "suspect_labels",
    probe,
    cases,
    hints=(
        "A ticket is suspicious not because the model is unsure, but because it is sure of something else. Which "
        "single probability per ticket says that?",
        "`gather` takes from each row the entry of its own label. Does a logit of 3 mean the same in two rows whose "
        "other logits differ?",
        "`argsort` goes from small to large. Which of its arguments keeps equal ones in the order of their indices, "
        "and what does a slice do if there are fewer than k?",
    ),
    quotes=quotes,
)
