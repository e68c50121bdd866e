"""The exercise `broadcast_shape`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

import functools

import torch

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations

ERROR = "ValueError"


def probe(answer: Watched, shapes: list[tuple[int, ...]]) -> Observations:
    """Observe the shape that an answer predicts, or that it predicts an error."""
    try:
        return {"prediction": answer(*shapes)}
    except ValueError:
        return {"prediction": ERROR}


def ground_truth(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Add tensors of these shapes."""
    try:
        return tuple(functools.reduce(torch.add, (torch.zeros(shape) for shape in shapes)).shape)
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def shaped(name: str, *shapes: tuple[int, ...]) -> Case:
    """Return the case of tensors of these shapes."""
    return case(name, shapes=list(shapes))


def cases(draw: Draw) -> list[Case]:
    a, b, c = draw.size(2, 3), draw.size(4, 5), draw.size(6, 7)
    return [
        shaped("the same shape twice", (a, b), (a, b)),
        shaped("a column and a row", (a, 1), (1, b)),
        shaped("a missing dimension", (a, b), (b,)),
        shaped("it would fit at the front", (a, b), (a,)),
        shaped("a number", (b, a), ()),
        shaped("three shapes", (c, 1, 1), (b, 1), (a,)),
        shaped("only the third does not fit", (1, b), (a, 1), (c,)),
        shaped("the second and the third differ", (a, 1), (a, b), (a, c)),
        shaped("sizes that differ", (a, b), (a, c)),
        shaped("one size is twice the other", (a, b), (a, 2 * b)),
        shaped("nothing beside one", (0, b), (1, b)),
        shaped("nothing beside something", (0,), (a,)),
        shaped("nothing, and a column", (a, 0), (a, 1)),
        shaped("one alone", (a, 1, c)),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    run = " + ".join(f"torch.zeros({shape})" for shape in inputs["shapes"])
    try:
        return {"run": run, "said": f"gets the shape {ground_truth(*inputs['shapes'])}"}
    except ValueError as error:
        return {"run": run, "said": f"raises: {error}"}


EXERCISE = Exercise(
    "broadcast_shape",
    probe,
    cases,
    hints=(
        "Write the shapes below each other, flush right. Which sizes stand in one column, and which size stands where "
        "a shape has no dimension left?",
        "In one column, sizes of 1 say nothing. How many different sizes may be left after you leave them out, and "
        "what is the result if none is left?",
        "A size of 0 is a size like 5: it is not 1. Try `max` on a column of 0 and 1, and see whether you get what "
        "PyTorch gets.",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "When can two tensors of different shapes be added, and what comes out?",
        "Align the shapes at their last dimension and fill up the shorter one with ones at the front. In each "
        "dimension the sizes have to be equal, or one of them has to be 1, which is stretched to the other without a "
        "copy. A size of 0 is not an exception: it stretches nothing, and only a 1 is stretched to it.",
        "01_tensors",
    ),
)
