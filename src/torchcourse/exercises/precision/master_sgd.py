"""The exercise `MasterSGD`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations


def _copies(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], first: list[int]) -> str:
    """Describe whether the optimizer's state holds a float32 copy of each parameter that was trained.

    Args:
        first: where the parameters lay before the first step.
    """
    state = optimizer.state_dict()["state"]
    found = [_held(state.get(i, {}), p) for i, p in enumerate(parameters) if p.grad is not None]
    places = {p.data_ptr() for p in parameters}
    held = [t for each in state.values() if isinstance(each, dict) for t in each.values() if isinstance(t, Tensor)]
    if any(t.numel() and t.data_ptr() in places for t in held):
        bound = not any(t.data_ptr() in first for t in held)
        return "what the parameters were bound to" if bound else "the parameters themselves"
    if all(torch.float32 in dtypes for dtypes in found):
        return "one for each parameter that was trained"
    others = [str(dtype).removeprefix("torch.") for dtypes in found for dtype in dtypes if dtype != torch.float32]
    if others:
        return f"copies in {others[0]}"
    return "none" if not any(found) else "not for every parameter"


def _held(state: object, parameter: nn.Parameter) -> set[torch.dtype]:
    """Return the dtypes in which an optimizer's state holds a parameter's values."""
    tensors = [t for t in state.values() if isinstance(t, Tensor)] if isinstance(state, dict) else []
    alike = [t for t in tensors if t.is_floating_point() and t.shape == parameter.shape]
    return {t.dtype for t in alike if torch.allclose(t.float(), parameter.detach().float(), rtol=1e-2, atol=1e-3)}


def _copy(state: object, parameter: nn.Parameter) -> Tensor | str:
    """Return the float32 copy of a parameter that an optimizer's state holds."""
    tensors = [t for t in state.values() if isinstance(t, Tensor)] if isinstance(state, dict) else []
    copies = [t.detach() for t in tensors if t.dtype == torch.float32 and t.shape == parameter.shape]
    return copies[0] if copies else "none"


def probe(
    answer: Watched,
    values: list[Tensor],
    gradients: list[Tensor | None],
    lrs: list[float],
    steps: int,
    slower_at: int,
    closely: bool = False,
) -> dict[str, Any]:
    """Make steps along fixed gradients; at step `slower_at` every learning rate is cut to a quarter.

    Parameters without gradient get other values after the first step, which have to stay. Reports nothing but the
    float32 copies where they are looked at `closely`.
    """
    parameters = [nn.Parameter(v.clone()) for v in values]
    dtypes, places = [p.dtype for p in parameters], [p.data_ptr() for p in parameters]
    if len(lrs) > 1:
        optimizer = answer([{"params": [p], "lr": lr} for p, lr in zip(parameters, lrs, strict=True)], lr=9.0)
    else:
        optimizer = answer(parameters, lr=lrs[0])
    for count in range(steps):
        if count == slower_at:
            for group in optimizer.param_groups:
                group["lr"] = 0.25 * group["lr"]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.to(parameter.dtype, copy=True)
        optimizer.step()
        if count == 0:
            with torch.no_grad():
                for parameter in (p for p in parameters if p.grad is None):
                    parameter.fill_(5.0)
    if closely:
        state = optimizer.state_dict()["state"]
        return {"float32 copies": [_copy(state.get(i, {}), p) for i, p in enumerate(parameters)]}
    same = [p.dtype for p in parameters] == dtypes
    return {
        "parameters afterwards": [p.detach().float() for p in parameters],
        "dtype of the parameters": "as before" if same else "another",
        "float32 copies in the state": _copies(optimizer, parameters, places),
    }


def cases(draw: Draw) -> list[Case]:
    def task(dtype: torch.dtype, lr: float, steps: int, size: float = 1.0, **more: Any) -> dict[str, Any]:
        values = [1 + draw.uniform(0, 0.5, 3, dtype=dtype), 2 + draw.uniform(0, 0.5, 2, 2, dtype=dtype)]
        gradients = [size * draw.uniform(0.5, 1, *v.shape, dtype=dtype) for v in values]
        return {"values": values, "gradients": gradients, "lrs": [lr], "steps": steps, "slower_at": -1, **more}

    close = {"rtol": 8e-3, "atol": 1e-3}
    idle = task(torch.bfloat16, 3e-3, 10)
    idle["values"].append(torch.ones(2, dtype=torch.bfloat16))
    idle["gradients"].append(None)
    return [
        case("bfloat16, many small steps", **close, **task(torch.bfloat16, 3e-3, 20)),
        case("float16, many small steps", rtol=1e-3, atol=1e-4, **task(torch.float16, 4e-4, 20)),
        case("uphill", **close, **task(torch.bfloat16, 3e-3, 20, size=-1.0)),
        case("a parameter without gradient", **close, **idle),
        case("two groups", **close, **task(torch.bfloat16, 0.0, 15, lrs=[3e-3, 6e-3])),
        case("lr lowered on the way", **close, **task(torch.bfloat16, 3e-3, 20, slower_at=10)),
        case("the copies, to five digits", rtol=1e-5, atol=1e-6, **task(torch.bfloat16, 0.013, 9), closely=True),
        case("a single large step", **close, **task(torch.bfloat16, 0.5, 1)),
        case("float32 as it is", rtol=1e-4, atol=1e-5, **task(torch.float32, 0.25, 3)),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    if "float32 copies" in seen:
        return {"copies": seen["float32 copies"][0]}
    starts = inputs["values"][0].flatten()[0].item()
    ends, should = (each["parameters afterwards"][0].flatten()[0].item() for each in (seen, wanted))
    return {"start": f"{starts:.5g}", "ended": f"{ends:.5g}", "should": f"{should:.5g}", "steps": inputs["steps"],
            "copies": seen["float32 copies in the state"]}  # fmt: skip


EXERCISE = Exercise(
    "MasterSGD",
    probe,
    cases,
    hints=(
        "Which copy of the weights is the real one: the one that the model computes with, or the one that the updates "
        "are added to? Which direction does the copying go after each step?",
        "`self.state[p]` is an empty dict when a parameter comes for the first time. What do you put there then, and "
        "in which dtype?",
        "Two loops: over `self.param_groups`, and over the parameters of each. Where do you take the learning rate "
        "from, if it is to follow a schedule?",
    ),
    quotes=quotes,
)
