"""The exercise `reduction_gradient`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(),
    "square_sum": lambda x: (x * x).sum(),
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(),
    "norm": lambda x: x.norm(),
}


def probe(answer: Watched, kind: str, values: list[float]) -> Observations:
    """Observe the gradient that an answer predicts; whole numbers are as good as floats."""
    predicted = answer(kind, values)
    if isinstance(predicted, list | tuple) and all(type(number) in (int, float) for number in predicted):
        predicted = [float(number) for number in predicted]
    return {"prediction": predicted}


def ground_truth(kind: str, values: list[float]) -> list[float]:
    """Run backward through the reduction."""
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    REDUCTIONS[kind](x).backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return [float(number) for number in x.grad]


def drawn(draw: Draw, count: int) -> list[float]:
    """Return so many different numbers, none of them 0, of both signs."""
    return [float(sign * (3 * place + draw.size(1, 3)) / 2) for place, sign in enumerate((1, -1) * count)][:count]


def cases(draw: Draw) -> list[Case]:
    few, more = drawn(draw, 3), drawn(draw, draw.size(4, 5))
    top, low = float(draw.size(5, 7)), float(draw.size(1, 3))
    return [
        case("sum", kind="sum", values=few),
        case("sum of squares", kind="square_sum", values=more),
        case("mean", kind="mean", values=more),
        case("the largest of several", kind="max", values=more),
        case("two largest", kind="max", values=[low, top, -low, top]),
        case("three largest, and one of them first", kind="max", values=[top, low, top, top]),
        case("the largest of negative ones", kind="max", values=[-top, -low, -top]),
        case("norm", kind="norm", values=few),
        case("a norm below 1", kind="norm", values=[0.3, -0.4, 0.0]),
        case("a very small norm", kind="norm", values=[3e-9, -4e-9, 0.0]),
        case("norm of a vector of zeros", kind="norm", values=[0.0, 0.0]),
        case("sum of squares of zeros", kind="square_sum", values=[0.0, 0.0, low]),
        case("mean of one", kind="mean", values=[top]),
        case("all the same, the largest", kind="max", values=[low] * 4),
    ]


SHOWN = {"square_sum": "(x * x).sum()"}


def quotes(inputs: Observations, _seen: Observations, wanted: Observations) -> dict[str, object]:
    kind, values = inputs["kind"], inputs["values"]
    run = f"x = torch.tensor({values}, requires_grad=True); {SHOWN.get(kind, f'x.{kind}()')}.backward(); x.grad"
    return {"run": run, "said": f"gets [{', '.join(f'{number:.4g}' for number in wanted['prediction'])}]"}


EXERCISE = Exercise(
    "reduction_gradient",
    probe,
    cases,
    hints=(
        "A gradient says, for each entry alone: if it grew by a little, by how much would the result grow? Ask that "
        "for each of the five, on two numbers of your own.",
        "Whose growth changes the maximum? If two entries are the largest together, PyTorch wants the shares to add "
        "up to one, and prefers none of them.",
        "The norm is the root of the sum of squares, so each entry is divided by the norm. What would that be for a "
        "vector of zeros, and what can you give instead that breaks nothing?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "What is the gradient of a maximum, and what if two entries are the largest?",
        "The largest entry gets all of the gradient and the others get 0, because only its growth changes the result. "
        "On a tie `max()` over the whole tensor shares the gradient evenly among the largest, while `max(dim=...)` "
        "returns one index and sends everything there. Where no gradient exists, as for the norm at zero, PyTorch "
        "picks a harmless one, here 0.",
        "02_autograd",
    ),
)
