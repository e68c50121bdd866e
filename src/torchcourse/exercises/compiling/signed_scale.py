"""The exercise `signed_scale`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised, Tolerance, agree
from torchcourse.probes.compilers import COMPILER, captured_whole, eagerly, uncompiled
from torchcourse.probes.observe import kept, look


def probe(answer: Watched, x: Tensor, captured: bool) -> Observations:
    """Call the function, and try to capture it in one graph."""
    function, raw = uncompiled(answer.answer), x.clone()
    with eagerly(x.device):
        seen = {**look(function(x), x), **kept(x=(x, raw))}
    captured = captured and x.device.type == "cpu"
    return {**seen, **captured_whole(function, (raw,), (-raw,))} if captured else seen


def cases(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)
    up, down = draw.normal(n), draw.normal(3, n)
    endless = draw.normal(n, dtype=torch.float64)
    endless[1] = torch.inf
    up[0] += 1 - up.sum()
    down[0, 0] -= 1 + down.sum()
    return [
        case("a positive sum", x=up, captured=True),
        case("a negative sum", x=down, captured=False),
        case("a sum of zero", x=torch.tensor([2.0, -2.0, 0.5, -0.5]), captured=False),
        case("two rows, one sum", x=torch.tensor([[3.0, -1.0], [-0.5, -0.75]]), captured=True),
        case("float64", x=draw.normal(n, dtype=torch.float64), captured=False),
        case("an infinite element", x=endless, captured=False),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    result = seen.get("result")
    right = isinstance(result, Tensor) and agree(result, wanted["result"], Tolerance())  # then the graph's is not
    fields: dict[str, object] = {} if right else {"total": inputs["x"].sum().item()}
    captured = seen.get("in one graph")
    return {**fields, "why": captured} if isinstance(captured, Raised) else fields


EXERCISE = Exercise(
    "signed_scale",
    probe,
    cases,
    hints=(
        "An `if` on a tensor asks for its value, and at that moment the graph ends. Which function chooses between two "
        "tensors without asking?",
        "How many numbers decide here, one for each element or one for all of them? And which shape has the condition "
        "then?",
        "Both branches may be computed; they are cheap. What broadcasts against a condition without dimensions?",
    ),
    quotes=quotes,
    seconds=20.0,
    imports=COMPILER,
)
