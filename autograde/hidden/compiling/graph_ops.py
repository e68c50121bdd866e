"""The exercise `graph_ops`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from autograde.hidden.compiling.shared import COMPILE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`make_fx` runs the function and records the operators below autograd and below Python, so it shows what a "
    "line of Python comes down to. Nodes whose target is no ATen operator, such as `getitem`, are left out."
)
"""Why the reference is written as it is."""
REQUIRED = ("python-names", "counts-placeholders")
"""The mistakes that a check must always be able to name."""


def nodes(fn: Any, *args: Any) -> list[Any]:
    return list(make_fx(fn)(*args).graph.nodes)


def operators(fn: Any, *args: Any) -> list[Any]:
    """The overloads of ATen that run, in their order."""
    return [n.target for n in nodes(fn, *args) if isinstance(n.target, torch._ops.OpOverload)]


def names_of_nodes(fn: Any, *args: Any) -> list[str]:
    return [n.name for n in nodes(fn, *args) if isinstance(n.target, torch._ops.OpOverload)]


def names_of_functions(fn: Any, *args: Any) -> list[str]:
    return [op.__name__.split(".")[0] for op in operators(fn, *args)]


def targets_of_dynamo(fn: Any, *args: Any) -> list[Any]:
    found: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        found.extend(n.target for n in graph.graph.nodes if n.op.startswith("call"))
        return graph.forward

    torch.compiler.reset()
    COMPILE(fn, backend=backend)(*args)
    return found


def names_of_dynamo(fn: Any, *args: Any) -> list[str]:
    return [str(getattr(target, "__name__", target)) for target in targets_of_dynamo(fn, *args)]


def texts_of_dynamo(fn: Any, *args: Any) -> list[str]:
    return [str(target) for target in targets_of_dynamo(fn, *args)]


def targets_of_symbolic_trace(fn: Any, *args: Any) -> list[str]:
    nodes = torch.fx.symbolic_trace(fn).graph.nodes
    return [n.target if isinstance(n.target, str) else n.target.__name__ for n in nodes if n.op.startswith("call")]


def without_namespace(fn: Any, *args: Any) -> list[str]:
    return [op.__name__ for op in operators(fn, *args)]


def without_overload(fn: Any, *args: Any) -> list[str]:
    return [str(op.overloadpacket) for op in operators(fn, *args)]


def names_in_schemas(fn: Any, *args: Any) -> list[str]:
    return [op.name() for op in operators(fn, *args)]


def every_node(fn: Any, *args: Any) -> list[str]:
    return [str(n.target) for n in nodes(fn, *args)]


def every_node_but_the_output(fn: Any, *args: Any) -> list[str]:
    return [str(n.target) for n in nodes(fn, *args) if n.op != "output"]


def every_call(fn: Any, *args: Any) -> list[str]:
    return [str(n.target) for n in nodes(fn, *args) if n.op == "call_function"]


def all_but_the_first_and_last_node(fn: Any, *args: Any) -> list[str]:
    return [str(n.target) for n in nodes(fn, *args)[1:-1] if n.target is not operator.getitem]


def all_but_inputs_output_and_getitem(fn: Any, *args: Any) -> list[str]:
    other = ("placeholder", "output")
    return [str(n.target) for n in nodes(fn, *args) if n.op not in other and n.target is not operator.getitem]


def each_once(fn: Any, *args: Any) -> list[str]:
    return sorted({str(op) for op in operators(fn, *args)})


UNDER = "Operators under the hood"
LISTED = 'In the case "{case}" the list reads {listed}, where {meant} is wanted: '
PYTHON = (
    LISTED + "these are names that Python or the graph uses, not the full names of the operators with their overloads."
)
MISTAKES = [
    Mistake("python-names", names_of_nodes, PYTHON, UNDER),
    Mistake("python-names", names_of_functions, PYTHON, UNDER),
    *(Mistake("python-names", names, PYTHON + " In Dynamo's own graph they are not known yet.", UNDER)
      for names in (names_of_dynamo, texts_of_dynamo)),
    Mistake("python-names", targets_of_symbolic_trace, PYTHON + " `symbolic_trace` records what Python calls.",
            UNDER),
    Mistake("no-namespace", without_namespace, LISTED + "the operator's namespace is missing.", UNDER),
    Mistake("no-overload", without_overload, LISTED + "an operator has several overloads, and the name should say "
            "which of them ran.", UNDER),
    Mistake("schema-names", names_in_schemas, LISTED + "these are the names in the schemas; the graph writes them with "
            "dots, overload included.", UNDER),
    Mistake("counts-placeholders", every_node, LISTED + "a node such as {extra} brings something in or hands it out, "
            "and computes nothing.", UNDER),
    Mistake("counts-placeholders", every_node_but_the_output, LISTED + "{extra} is an input, and computes nothing.",
            UNDER),
    Mistake("counts-placeholders", all_but_the_first_and_last_node, LISTED + "{extra} is an input, and computes "
            "nothing. A graph has one such node for each input, not one in all.", UNDER),
    Mistake("returns-operators", operators, 'In the case "{case}" the result is {got} where {want} is wanted: these '
            "are the operators themselves; `str` gives their names.", UNDER),
    Mistake("counts-getitem", every_call, LISTED + "{extra} takes one of several results, and is not an "
            "operator of ATen.", UNDER),
    Mistake("counts-attributes", all_but_inputs_output_and_getitem, LISTED + "{extra} is a tensor that is stored with "
            "the graph; a node of kind get_attr fetches it, and computes nothing.", UNDER),
    Mistake("each-once", each_once, LISTED + "an operator that runs twice is listed twice, and the order is the one in "
            "which they run.", UNDER),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 5)
    steps = [draw.pick(["double", "sine", "shift"]) for _ in range(draw.size(3, 6))]
    return [
        case("a choice", function="chosen", args=[draw.normal(n)]),
        case("row sums", function="row sums", args=[draw.normal(3, n)]),
        case("no operation", function="no operation", args=[draw.normal(n)]),
        case("a branch on the shape", function="branch on shape", args=[draw.normal(draw.size(1, 4), n)]),
        case("methods", function="methods and functions", args=[draw.normal(2, n)]),
        case("drawn operations", function=steps, args=[draw.normal(n)]),
    ]


# Right answers unlike the reference


class Listening(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def ops_by_listening(fn: Callable[..., Any], *args: Tensor) -> Any:
    with Listening() as mode:
        fn(*args)
    return mode.names


def ops_by_export(fn: Callable[..., Any], *args: Tensor) -> list[str]:
    class Module(nn.Module):
        def forward(self, *args: Tensor) -> Any:
            return fn(*args)

    program = torch.export.export(Module(), args).run_decompositions({})
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function" and "getitem" not in n.name]


def ops_by_aot(fn: Callable[..., Any], *args: Tensor) -> list[str]:
    from torch._dynamo.backends.common import aot_autograd

    names: list[str] = []

    def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        names.extend(str(n.target) for n in gm.graph.nodes if str(n.target).startswith("aten."))
        return gm.forward

    torch.compiler.reset()
    torch.compile(fn, backend=aot_autograd(fw_compiler=compiler))(*args)
    return names


RIGHT_ANSWERS: list[Callable[..., Any]] = [ops_by_listening, ops_by_export, ops_by_aot]
