"""The exercise `count_graphs`: its probe, visible cases and hints."""

from __future__ import annotations

from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.compilers import COMPILER, as_count, fresh_dynamo, function_of


def probe(answer: Watched, function: str | list[str], args: list[Tensor], calls: int) -> Observations:
    """Count the graphs of a function, known by its name or its steps, several times in a row."""
    fn = function_of(function)
    with fresh_dynamo(recompile_limit=3):  # not 8, so that an answer that never resets shows after four calls
        counts = [as_count(answer.answer(fn, *args)) for _ in range(calls)]
    return {"first answer": counts[0], "later answers": counts[1:]}


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    return [
        case("operations only", function="two tensors", args=[draw.normal(n), draw.normal(n)], calls=1),
        case("a branch on values", function="branch on values", args=[draw.uniform(0.5, 1, n)], calls=2),
        case("two breaks", function="two breaks", args=[draw.normal(2, n)], calls=1),
        case("a break before the first operation", function="break at the start", args=[draw.normal(n)], calls=1),
        case("asked five times", function="pointwise", args=[draw.normal(n)], calls=5),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"first": seen["first answer"], "right": wanted["first answer"]}
    later = [n for n in seen["later answers"] if n != wanted["first answer"]]
    return {**fields, "later": later[0]} if later else fields


EXERCISE = Exercise(
    "count_graphs",
    probe,
    cases,
    hints=(
        "A backend is a function that Dynamo calls once for each graph. What is the least it has to return, and what "
        "can it do besides?",
        "`torch.compile(fn, backend=...)` alone compiles nothing. When is the backend called?",
        "Dynamo remembers what it compiled, for each piece of code. What makes it forget, so that the tenth call sees "
        "what the first one saw?",
    ),
    any_device=False,
    quotes=quotes,
    seconds=20.0,
    imports=COMPILER,
)
