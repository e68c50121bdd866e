"""The exercise `average_gradients`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.on_ranks import MODULES, on_ranks, rank


def program(answer: Callable[..., Any], gradients: list[list[Tensor | None]]) -> Observations:
    """Observe the gradients of this rank afterwards."""
    mine = gradients[rank()]
    shapes = [next(g for g in both if g is not None).shape if any(g is not None for g in both) else (2,)
              for both in zip(*gradients, strict=True)]  # fmt: skip
    dtype = next(g.dtype for g in mine if g is not None) if any(g is not None for g in mine) else torch.float32
    model = nn.Module()
    model.layers = nn.ParameterList(nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in shapes)
    for parameter, gradient in zip(model.parameters(), mine, strict=True):
        parameter.grad = gradient
    returned = answer(model)
    untouched = all(bool((p == 1).all()) for p in model.parameters())
    return {
        **{f"gradient {place}": p.grad for place, p in enumerate(model.parameters())},
        "parameters": "as before" if untouched else "changed",
        "returned": "None" if returned is None else kind(returned),
    }


def probe(answer: Watched, gradients: list[list[Tensor | None]]) -> Observations:
    """Observe the gradients of all ranks."""
    return on_ranks(answer, program, {"gradients": gradients}, len(gradients))


def cases(draw: Draw) -> list[Case]:
    def drawn(pattern: list[str], dtype: torch.dtype = torch.float32, world_size: int = 2) -> list[list[Tensor | None]]:
        """Return gradients for each rank: in `pattern`, "01" means that ranks 0 and 1 have one, "0." only rank 0."""
        shape, ranks = (draw.size(2, 4), draw.size(2, 4)), range(world_size)
        return [[draw.normal(*shape, dtype=dtype) if str(r) in has else None for has in pattern] for r in ranks]

    strided = [[draw.normal(8, 3)[::2], draw.normal(4, 6)[:, 1:4].T] for _ in range(2)]
    cancelling = draw.normal(3)
    nothing: list[list[Tensor | None]] = [[torch.zeros(2, 3), sign * cancelling] for sign in (1, -1)]
    nothing[0].append(torch.zeros(2))
    nothing[1].append(None)
    differently = [[draw.normal(4, 3)], [draw.normal(3, 4).T]]
    return [
        case("every rank has all gradients", gradients=drawn(["01", "01"])),
        case("a layer that rank 1 did not use", gradients=drawn(["01", "0.", "01"])),
        case("each rank left out another layer", gradients=drawn(["01", "0.", ".1"])),
        case("a layer that no rank used", gradients=drawn(["01", "..", "01"])),
        case("gradients that are zero, or cancel", gradients=nothing),
        case("strided gradients", gradients=strided),
        case("one rank's gradient is transposed in memory", gradients=differently),
        case("float64", rtol=1e-12, atol=1e-12, gradients=drawn(["01", ".1"], torch.float64)),
        case("three ranks", gradients=drawn(["012", ".1."], world_size=3)),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    waiting = [r for r in range(3) if seen.get(f"rank {r}", "returned") != "returned"]
    return {"who": waiting[0] if waiting else 0, "ended": seen.get(f"rank {waiting[0] if waiting else 0}")}


EXERCISE = Exercise(
    "average_gradients",
    probe,
    cases,
    hints=(
        "The n-th `all_reduce` of one rank meets the n-th of the other, whatever they hold. What goes wrong if one "
        "rank skips a parameter whose gradient is None?",
        "So all ranks have to agree on which parameters take part before the first gradient is sent. One flag for each "
        "parameter, added up over the ranks, tells them. What does a sum of 0 mean?",
        "A rank without a gradient sends zeros. Divide by the number of ranks, not by the number of those that had "
        "one, and send a contiguous tensor: two layouts of one shape do not match.",
    ),
    any_device=False,
    quotes=quotes,
    imports=MODULES,
)
