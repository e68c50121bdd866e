"""The exercise `masked_mean`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import float32_digits, kept, look


def probe(answer: Watched, x: Tensor, mask: Tensor) -> dict[str, Any]:
    """Observe the means, and whether a gradient reaches `x`, finite where the padding holds NaN."""
    before = x.clone(), mask.clone()
    result = answer(x, mask)
    seen = {**look(result, x), **kept(x=(x, before[0]), mask=(mask, before[1]))}
    leaf = before[0].requires_grad_()
    result = answer(leaf.clone(), before[1])
    if isinstance(result, Tensor) and result.requires_grad:
        result.sum().backward()  # type: ignore[no-untyped-call]
    return {**seen, "gradient of x": _arrived(leaf.grad, bool(before[1].any()))}


def _arrived(gradient: Tensor | None, any_step: bool) -> str:
    """Describe the gradient that arrived at `x`; where no step is real, none has to."""
    if gradient is None:
        return "none at all" if any_step else "finite"
    return "finite" if bool(gradient.isfinite().all()) else "not finite everywhere"


def cases(draw: Draw) -> list[Case]:
    b, t, d = draw.size(2, 3), draw.size(4, 5), draw.size(3, 4)

    def steps(*lengths: int) -> Tensor:
        return torch.arange(t) < torch.tensor(lengths)[:, None]

    mask = draw.flags(b, t)
    mask[:, 0], mask[:, -1] = True, False
    x = draw.normal(2, t, d)
    overflown = draw.normal(2, t, d)
    overflown[1, 1, 0], overflown[0, 1, 2] = torch.inf, torch.nan
    return [
        case("some steps are padding", x=draw.normal(b, t, d), mask=mask),
        case("as many examples as features", x=draw.normal(d, t, d), mask=steps(*[t, 1, t - 1, 2][:d])),
        case("all steps are real", x=draw.normal(b, t, d).relu(), mask=torch.ones(b, t, dtype=torch.bool)),
        case("a row without any real step", x=draw.normal(2, t, d), mask=steps(0, 2)),
        case("NaN in the padding", x=x.masked_fill(~steps(2, 3)[..., None], torch.nan), mask=steps(2, 3)),
        case("inf in the padding", x=x.masked_fill(~steps(3, 1)[..., None], torch.inf), mask=steps(3, 1)),
        case("NaN, and no real step", x=x.masked_fill(~steps(0, t)[..., None], torch.nan), mask=steps(0, t)),
        case("inf and NaN at real steps", x=overflown, mask=steps(2, 3)),
        case("float64", rtol=1e-10, atol=1e-12, x=draw.normal(b, t, d, dtype=torch.float64), mask=mask),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    real = inputs["mask"].sum(1)
    result = seen["result"]
    if not isinstance(result, Tensor):
        return {}
    wrong = ~torch.isclose(result, wanted["result"], equal_nan=True)
    if not wrong.any():
        return {}
    row, feature = (int(i) for i in wrong.nonzero()[0])
    return {
        "row": row, "real": int(real[row]), "length": inputs["mask"].shape[1],
        "got_row": result[row, feature].item(), "want_row": wanted["result"][row, feature].item(),
    }  # fmt: skip


EXERCISE = Exercise(
    "masked_mean",
    probe,
    cases,
    hints=(
        "A mean is a sum over a count. Which steps go into the sum, and how many of them are there in each row?",
        "What is `float('nan') * 0`? Multiplying by the mask does not take a NaN away; which operation writes over it?",
        "A row without a real step has the sum 0 and the count 0. Which smallest change to the count makes 0 / count a "
        "0?",
    ),
    derive=float32_digits,
    quotes=quotes,
)
