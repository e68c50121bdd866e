"""The exercise `grouped_query_attention`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.modules import gradients
from torchcourse.probes.observe import float32_digits, kept, look


class AsksForGroups(TorchFunctionMode):
    """Notices calls with `enable_gqa=True`, as far as Python sees them."""

    asked = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note the argument, and run the call."""
        self.asked = self.asked or bool((kwargs or {}).get("enable_gqa"))
        return func(*args, **(kwargs or {}))


def probe(answer: Watched, q: Tensor, k: Tensor, v: Tensor) -> Observations:
    """Observe the result, whether `enable_gqa` was used, that the inputs stay as they were, and the gradients."""
    before = q.clone(), k.clone(), v.clone()
    answer.with_inputs = True
    with AsksForGroups() as asks:
        seen = look(answer(q, k, v), q)
    seen["uses enable_gqa"] = asks.asked or answer.groups_heads
    seen |= kept(q=(q, before[0]), k=(k, before[1]), v=(v, before[2]))
    if not all(torch.equal(now, then) for now, then in zip((q, k, v), before, strict=True)):
        return seen
    leaves = {name: t.requires_grad_() for name, t in zip("qkv", before, strict=True)}
    output = answer(*before)
    with answer.watched(is_backward=True):
        seen |= gradients(output, **leaves)
    return {**seen, "uses enable_gqa": seen["uses enable_gqa"] or answer.groups_heads}


def grouped(
    draw: Draw, name: str, h: int, g: int, t: int, s: int, dtype: torch.dtype = torch.float32, b: int = 2,
    score: float = 0.0,
) -> Case:  # fmt: skip
    """Return the case of h query heads and g key heads; `score` is added to all scores."""
    d = 4 if dtype == torch.float64 else draw.size(4, 6)  # a root of 4 that somebody takes in float32 is right as well
    q, k, v = draw.normal(b, h, t, d), draw.normal(b, g, s, d), draw.normal(b, g, s, d)
    rtol, atol = (1e-10, 1e-12) if dtype == torch.float64 else (1e-3, 1e-2 if score else 1e-5)
    if score:
        q[..., 0], k[..., 0] = score * d**0.5, 1.0
    return case(name, rtol=rtol, atol=atol, q=q.to(dtype), k=k.to(dtype), v=v.to(dtype))


def cases(draw: Draw) -> list[Case]:
    t, s = draw.size(2, 3), draw.size(4, 5)
    return [
        grouped(draw, "six query heads, three key heads", 6, 3, t, s),
        grouped(draw, "six query heads, two key heads", 6, 2, t, s),
        grouped(draw, "eight query heads, two key heads", 8, 2, t, s),
        grouped(draw, "one key head for all", 4, 1, t, s),
        grouped(draw, "as many key heads as query heads", 3, 3, t, s),
        grouped(draw, "as many queries as keys", 6, 2, s, s),
        grouped(draw, "one query", 4, 2, 1, s),
        grouped(draw, "float64", 4, 2, t, s, torch.float64),
        grouped(draw, "large scores", 4, 2, t, s, score=120.0),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    h, g = inputs["q"].shape[1], inputs["k"].shape[1]
    counts = {"queries": inputs["q"].shape[2], "keys": inputs["k"].shape[2]}
    return {"h": h, "g": g, "share": h // g, "asked": seen.get("uses enable_gqa"), **counts}


EXERCISE = Exercise(
    "grouped_query_attention",
    probe,
    cases,
    hints=(
        "With six query heads and two key heads: which key head do the query heads 0, 1, 2, 3, 4, 5 use? Write the six "
        "numbers down.",
        "`repeat` and `repeat_interleave` both make more of a dimension. Which of the two gives 0, 0, 0, 1, 1, 1?",
        "Another way needs no copies at all: view the queries as (b, g, h // g, t, d), and give keys and values a "
        "dimension of one. What broadcasts against what?",
    ),
    measures=True,
    derive=float32_digits,
    quotes=quotes,
)
