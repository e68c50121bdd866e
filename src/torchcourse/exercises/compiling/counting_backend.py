"""The exercise `CountingBackend`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.compilers import COMPILER, FUNCTIONS, as_count, fresh_dynamo
from torchcourse.probes.observe import kind


class Shifted(nn.Module):
    """The double of x and a shift, which is an attribute of the graph that fx makes of it."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 + self.shift


HANDED = "handed a graph with an attribute"


def probe(answer: Watched, function: str, calls: list[list[Tensor]]) -> Observations:
    """Compile a function with the backend, or hand it a graph; call it, and look at a new backend's counters."""
    backend = answer.answer()
    if not callable(backend):
        return {"as a backend": "cannot be called"}
    unusable: list[str] = []

    def noting(graph: fx.GraphModule, inputs: list[Tensor]) -> Any:
        gave = backend(graph, inputs)
        if not callable(gave):
            unusable.append(kind(gave))
        return gave

    noting.__name__ = "CountingBackend"  # Dynamo's messages show it
    with fresh_dynamo():
        try:
            if function == HANDED:
                compiled = noting(fx.symbolic_trace(Shifted()), calls[0])
            else:
                compiled = torch.compile(FUNCTIONS[function], backend=noting)
            results = [compiled(*args) for args in calls]
        except Exception:
            if unusable:
                return {"the backend returns": unusable[0]}
            raise
    fresh = answer.answer()
    counts, begins = (
        (as_count(getattr(b, "graphs", None)), as_count(getattr(b, "ops", None))) for b in (backend, fresh)
    )
    shared = begins == counts != (0, 0) and all(isinstance(n, int) for n in begins)
    if shared:  # what it counts depends on all that came before
        return {"results": results, "a new one begins with": "what the one before has counted"}
    return {"graphs": counts[0], "ops": counts[1], "results": results, "a new one begins with": begins}


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)

    def calls(*shapes: tuple[int, ...]) -> list[list[Tensor]]:
        return [[draw.normal(*shape)] for shape in shapes]

    return [
        case("one call", function="pointwise", calls=calls((n,))),
        case("no call yet", function="pointwise", calls=[]),
        case("methods and functions", function="methods and functions", calls=calls((2, n))),
        case("two tensors", function="two tensors", calls=[[draw.normal(n), draw.normal(n)]]),
        case("three calls of one compiled function", function="pointwise", calls=calls((n,), (n,), (n,))),
        case("two breaks", function="two breaks", calls=calls((n,))),
        case("a graph with an attribute", function=HANDED, calls=calls((n,))),
        case("two dtypes", function="twice the same", calls=[[draw.normal(n)], [draw.normal(n, dtype=torch.float64)]]),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return {
        "graphs": seen.get("graphs"), "ops": seen.get("ops"), "want_graphs": wanted["graphs"],
        "want_ops": wanted["ops"], "anew": seen.get("a new one begins with"), "serves": seen.get("as a backend"),
        "gave": str(seen.get("the backend returns")).partition(":")[0],
    }  # fmt: skip


EXERCISE = Exercise(
    "CountingBackend",
    probe,
    cases,
    hints=(
        "`torch.compile` calls the backend as `backend(graph, inputs)` and calls what it returns in place of the code. "
        "Which method lets an object be called, and what runs a graph?",
        "Print `node.op` and `node.target` for every node of a small graph. Which kinds of node only bring things "
        "in or "
        "hand them out?",
        "A backend is called once for each graph. What has to become of the number of operations when the second graph "
        "comes?",
    ),
    any_device=False,
    quotes=quotes,
    seconds=20.0,
    imports=COMPILER,
)
