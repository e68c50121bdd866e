"""The exercise `compilations`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations


def probe(answer: Watched, sizes: list[int]) -> Observations:
    """Observe the number that an answer predicts."""
    return {"prediction": answer(sizes)}


def ground_truth(sizes: list[int]) -> int:
    """Compile a function with a backend that only counts, and call it with these sizes.

    Whatever the compiler remembers of earlier functions is forgotten first, also what it has saved on disk.
    """
    from torch import _dynamo  # takes seconds

    compiled = 0

    def counting(graph: Any, _inputs: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return graph.forward

    def double(x: Tensor) -> Tensor:
        return 2 * x

    _dynamo.reset()
    with _dynamo.config.patch(automatic_dynamic_local_pgo=False):
        call = torch.compile(double, backend=counting)
        for size in sizes:
            call(torch.ones(size))
    _dynamo.reset()
    return compiled


def cases(draw: Draw) -> list[Case]:
    a, b, c, d = draw.size(2, 4), draw.size(5, 7), draw.size(8, 10), draw.size(11, 15)
    return [
        case("one call", sizes=[b]),
        case("the same size again and again", sizes=[b, b, b]),
        case("two sizes", sizes=[b, a]),
        case("many sizes", sizes=[a, c, b, d]),
        case("back to the first size", sizes=[a, b, a, c]),
        case("a size of one in between", sizes=[a, 1, b]),
        case("back to the first size after a one", sizes=[b, 1, b]),
        case("many sizes, then one", sizes=[c, a, b, 1]),
        case("one first", sizes=[1, b, a]),
        case("zero and one first", sizes=[0, 1, c, a, 0]),
        case("all at once", sizes=[d, 0, a, 1, 1, b]),
        case("one only", sizes=[1, 1]),
        case("two, and larger ones", sizes=[b, 2, c]),
        case("two first", sizes=[2, b, 2, 1]),
        case("no call", sizes=[]),
    ]


def quotes(inputs: Observations, _seen: Observations, wanted: Observations) -> dict[str, object]:
    times = wanted["prediction"]
    run = f"f = torch.compile(double); for n in {inputs['sizes']}: f(torch.ones(n))"
    return {"run": run, "said": f"compiles {'once' if times == 1 else f'{times} times'}"}


EXERCISE = Exercise(
    "compilations",
    probe,
    cases,
    hints=(
        "The first compilation is for one size exactly. What does the compiler conclude when a second size comes "
        "along, and how often can that happen?",
        "Sizes 0 and 1 are never made variable, since 1 broadcasts and 0 skips everything. How many compilations are "
        "added for each of them, however often it comes?",
        "Look at the very first call. If it had size 0 or 1, is the next ordinary size the first one that the "
        "compiler sees, or a second one?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    seconds=20.0,
    interview=InterviewQuestion(
        "Your compiled model gets a new sequence length in every batch. How often is it compiled?",
        "Twice as a rule: once for the first length, and once more, with the length as a variable, when a second one "
        "comes. Sizes 0 and 1 are the exception, because each of them gets a compilation of its own. If you know that "
        "a dimension varies, mark it with `torch._dynamo.mark_dynamic` or compile with `dynamic=True`, and the first "
        "compilation is saved.",
        "08_compile",
    ),
)
