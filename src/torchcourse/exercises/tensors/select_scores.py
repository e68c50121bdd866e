"""The exercise `select_scores`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.observe import costs, growth, kept, look, numbers_of_rows, other_rows


def probe(answer: Watched, scores: Tensor, labels: Tensor, weights: Tensor) -> dict[str, Any]:
    """Observe the scores picked, the gradient that flows back, and what a call costs for fewer and more rows."""
    before = scores.detach().clone(), labels.clone()
    result = answer(scores, labels)
    seen = {**look(result, scores), "follows the graph": bool(getattr(result, "requires_grad", False))}
    if seen["follows the graph"] and result.shape == weights.shape:
        (result * weights.to(result.device)).sum().backward()
    seen["gradient of scores"] = scores.grad
    inputs = kept(scores=(scores.detach(), before[0]), labels=(labels, before[1]))
    more = [(other_rows(before[0], n), other_rows(before[1], n)) for n in numbers_of_rows(len(scores))]
    return {**seen, **inputs, "cost": costs(answer, more)}


def cases(draw: Draw) -> list[Case]:
    n, c = draw.size(5, 6), draw.size(3, 4)

    def drawn(name: str, n: int, c: int, dtype: torch.dtype = torch.float32) -> Case:
        scores = draw.normal(n, c, dtype=dtype).requires_grad_()
        return case(name, scores=scores, labels=draw.integers(0, c, n), weights=draw.normal(n, dtype=dtype))

    labels = draw.integers(0, c, n)
    hidden = torch.full((n, c), -torch.inf).scatter(1, labels[:, None], draw.normal(n, 1))
    return [
        drawn("more rows than classes", n, c),
        drawn("as many rows as classes", n, n),
        drawn("one row", 1, c),
        drawn("float64", n, c, torch.float64),
        case("-inf at the other labels", scores=hidden.requires_grad_(), labels=labels, weights=draw.normal(n)),
        drawn("no rows", 0, c),
    ]


EXERCISE = Exercise(
    "select_scores",
    probe,
    cases,
    hints=(
        "`scores[labels]` picks whole rows. Which second index belongs to each row, and which first index goes with "
        "it?",
        "Two index tensors of one shape are paired up element by element. Or: which function picks along a dimension "
        "by an index tensor with as many dimensions as the source?",
        "Does the result still have a `grad_fn`? Anything that goes through Python numbers, `.data` or NumPy loses it.",
    ),
    measures=True,
    derive=growth,
)
