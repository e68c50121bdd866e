"""The exercise `compile_dynamic`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from autograde.hidden.compiling.shared import COMPILE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "With `dynamic=True` sizes become symbols from the start, so one graph serves all batch sizes of 2 or "
    "more. Sizes 0 and 1 are special, because they broadcast or are empty; each would cost a compilation of "
    "its own. With `dynamic=False` every new size compiles, up to a limit."
)
"""Why the reference is written as it is."""
REQUIRED = ("recompiles-per-shape", "falls-back-to-eager")
"""The mistakes that a check must always be able to name."""


def never_dynamic(fn: Any, backend: Any) -> Any:
    return COMPILE(fn, backend=backend, dynamic=False)


def compiles_anew_each_time(fn: Any, backend: Any) -> Any:
    def anew(*args: Any) -> Any:
        torch.compiler.reset()
        return COMPILE(fn, backend=backend, dynamic=True)(*args)

    return anew


def never_compiles(fn: Any, backend: Any) -> Any:
    return fn


def compiles_the_first_sizes_only(fn: Any, backend: Any, count: int) -> Any:
    sizes: set[int] = set()
    compiled = COMPILE(fn, backend=backend, dynamic=False)

    def first_sizes_only(*args: Any) -> Any:
        sizes.add(args[0].shape[0])
        return compiled(*args) if len(sizes) <= count else fn(*args)

    return first_sizes_only


def another_backend(fn: Any, backend: Any) -> Any:
    return COMPILE(fn, backend="eager", dynamic=True)


GUARDS = "Guards, recompiles and dynamic shapes"
PER_SHAPE = (
    'In the case "{case}", {distinct} batch sizes made {count} compilations, where one or two are wanted: every '
    "size was built into its graph as a constant. After eight versions Dynamo gives up on a function."
)
PLAIN = (
    'In the case "{case}", {plain} of {calls} calls ran as plain Python and {ran} ran compiled, and all of them should '
    "run compiled."
)
MISTAKES = [
    Mistake("recompiles-per-shape", never_dynamic, PER_SHAPE, GUARDS),
    Mistake("recompiles-per-shape", compiles_anew_each_time, "In the case \"{case}\", {calls} calls made {count} "
            "compilations, where one or two are wanted: what was compiled is thrown away with each call.", GUARDS),
    Mistake("falls-back-to-eager", never_compiles, PLAIN + " Nothing was ever compiled.", GUARDS),
    Mistake("falls-back-to-eager", partial(compiles_the_first_sizes_only, count=1), PLAIN + " Only the first size ran "
            "compiled.", GUARDS),
    Mistake("falls-back-to-eager", partial(compiles_the_first_sizes_only, count=2), PLAIN + " After two sizes, new "
            "ones ran as plain Python.", GUARDS),
    Mistake("ignores-the-backend", another_backend, "In the case \"{case}\", {ran} of {calls} calls ran what the given "
            "backend compiled, and {plain} ran as plain Python: the function was compiled with another backend.",
            GUARDS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    sizes = [draw.size(2, 40) for _ in range(15)]
    return [
        case("many drawn sizes", function="scaled by size", sizes=sizes, width=draw.size(50, 60), tensors=1),
        case("large to small", function="chosen", sizes=[64, 32, 16, 8, 4, 2], width=3, tensors=1),
    ]


# Right answers unlike the reference


def dynamic_by_itself(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend=backend)


def dynamic_by_marking(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    compiled = torch.compile(backend=backend)(fn)

    def run(*args: Any) -> Any:
        for arg in args:
            torch._dynamo.mark_dynamic(arg, 0)
        return compiled(*args)

    return run


def dynamic_whole(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend=backend, dynamic=True, fullgraph=True)


RIGHT_ANSWERS: list[Callable[..., Any]] = [dynamic_by_itself, dynamic_by_marking, dynamic_whole]
