"""The exercise `dependencies`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.functions import expected_error
from torchcourse.probes.observe import kept, look


def whitened(x: Tensor) -> Tensor:
    """Return x normalised over its rows, as a batch norm in training mode does."""
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def leaky(x: Tensor) -> Tensor:
    """Return running sums with one mistake: the second row sees the last one."""
    sums = x.cumsum(0)
    return torch.cat([sums[:1], sums[1:2] - x[-1:], sums[2:]])


def whisper(x: Tensor) -> Tensor:
    """Return x with a share of the row above of which the square is hardly above the smallest number."""
    share: float = torch.finfo(x.dtype).tiny ** 0.48
    return x + share * x.roll(1, 0)


def partly_cut(x: Tensor) -> Tensor:
    return torch.cat([x[:1].detach() * 2, (x * x)[1:]])


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "every row for itself": lambda x: torch.sin(x) - 3 * x,
    "running sums": lambda x: -x.cumsum(0),
    "leaky": leaky,
    "batch norm": whitened,
    "softmax of each row": lambda x: x.softmax(-1),
    "differences in each row": lambda x: x - x.mean(-1, keepdim=True),
    "sums of differences": lambda x: (x.flatten(1) * (torch.arange(x[0].numel(), device=x.device) - 1)).cumsum(0),
    "shifted": lambda x: x.roll(1, 0) * 2,
    "constant": lambda x: torch.ones_like(x).detach(),
    "first row detached": partly_cut,
    "whisper": whisper,
    "one number each": lambda x: x.flatten(1).square().sum(1),
}
"""Functions that keep the number of rows."""


def probe(answer: Watched, form: str, x: Tensor, role: str) -> Observations:
    """Observe the table, and what the call left behind on x: a plain tensor, a leaf with a gradient, or a result."""
    base = x.clone().requires_grad_(role != "plain")
    given = base * 1 if role == "result" else base
    given.grad = torch.ones_like(base) if role == "leaf" else None
    before = given.detach().clone()
    try:
        result = answer(FUNCTIONS[form], given)
    except RuntimeError as error:
        return {"the call": expected_error(error, {"does not require grad": "no graph"})}
    grad = given.grad if role == "leaf" else base.grad
    same = grad is None if role != "leaf" else grad is not None and bool((grad == 1).all())
    left = "as before" if same else "changed"
    return {
        **look(result, x),
        "x.grad afterwards": left,
        "x requires grad afterwards": given.requires_grad,
        **kept(x=(given.detach(), before)),
    }


def cases(draw: Draw) -> list[Case]:
    n = draw.size(4, 5)

    def drawn(form: str, *shape: int, role: str = "plain", dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        return {"form": form, "x": draw.normal(*shape, dtype=dtype), "role": role}

    return [
        case("every row for itself", **drawn("every row for itself", n, 3)),
        case("running sums", **drawn("running sums", n, 2)),
        case("one row that sees ahead", **drawn("leaky", n, 2, role="leaf")),
        case("batch norm in training mode", **drawn("batch norm", 4, 2)),
        case("a softmax of each row", **drawn("softmax of each row", n, 3, role="result")),
        case("differences that cancel", **drawn("differences in each row", 3, 4)),
        case("a constant", **drawn("constant", 3, 2)),
        case("a row that is detached", **drawn("first row detached", n, 2, role="leaf")),
        case("rows of matrices, float64", **drawn("shifted", 3, 2, 2, dtype=torch.float64)),
        case("one number for each row", **drawn("one number each", n, 3)),
        case("a vector", **drawn("running sums", n)),
        case("a tiny share of another row", **drawn("whisper", 4, 2)),
        case("a single row", **drawn("every row for itself", 1, 2)),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want = seen.get("result"), wanted.get("result")
    if not (
        isinstance(got, Tensor) and isinstance(want, Tensor) and got.shape == want.shape and got.dtype == want.dtype
    ):
        return {}
    wrong = (got != want).nonzero()
    if not len(wrong):
        return {}
    i, j = wrong[0].tolist()
    return {"i": i, "j": j, "said": bool(got[i, j]), "true": bool(want[i, j])}


EXERCISE = Exercise(
    "dependencies",
    probe,
    cases,
    hints=(
        "Differentiate one number of the output by all of x: where it is not zero, there is a dependency. How many "
        "numbers does row i of the output have, and why is it not enough to ask for their sum?",
        "The softmax of a row always adds up to 1, so the derivative of its sum is zero everywhere. Which function of "
        "`torch.autograd.functional` gives all derivatives of all numbers at once?",
        "Its result has the shape of the output and then that of x. Which dimensions do you join, and which two "
        "remain? Work on a copy of x of your own, so that the caller's stays as it is.",
    ),
    quotes=quotes,
)
