"""The exercise `view_possible`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

import math

import torch

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations


def probe(answer: Watched, shape: tuple[int, ...], stride: tuple[int, ...], new_shape: tuple[int, ...]) -> Observations:
    """Observe whether an answer predicts that the view works."""
    return {"prediction": answer(shape, stride, new_shape)}


def ground_truth(shape: tuple[int, ...], stride: tuple[int, ...], new_shape: tuple[int, ...]) -> bool:
    """View a tensor of this shape and stride."""
    try:
        torch.empty_strided(shape, stride).view(new_shape)
    except RuntimeError:
        return False
    return True


def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor of this shape."""
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


def laid_out(name: str, shape: tuple[int, ...], stride: tuple[int, ...], new_shape: tuple[int, ...]) -> Case:
    """Return the case of one layout and one new shape."""
    return case(name, shape=shape, stride=stride, new_shape=new_shape)


def cases(draw: Draw) -> list[Case]:
    a, b, c, step = draw.size(2, 3), draw.pick([4, 6]), draw.pick([5, 7]), draw.size(2, 4)
    return [
        laid_out("a contiguous matrix, flattened", (a, b), (b, 1), (a * b,)),
        laid_out("a number too many", (a, b), (b, 1), (a * b + 1,)),
        laid_out("a transposed matrix, flattened", (b, a), (1, b), (a * b,)),
        laid_out("a transposed matrix, its rows cut in two", (b, a), (1, b), (2, b // 2, a)),
        laid_out("two dimensions swapped, the last two merged", (b, a, c), (c, b * c, 1), (b, a * c)),
        laid_out("every second row, flattened", (a, b), (2 * b, 1), (a * b,)),
        laid_out("every second row, its columns cut in two", (a, b), (2 * b, 1), (a, 2, b // 2)),
        laid_out("every second matrix, its rows joined", (a, b, c), (2 * b * c, c, 1), (a, b * c)),
        laid_out("every so many of a row, cut in two", (b,), (step,), (2, b // 2)),
        laid_out("a row of a single one with any stride", (1, a, b), (17, b, 1), (a * b,)),
        laid_out("a one in the middle with any stride", (a, 1, b), (b, 99, 1), (a * b,)),
        laid_out("a number repeated, flattened", (a, b), (0, 0), (a * b,)),
        laid_out("a row repeated, flattened", (a, b), (0, 1), (a * b,)),
        laid_out("ones put in", (b, a), (1, b), (1, b, 1, a)),
        laid_out("the same number, cut elsewhere", (b, a), (a + 1, 1), (a, b)),
        laid_out("nothing at all", (a, 0), (1, a), (0, c)),
        laid_out("nothing at all, with any strides", (0, a), (1, a + 3), (0,)),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    shape, stride, new_shape = inputs["shape"], inputs["stride"], inputs["new_shape"]
    run = f"torch.empty_strided({shape}, {stride}).view({new_shape})"
    try:
        torch.empty_strided(shape, stride).view(new_shape)
    except RuntimeError as error:
        return {"run": run, "said": "raises: " + str(error).split(". Use .reshape")[0]}
    return {"run": run, "said": "gets a view"}


EXERCISE = Exercise(
    "view_possible",
    probe,
    cases,
    hints=(
        "A view copies nothing. Which dimensions of the old tensor lie in memory as if they were one longer "
        "dimension, with the same step from each element to the next?",
        "Two neighbours merge if the outer stride is the inner size times the inner stride. Do that from left to "
        "right: which lengths do the merged pieces have, and what should a dimension of size 1 do?",
        "Each piece has to be cut up by the new shape without a rest. Multiply up the new sizes from the left: at "
        "which products do the pieces end, and does the new shape stop at each of them?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "When does `view` work, and when do you need `reshape`?",
        "`view` works where strides can describe the new shape over the same memory. A dimension can always be split, "
        "and neighbours can be merged if the outer stride is the inner size times the inner stride; contiguous memory "
        "is enough for that but is not needed. `reshape` takes the view where there is one and copies where there is "
        "none, so use `view` where a silent copy would be an error.",
        "01_tensors",
    ),
)
