"""The exercise `swiglu`: its probe, visible cases and hints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.compilers import INDUCTOR, fresh_dynamo
from torchcourse.probes.modules import ramp
from torchcourse.probes.observe import kept, look
from torchcourse.probes.trainable_models import with_detail


def probe(answer: Watched, x: Tensor, gate: Tensor) -> Observations:
    """Call the operator, take both gradients, and let `opcheck` test how it is registered."""
    raw = x.clone(), gate.clone()
    leaves = x.requires_grad_(), gate.requires_grad_()
    result = answer.answer(*leaves)
    seen = {**look(result, x), **kept(x=(x.detach(), raw[0]), gate=(gate.detach(), raw[1]))}
    if isinstance(result, Tensor):
        seen |= _both_gradients(result, *leaves)
    return {**seen, **_as_an_operator(answer.answer, *raw)} if x.device.type == "cpu" else seen


def _both_gradients(result: Tensor, x: Tensor, gate: Tensor) -> Observations:
    if not result.requires_grad:
        return {"gradients": "none: the result has no history"}
    try:
        sent = (result * ramp(*result.shape, low=-1, high=2, like=result)).sum()
        found = torch.autograd.grad(sent, (x, gate), allow_unused=True)
    except RuntimeError as error:
        if "no autograd formula" not in str(error):
            raise
        return {"gradients": Raised("RuntimeError", _plain_name(error), "no formula for backward")}
    names = ("gradient of x", "gradient of gate")
    return {name: "none" if g is None else g for name, g in zip(names, found, strict=True)}


def _as_an_operator(function: Callable[..., Any], x: Tensor, gate: Tensor) -> Observations:
    """Observe the name under which the answer runs as an operator, and what `torch.library.opcheck` says about it."""
    from torchcourse.checking.call_watch import CallWatch

    with CallWatch() as watch:
        function(x, gate)
    own = [name for name in watch.operators if not name.startswith(("aten::", "prim::", "prims::"))]
    if len(own) != 1:
        return {"runs as": sorted(set(own or watch.operators))}
    space, _, name = own[0].partition("::")
    operator = getattr(getattr(getattr(torch.ops, space), name.split(".")[0]), [*name.split("."), "default"][1])
    with fresh_dynamo():
        inputs = tuple(t.clone().requires_grad_() for t in (x, gate))
        report = torch.library.opcheck(operator, inputs, raise_exception=False)
    return {
        "runs as": re.sub(r"^torchcourse\w*::", "torchcourse::", own[0]),
        "opcheck": {test: "passes" if said == "SUCCESS" else _fault(said) for test, said in report.items()},
        "fake result": _where_faked(function, x, gate),
    }


def _where_faked(function: Callable[..., Any], x: Tensor, gate: Tensor) -> str:
    """Return whether the result without numbers is on the device of the inputs: a fake that names none is on the CPU,
    which `opcheck` does not notice there."""
    try:
        result = function(x.to("meta"), gate.to("meta"))
    except Exception:  # opcheck says what is wrong with it
        return "none"
    return "on the device of the inputs" if result.device.type == "meta" else f"on the {result.device.type.upper()}"


def _plain_name(said: object) -> str:
    """Return a message in one line, with the same name for the operator whatever its namespace."""
    line = re.sub(r"torchcourse\w*(::|\.)", r"torchcourse\1", " ".join(str(said).split()))
    return line[:200].rstrip(".")


def _fault(said: object) -> Raised:
    kinds = {
        "no fake impl": "has no fake",
        "metadata: Shapes": "has another shape",
        "metadata: Dtypes": "has another dtype",
    }
    return with_detail(next((kinds[words] for words in kinds if words in str(said)), "fails"), _plain_name(said))


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    large = torch.cat([draw.uniform(90, 200, 2), draw.uniform(-200, -90, n - 2)])  # `exp` overflows at 89
    return [
        case("a vector", x=draw.normal(n), gate=2 * draw.normal(n)),
        case("a table", x=draw.normal(3, n), gate=2 * draw.normal(3, n)),
        case("float64", rtol=1e-8, atol=1e-10, x=draw.normal(2, n, dtype=torch.float64),
             gate=draw.normal(2, n, dtype=torch.float64)),
        case("large gates", x=draw.normal(n), gate=large),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"name": seen["runs as"]} if "runs as" in seen else {}
    failed = {test: said for test, said in seen.get("opcheck", {}).items() if isinstance(said, Raised)}
    for test, said in failed.items():
        words = said.message.split("metadata: ")[-1].partition(". ")[0]
        fields |= {"test": test, "said": words if words.endswith(("!", ".")) else f"{words}."}
        break
    if isinstance(seen.get("gradients"), Raised):
        fields["gradients"] = seen["gradients"]
    return fields


EXERCISE = Exercise(
    "swiglu",
    probe,
    cases,
    hints=(
        "The function below `custom_op` computes. What does the compiler need in its place when it has shapes and "
        "dtypes, but no numbers yet? It is a registration of its own.",
        "What is the derivative of g·sigmoid(g)? Two factors, so two terms; and x needs a gradient as well.",
        "`register_autograd` takes a backward and, as `setup_context`, a function that saves what backward needs. "
        "Which tensors does it need, and in which order does it return gradients?",
    ),
    quotes=quotes,
    seconds=20.0,
    imports=INDUCTOR,
)
