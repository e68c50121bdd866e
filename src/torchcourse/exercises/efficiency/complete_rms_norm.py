"""The exercise `complete_rms_norm`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.exercises.efficiency.rms_norm_cpp import LOADED, is_registered
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.compilers import INDUCTOR, captured_whole, fresh_dynamo
from torchcourse.probes.modules import gradients
from torchcourse.probes.registrations import registrations_undone
from torchcourse.probes.trainable_models import with_detail

NAME = "torchcourse::rms_norm"
MISCOUNTED = "another number of gradients than arguments"


def probe(answer: Watched, x: Tensor, eps: float) -> Observations:
    """Define the operator for the CPU, let the answer complete it, and observe what then works."""
    if is_registered():
        return {"raised": Raised("RuntimeError", LOADED)}
    with registrations_undone(NAME):
        given = torch.library.Library("torchcourse", "FRAGMENT")  # type: ignore[no-untyped-call]
        given.define("rms_norm(Tensor x, float eps) -> Tensor")  # type: ignore[no-untyped-call]
        given.impl("rms_norm", _on_the_cpu, "CPU")  # type: ignore[no-untyped-call]
        answer.answer()
        operator = torch.ops.torchcourse.rms_norm
        seen = _gradient(lambda t: operator(t, eps), x)
        if "gradcheck" not in seen and seen["gradient of x"].reason == MISCOUNTED:
            return seen
        with fresh_dynamo():
            report = torch.library.opcheck(operator.default, (x.clone().requires_grad_(), eps), raise_exception=False)
        seen["opcheck"] = {test: "passes" if said == "SUCCESS" else _fault(said) for test, said in report.items()}
        return {**seen, **captured_whole(lambda t: operator(t, eps) * 2, (x,))}


def _on_the_cpu(x: Tensor, eps: float) -> Tensor:
    with torch._C._AutoDispatchBelowAutograd():  # as for a kernel in C++, autograd sees nothing of what is inside
        wide = x.double()
        return (wide * wide.square().mean(-1, keepdim=True).add(eps).rsqrt()).to(x.dtype).contiguous()


def _gradient(call: Callable[[Tensor], Tensor], x: Tensor) -> Observations:
    """Observe the gradient of x, and whether it is the derivative."""
    leaf = x.clone().requires_grad_()
    try:
        seen = gradients(call(leaf), x=leaf)
        agrees = torch.autograd.gradcheck(call, (x.double().requires_grad_(),), raise_exception=False)
    except (RuntimeError, NotImplementedError) as error:
        if "incorrect number of gradients" in str(error):
            return {"gradient of x": Raised("RuntimeError", str(error).split(". Expected")[0], MISCOUNTED)}
        if not any(words in str(error) for words in ("not implemented", "no autograd formula", "autograd kernel")):
            raise
        return {"gradient of x": Raised(type(error).__name__, _in_short(error), "no formula for backward")}
    return {**seen, "gradcheck": "passes" if agrees else "fails"}


def _fault(said: Any) -> Raised:
    """Return what opcheck complains of: no fake, one that is its input or has another dtype, or something else."""
    known = {"no fake impl": "has no fake", "fake_impl": "has no fake", "register_fake": "has no fake",
             "outputs_alias_inputs": "gives back its input", "Dtypes": "gives another dtype",
             "Shapes": "gives another shape"}  # fmt: skip
    return with_detail(next((fault for words, fault in known.items() if words in str(said)), "fails"), _in_short(said))


def _in_short(said: object) -> str:
    return " ".join(str(said).split())[:200].rstrip(".")


def _the_point(message: str) -> str:
    return message.split("metadata: ")[-1].rstrip("!")


def row_case(draw: Draw, name: str, *shape: int, eps: float = 1e-3, dtype: torch.dtype = torch.float64) -> Case:
    """Return the case of drawn rows."""
    tight = {"rtol": 1e-7, "atol": 1e-9} if dtype == torch.float64 else {}
    return case(name, **tight, x=draw.normal(*shape, dtype=dtype), eps=eps)


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 3), draw.size(4, 6)
    return [
        row_case(draw, "a matrix", n, d),
        row_case(draw, "float32 and a large eps", n, d, eps=0.4, dtype=torch.float32),
        row_case(draw, "three dimensions", 2, n, d),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    report = seen.get("opcheck", {})
    failed = {test: _the_point(said.message) for test, said in report.items() if isinstance(said, Raised)}
    fields: dict[str, object] = dict(zip(("test", "said"), next(iter(failed.items()), ()), strict=False))
    if isinstance(seen.get("in one graph"), Raised):
        fields["compiler"] = seen["in one graph"].message
    for field, name in (("gradient", "gradient of x"), ("gradcheck", "gradcheck")):
        fields |= {field: "x gets none" if seen[name] == "none" else seen[name]} if name in seen else {}
    return fields


EXERCISE = Exercise(
    "complete_rms_norm",
    probe,
    cases,
    hints=(
        "Two registrations, as for `swiglu` in lesson 8: `torch.library.register_fake(name)` and "
        "`torch.library.register_autograd(name, backward, setup_context=…)`. What does the fake return when there are "
        "no numbers?",
        "Call r = 1 / sqrt(mean(x²) + eps). The result is x·r, and r depends on x too. Which two terms does the "
        "product rule give, and over which dimension does the second one sum?",
        "backward gets the gradient g of the result. The first term is r·g. For the second: every entry of a row moves "
        "r, so the mean of g·x over the row comes in, times x·r³, with a minus. And what is returned for eps?",
    ),
    any_device=False,
    quotes=quotes,
    seconds=30.0,
    imports=INDUCTOR,
)
