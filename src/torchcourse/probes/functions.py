"""Functions that probes of lesson 02 differentiate, and observations of custom autograd functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Draw
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kept, look

Function = Callable[[Tensor], Tensor]


def neighbours(x: Tensor) -> Tensor:
    """Return the sum of products of neighbouring entries: each entry's derivative depends on others."""
    flat = x.flatten()
    return (flat[:-1] * flat[1:]).sum()


FUNCTIONS: dict[str, Callable[[Tensor, list[float]], Tensor]] = {
    "polynomial": lambda x, c: (c[0] * x * x * x + c[1] * x * x + c[2] * x).sum(),
    "wave": lambda x, c: (torch.sin(c[0] * x) * torch.exp(c[1] * x)).sum(),
    "neighbours": lambda x, c: c[0] * neighbours(x) + c[1] * torch.cos(x).sum(),
    "mean of squares": lambda x, c: c[0] * (x * x).mean(),
    "product of rows": lambda x, c: c[0] * x.prod(0).sum(),
    "linear": lambda x, c: (c[0] * x).sum() + c[1],
    "partly fixed": lambda x, c: (c[0] * x * x.detach() + c[1] * x).sum(),
    "dot product": lambda x, c: torch.stack([x, x * x, x * x * x]).dot(torch.tensor(c, dtype=x.dtype)),
    "first entry": lambda x, _c: x.flatten()[0],
    "opaque": lambda x, c: (c[0] * x * x * x + c[1] * x * x + c[2] * x).sum().detach(),
}
"""Scalar functions of one tensor and three coefficients; in the dot product the tensor has no axes."""
LATER = "gradient of x, after another call"


def function(form: str, c: list[float]) -> Function:
    """Return the function of this form with these coefficients."""
    return lambda x: FUNCTIONS[form](x, c)


def coefficients(draw: Draw, low: float = 0.5, high: float = 2.0) -> list[float]:
    """Draw three numbers, rounded so that they read well."""
    return [round(float(number), 2) for number in draw.uniform(low, high, 3)]


def expected_error(error: Exception, reasons: dict[str, str]) -> Raised:
    """Return an expected exception as an observation, with the reason that `reasons` has for words in its message.

    Raises:
        Exception: `error` itself, if its message has none of the words.
    """
    for words, reason in reasons.items():
        if words in str(error):
            return Raised(type(error).__name__, str(error).split("\n")[0][:160].rstrip("."), reason)
    raise error


def probe_function(answer: Watched, x: Tensor, g: Tensor) -> dict[str, Any]:
    """Probe an autograd.Function: its result on x, the gradient for g, and whether it changes either of them.

    The gradient is asked for a second time, where the function is used once more between forward and backward.
    """
    leaf, before = x.clone().requires_grad_(), g.clone()
    y = answer.run(answer.answer.apply, leaf)  # type: ignore[attr-defined]
    seen = look(y, x)
    seen["follows the graph"] = bool(getattr(y, "requires_grad", False))
    if seen["follows the graph"] and y.shape == g.shape:
        with answer.watched():
            (found,) = torch.autograd.grad(y, leaf, g, allow_unused=True)
        seen["gradient of x"] = found
        y = answer.run(answer.answer.apply, leaf)  # type: ignore[attr-defined]
        answer.run(answer.answer.apply, x + 2)  # type: ignore[attr-defined]
        with answer.watched():
            (seen[LATER],) = torch.autograd.grad(y, leaf, g, allow_unused=True)
    return seen | kept(x=(leaf.detach(), x), grad_output=(g, before))


def quotes_function(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    """Return fields for messages: the first wrong entries of the result (`_y`) and of the gradient (`_grad`)."""
    fields: dict[str, object] = {}
    for name, source in (("y", "result"), ("grad", "gradient of x")):
        got, want = seen.get(source), wanted[source]
        if isinstance(got, Tensor) and got.shape == want.shape:
            wrong = ~torch.isclose(got.to(want.dtype), want, rtol=1e-3, atol=1e-6, equal_nan=True)
            if wrong.any():
                at = tuple(wrong.nonzero()[0].tolist())
                fields |= {f"got_{name}": got[at], f"want_{name}": want[at]}
                fields |= {f"x_{name}": inputs["x"][at], f"g_{name}": inputs["g"][at]}
    if "gradient of x" in seen and seen["gradient of x"] is None:
        fields["no_grad"] = None
    return fields
