"""The exercise `count_graphs`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograde.hidden.compiling.shared import COMPILE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Dynamo calls the backend once for each graph it makes, so counting calls counts graphs. The reset forgets "
    "what was compiled before: otherwise a cached graph would not come to this backend at all."
)
"""Why the reference is written as it is."""
REQUIRED = ("counts-breaks", "stale-cache")
"""The mistakes that a check must always be able to name."""


class Tally:
    """A backend that counts."""

    def __init__(self) -> None:
        self.graphs = self.operations = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        self.operations += sum(node.op.startswith("call") for node in graph.graph.nodes)
        return graph.forward


def tallied(fn: Any, *args: Any) -> Tally:
    torch.compiler.reset()
    tally = Tally()
    COMPILE(fn, backend=tally)(*args)
    return tally


def counts_breaks(fn: Any, *args: Any) -> Any:
    return tallied(fn, *args).graphs - 1


def counts_operations(fn: Any, *args: Any) -> Any:
    return tallied(fn, *args).operations


def returns_a_list(fn: Any, *args: Any) -> Any:
    return [tallied(fn, *args).graphs]


def never_resets(fn: Any, *args: Any) -> Any:
    tally = Tally()
    COMPILE(fn, backend=tally)(*args)
    return tally.graphs


SHARED = Tally()


def shares_one_backend(fn: Any, *args: Any) -> Any:
    SHARED.graphs = 0
    COMPILE(fn, backend=SHARED)(*args)
    return SHARED.graphs


def never_calls(fn: Any, *args: Any) -> Any:
    torch.compiler.reset()
    tally = Tally()
    COMPILE(fn, backend=tally)
    return tally.graphs


def counts_two_calls(fn: Any, *args: Any) -> Any:
    torch.compiler.reset()
    runs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        def run(*values: Any) -> Any:
            runs.append(graph)
            return graph.forward(*values)

        return run

    compiled = COMPILE(fn, backend=backend)
    compiled(*args)
    compiled(*args)
    return len(runs)


def never_clears_statistics(fn: Any, *args: Any) -> Any:
    torch.compiler.reset()
    COMPILE(fn, backend="eager")(*args)
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def demands_one_graph(fn: Any, *args: Any) -> Any:
    torch.compiler.reset()
    tally = Tally()
    COMPILE(fn, backend=tally, fullgraph=True)(*args)
    return tally.graphs


BREAKS = "Graph breaks"
FIRST = 'In the case "{case}" the first answer is {first} where {right} is wanted: '
LATER = 'In the case "{case}" the first answer is {first}, and a later one {later} where {right} is wanted: '
MISTAKES = [
    Mistake("counts-breaks", counts_breaks, FIRST + "that is the number of breaks, and a break has a graph on either "
            "side.", BREAKS),
    Mistake("stale-cache", shares_one_backend, LATER + "Dynamo keeps what it compiled for the same backend, so a later "
            "call compiles nothing.", BREAKS),
    Mistake("stale-cache", never_resets, LATER + "without a reset Dynamo keeps every version it compiled, and after a "
            "few versions it gives up and runs plain Python.", BREAKS),
    Mistake("counts-operations", counts_operations, FIRST + "that is the number of operations in the graphs.", BREAKS),
    Mistake("counts-twice", counts_two_calls, FIRST + "every graph was counted twice, as in two calls, or when it was "
            "made and again when it ran.", BREAKS),
    Mistake("counts-on", never_clears_statistics, LATER + "the count goes on from one call to the next, as in Dynamo's "
            "own `counters`, which `clear()` resets.", BREAKS),
    Mistake("never-called", never_calls, FIRST + "either the function that `torch.compile` returns was never called, "
            "and nothing is compiled before that; or the backend does not count.", BREAKS),
    Mistake("demands-one-graph", demands_one_graph, 'In the case "{case}" the call raised {error}: `fullgraph=True`, '
            "or an export, turns the very breaks that are to be counted into errors.", BREAKS),
    Mistake("returns-a-list", returns_a_list, 'In the case "{case}" the first answer is {first}, and should be the '
            "number of graphs, {right}.", BREAKS),
]  # fmt: skip


def drawn_steps(draw: Draw, breaks: int) -> list[str]:
    """Return operations with this many breaks between them, and a branch that breaks the graph, too."""
    operations = ["double", "sine", "shift"]
    between = ["branch", *["break"] * breaks]
    order = torch.randperm(len(between), generator=draw.generator).tolist()
    return [draw.pick(operations), *(step for i in order for step in (between[i], draw.pick(operations)))]


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    return [
        case("some breaks", function=drawn_steps(draw, draw.size(0, 1)), args=[draw.normal(n)], calls=1),
        case("many breaks", function=drawn_steps(draw, draw.size(2, 5)), args=[draw.normal(n)], calls=1),
        case("a branch on values, the other way", function="branch on values", args=[draw.uniform(-1, 0, n)], calls=1),
        case("a loop", function="python loop", args=[draw.normal(n)], calls=1),
        case("a break after the last operation", function="break at the end", args=[draw.normal(n)], calls=1),
        case("no operation at all", function="no operation", args=[draw.normal(n)], calls=1),
    ]


# Right answers unlike the reference


def count_by_explain(fn: Callable[..., Any], *args: Any) -> int:
    return int(torch._dynamo.explain(fn)(*args).graph_count)


def count_by_testing(fn: Callable[..., Any], *args: Any) -> int:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    torch.compile(fn, backend=counter, dynamic=False)(*args)
    return int(counter.frame_count)


def count_by_statistics(fn: Callable[..., Any], *args: Any) -> int:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.compile(fn, backend="eager")(*args)
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


RIGHT_ANSWERS: list[Callable[..., Any]] = [count_by_explain, count_by_testing, count_by_statistics]
