"""The exercise `max_difference`: its probe, visible cases and hints."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind


class Table:
    """A function from inputs to given outputs; an input says by its first number which one it wants."""

    def __init__(self, outputs: list[Tensor]) -> None:
        self.outputs = outputs

    def __call__(self, x: Tensor) -> Tensor:
        return self.outputs[int(x.flatten()[0])].clone()


def probe(answer: Watched, reference: list[Tensor], candidate: list[Tensor], refused: bool) -> Observations:
    """Compare two functions that look their outputs up in tables."""
    inputs = [torch.full((2, 3), float(n)) for n in range(len(reference))]
    try:
        found = answer(Table(reference), Table(candidate), inputs)
    except Unattempted:
        raise
    except Exception as error:
        if refused:
            return {"refused": "with an exception"}
        raise error
    if refused:
        return {"refused": f"no exception but {kind(found)}"}
    return {"difference": found} if isinstance(found, float) else {"returned": kind(found)}


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 5), draw.size(2, 4)
    outs = [draw.normal(n, d) for _ in range(3)]
    shifted = [out + (-1) ** k * (0.01 + k / 100) for k, out in enumerate(outs)]
    spike = [out.clone() for out in outs]
    spike[0][1, 0] -= 5.0
    holes, filled_holes = ([out.clone() for out in outs] for _ in range(2))
    holes[1][0, 1] = math.nan
    filled_holes[1][0, 1] = math.nan
    filled_holes[2] = filled_holes[2] + 0.25
    dark, bright = (draw.integers(low, low + 90, n, d, dtype=torch.uint8) for low in (0, 150))
    large, hot = draw.integers(2**24, 2**30, n, d), draw.uniform(4e4, 6e4, n, d, dtype=torch.float16)
    column, flat = [draw.normal(n, 1)], [draw.normal(n)]
    same_column = [flat[0].view(n, 1)]
    return [
        case("equal", reference=outs, candidate=outs, refused=False),
        case("a little off everywhere", reference=outs, candidate=shifted, refused=False),
        case("one entry of the first is far off", reference=outs, candidate=spike, refused=False),
        case("NaN where a number should be", reference=outs, candidate=holes, refused=False),
        case("a number where NaN should be", reference=holes, candidate=outs, refused=False),
        case("NaN on both sides", reference=holes, candidate=filled_holes, refused=False),
        case(
            "outputs that are part of a graph, as a model's",
            refused=False,
            candidate=shifted,
            reference=[out.clone().requires_grad_() for out in outs],
        ),
        case("bytes", reference=[dark], candidate=[bright], refused=False),
        case("large integers, one apart", reference=[large], candidate=[large + 1], refused=False),
        case("float16, far apart", reference=[hot], candidate=[-hot], refused=False),
        case("a column and a row", reference=column, candidate=flat, refused=True),
        case("the same numbers, one dimension more", reference=flat, candidate=same_column, refused=True),
        case("one output is too short", reference=outs, candidate=[*outs[:2], outs[2][:1]], refused=True),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields = {"found": seen.get("difference"), "meant": wanted.get("difference"), "refused": seen.get("refused")}
    fields["returned"] = seen.get("returned")
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "max_difference",
    probe,
    cases,
    hints=(
        "A mean over a million entries hides one that is far off. Which reduction does not, and over what besides one "
        "output does it have to go?",
        "`a - b` broadcasts without a word: a column and a row make a table. What do you compare before you subtract?",
        "NaN is equal to nothing, not even to itself, and `max` of Python and of torch treat it in two ways. `isnan` "
        "of both sides gives two masks: when do they agree, and what if not?",
    ),
    any_device=False,
    quotes=quotes,
)
