"""The exercise `CountingBackend`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A backend is any callable that gets a graph and gives back something to run; returning `graph.forward` "
    "runs it as it is. Placeholders, attributes and the output are nodes too, but compute nothing."
)
"""Why the reference is written as it is."""
REQUIRED = ("counts-placeholders", "never-counts")
"""The mistakes that a check must always be able to name."""


class Backend:
    """A right backend. Each mistake below is this one with one method written otherwise."""

    def __init__(self) -> None:
        self.graphs = self.ops = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        self.ops += self.counted(graph.graph.nodes)
        return graph.forward

    def counted(self, nodes: Any) -> int:
        return sum(n.op.startswith("call") for n in nodes)


class CountsAllNodes(Backend):
    def counted(self, nodes: Any) -> int:
        return len(nodes)


class CountsInputs(Backend):
    def counted(self, nodes: Any) -> int:
        return sum(n.op != "output" for n in nodes)


class CountsAttributes(Backend):
    def counted(self, nodes: Any) -> int:
        return sum(n.op not in ("placeholder", "output") for n in nodes)


class CountsFunctionsOnly(Backend):
    def counted(self, nodes: Any) -> int:
        return sum(n.op == "call_function" for n in nodes)


class CountsEachKindOnce(Backend):
    def counted(self, nodes: Any) -> int:
        return len({n.target for n in nodes if n.op.startswith("call")})


class NeverCounts(Backend):
    def __call__(self, graph: Any, inputs: Any) -> Any:
        return graph.forward


class CountsRuns(Backend):
    def __call__(self, graph: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            super(CountsRuns, self).__call__(graph, inputs)
            return graph(*args)

        return run


class CountsOpsInRuns(Backend):
    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1

        def run(*args: Any) -> Any:
            self.ops += self.counted(graph.graph.nodes)
            return graph(*args)

        return run


class CountsTheLastGraph(Backend):
    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.ops = 0
        return super().__call__(graph, inputs)


class ReturnsNothing(Backend):
    def __call__(self, graph: Any, inputs: Any) -> Any:
        super().__call__(graph, inputs)


class ReturnsTheResult(Backend):
    def __call__(self, graph: Any, inputs: Any) -> Any:
        return super().__call__(graph, inputs)(*inputs)


class KeepsLists:
    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.ops: list[Any] = []

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs.append(graph)
        self.ops.extend(n for n in graph.graph.nodes if n.op.startswith("call"))
        return graph.forward


class WithoutCall:
    """Its method has a name of its own."""

    def __init__(self) -> None:
        self.graphs = self.ops = 0

    def compile(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


class SharedCounters:
    """Counts in the class, for all backends at once, of which there have been some."""

    graphs = ops = 1

    def __call__(self, graph: Any, inputs: Any) -> Any:
        SharedCounters.graphs += 1
        SharedCounters.ops += 1
        return graph.forward


GRAPH = "From Python to a graph"
OPS = 'In the case "{case}" `graphs` is {graphs} and `ops` is {ops}, where {want_graphs} and {want_ops} are wanted: '
GIVES = (
    'In the case "{case}" the backend returned {gave}: it has to return something that can be called in place of the '
    "code, at the simplest `graph.forward`."
)
MISTAKES = [
    Mistake("counts-placeholders", CountsAllNodes, OPS + "nodes that bring inputs in or hand the result out compute "
            "nothing.", GRAPH),
    Mistake("counts-placeholders", CountsInputs, OPS + "a placeholder is an input of the graph, and computes nothing.",
            GRAPH),
    Mistake("counts-attributes", CountsAttributes, OPS + "a node of kind get_attr brings in what the graph holds, and "
            "computes nothing.", GRAPH),
    Mistake("never-counts", NeverCounts, OPS + "the graphs go through, but nothing is counted.", GRAPH),
    *(Mistake("counts-runs", counts, OPS + "the counters moved whenever a graph ran, but a backend counts what it is "
              "given to compile.", GRAPH) for counts in (CountsRuns, CountsOpsInRuns)),
    Mistake("not-callable", WithoutCall, "As a backend the object {serves}: `torch.compile` calls it as "
            "`backend(graph, inputs)`, and the method that lets an object be called is `__call__`.", GRAPH),
    Mistake("counts-in-the-class", SharedCounters, "A new backend begins with {anew}: all objects share the counters, "
            "because these belong to the class or lie outside it. Begin with `self.graphs = 0` in `__init__`.",
            GRAPH),
    Mistake("functions-only", CountsFunctionsOnly, OPS + "a method such as `x.relu()` is a node of kind call_method, "
            "and computes as well as a function does.", GRAPH),
    Mistake("last-graph-only", CountsTheLastGraph, OPS + "the operations of each graph replaced those of the one "
            "before, but they should add up.", GRAPH),
    Mistake("counts-each-kind-once", CountsEachKindOnce, OPS + "an operation that comes twice counts twice.", GRAPH),
    Mistake("lists-not-counts", KeepsLists, OPS + "both are numbers, ints that say how many there were.", GRAPH),
    Mistake("returns-nothing", ReturnsNothing, GIVES, GRAPH),
    Mistake("returns-the-result", ReturnsTheResult, GIVES, GRAPH),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 5)
    return [
        case("a loop", function="python loop", calls=[[draw.normal(n)]]),
        case("a branch on values, both ways", function="branch on values",
             calls=[[draw.uniform(0.1, 1, n)], [draw.uniform(-1, -0.1, n)]]),
        case("a choice", function="chosen", calls=[[draw.normal(n)]]),
    ]  # fmt: skip


# Right answers unlike the reference


class KeepsGraphs:
    def __init__(self) -> None:
        self.seen: list[torch.fx.GraphModule] = []

    @property
    def graphs(self) -> int:
        return len(self.seen)

    @property
    def ops(self) -> int:
        other = {"placeholder", "output", "get_attr"}
        return sum(len([n for n in g.graph.nodes if n.op not in other]) for g in self.seen)

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Any, **_: Any) -> Callable[..., Any]:
        self.seen.append(gm)
        return gm


class CountsAndRuns:
    graphs: int = 0
    ops: int = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        self.graphs += 1
        for node in gm.graph.nodes:
            if node.op.startswith("call_"):
                self.ops += 1
        gm.recompile()
        return lambda *args: torch.fx.Interpreter(gm).run(*args)


RIGHT_ANSWERS: list[Callable[..., Any]] = [KeepsGraphs, CountsAndRuns]
