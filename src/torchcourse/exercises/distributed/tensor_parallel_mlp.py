"""The exercise `tensor_parallel_mlp`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, kind
from torchcourse.probes.on_ranks import MODULES, Exchanges, on_ranks, rank


def program(
    answer: Callable[..., Any], x: Tensor, w1: Tensor, w2: Tensor, g: Tensor, cuts: list[int], data: bool = False
) -> Observations:
    """Observe the second call on the same x: output and gradients of this rank, and the exchanges of both directions.

    A rank's hidden units are those between two of the `cuts`. With `data`, x needs no gradient, as the input of a first
    layer.
    """
    ends = [0, *cuts, len(w1)]
    mine = slice(ends[rank()], ends[rank() + 1])
    x, w1, w2 = (t.clone().requires_grad_() for t in (x, w1[mine], w2[:, mine]))
    if data:
        x.requires_grad_(False)
    before = x.detach().clone(), g.clone()
    answer(x, w1, w2)
    with Exchanges() as forward:
        y = answer(x, w1, w2)
    if not isinstance(y, Tensor) or y.shape != g.shape:
        return {"returned": kind(y)}
    seen: Observations = {"output": y.detach(), "exchanges forward": len(forward.calls)}
    if not y.requires_grad:
        return seen | {"graph": "none"}
    wanted = {"gradient of x": x, "gradient of w1": w1, "gradient of w2": w2}
    if data:
        seen["x needs a gradient afterwards"] = wanted.pop("gradient of x").requires_grad
    with Exchanges() as backward:
        found = torch.autograd.grad(y, tuple(wanted.values()), g, allow_unused=True)
    seen |= dict(zip(wanted, found, strict=True)) | kept(x=(x, before[0]), g=(g, before[1]))
    return seen if data else seen | {"exchanges backward": len(backward.calls)}


def probe(answer: Watched, **inputs: Any) -> Observations:
    """Observe all ranks."""
    return on_ranks(answer, program, inputs, len(inputs["cuts"]) + 1)


def cases(draw: Draw) -> list[Case]:
    def layer(*lead: int, cuts: list[int], hidden: int, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        inputs, outputs = draw.size(2, 4), draw.size(5, 6)
        return {
            "x": draw.normal(*lead, inputs, dtype=dtype), "w1": draw.normal(hidden, inputs, dtype=dtype),
            "w2": draw.normal(outputs, hidden, dtype=dtype), "g": draw.normal(*lead, outputs, dtype=dtype),
            "cuts": cuts,
        }  # fmt: skip

    in_float64 = {"rtol": 1e-9, "atol": 1e-10}
    sequences = layer(2, 3, cuts=[3], hidden=6, dtype=torch.float64)
    sequences["x"] = draw.normal(3, 2, sequences["x"].shape[-1], dtype=torch.float64).transpose(0, 1)
    return [
        case("two halves", **layer(draw.size(3, 5), cuts=[4], hidden=8)),
        case("three uneven shards", **layer(3, cuts=[2, 5], hidden=draw.size(7, 9))),
        case("a batch of sequences, float64", **in_float64, **sequences),
        case("one row, which needs no gradient", data=True, **layer(cuts=[3], hidden=5)),
        case("a gradient that is expanded", **layer(4, cuts=[5], hidden=10) | {"g": torch.ones(1, 1).expand(4, 5)}
             | {"w2": draw.normal(5, 10)}),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    got, want = seen.get("gradient of x, rank 0"), wanted.get("gradient of x, rank 0")
    if isinstance(got, Tensor) and isinstance(want, Tensor) and got.shape == want.shape:
        fields |= {"grad": got.flatten()[0], "right": want.flatten()[0]}
    fields |= {"forward": seen.get("exchanges forward, rank 0"), "backward": seen.get("exchanges backward, rank 0")}
    if "returned, rank 0" in seen:
        fields["returned"] = seen["returned, rank 0"]
    return fields


EXERCISE = Exercise(
    "tensor_parallel_mlp",
    probe,
    cases,
    hints=(
        "With its rows of `w1` a rank has some of the hidden units, complete, so gelu can be applied without asking. "
        "With its columns of `w2` it has a part of every output. What has to be added up, and when?",
        "x goes into both ranks, so its gradient comes out of both, in two parts. The output is the same on both "
        "ranks, and so is the gradient that arrives there: adding that up would count it twice.",
        "You need two functions that are each other's mirror image: one does nothing forward and adds up backward, the "
        "other adds up forward and does nothing backward. Lesson 2's `autograd.Function` has room for both.",
    ),
    any_device=False,
    quotes=quotes,
    imports=MODULES,
)
