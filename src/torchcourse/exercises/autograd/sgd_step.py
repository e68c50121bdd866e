"""The exercise `sgd_step`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.functions import expected_error


def probe(answer: Watched, values: list[Tensor], grads: list[Tensor | None], lr: float) -> dict[str, Any]:
    """Observe the parameters after a step, also through views made before it, and their gradients and flags."""
    params = [v.clone().requires_grad_() for v in values]
    for p, g in zip(params, grads, strict=True):
        p.grad = None if g is None else g.clone()
    given, views = list(params), [p.detach() for p in params]
    try:
        answer(params, lr=lr)
    except (RuntimeError, TypeError, AttributeError) as error:
        reasons = {"leaf Variable": "in place on a leaf", "NoneType": "a gradient is None"}
        return {"the call": expected_error(error, reasons)}
    same = len(params) == len(given) and all(p is q for p, q in zip(params, given, strict=False))
    return {
        "parameters afterwards": [p.detach() for p in params],
        "parameters, seen through views of before": views,
        "parameter objects": "the same" if same else "new ones",
        "parameters require grad": [p.requires_grad for p in given],
        "gradients afterwards": [p.grad for p in given],
    }


def derive(case: Case, seen: Observations) -> Observations:
    """Call a gradient cleared when it is None or zero; one that was None has to stay None."""
    if "gradients afterwards" not in seen:
        return seen
    pairs = list(zip(seen["gradients afterwards"], case.inputs["grads"], strict=True))
    after = ["cleared" if old is not None and (new is None or not new.any()) else new for new, old in pairs]
    return {**seen, "gradients afterwards": after}


def cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 4)
    shapes: list[tuple[int, ...]] = [(n, 3), (n,), ()]

    def drawn(name: str, without: Sequence[int], dtype: torch.dtype = torch.float32) -> Case:
        values = [draw.normal(*shape, dtype=dtype) for shape in shapes]
        grads = [None if i in without else draw.normal(*s, dtype=dtype) for i, s in enumerate(shapes)]
        return case(name, values=values, grads=grads, lr=round(float(draw.uniform(0.1, 0.5, 1)), 2))

    return [
        drawn("every parameter has a gradient", ()),
        drawn("the second parameter has no gradient", (1,)),
        drawn("the first parameter has no gradient", (0,)),
        drawn("no parameter has a gradient", (0, 1, 2)),
        drawn("float64", (), torch.float64),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"error": seen["the call"]} if "the call" in seen else {}
    name, grads, values = "parameters afterwards", inputs["grads"], inputs["values"]
    if name in seen:
        moved = [i for i, g in enumerate(grads) if g is not None]
        wrong = [i for i in moved if not torch.allclose(seen[name][i], wanted[name][i])]
        i = (wrong or moved or [0])[0]
        at = (0,) * values[i].ndim
        fields |= {"which": i, "start": values[i][at], "now": seen[name][i][at], "right": wanted[name][i][at]}
        fields |= {"slope": grads[i][at]} if grads[i] is not None else {}
        left = [g for g in seen["gradients afterwards"] if isinstance(g, Tensor)]
        fields |= {"left": left[0].flatten()[0]} if left else {}
        replaced = seen["parameter objects"] != wanted["parameter objects"]
        fields |= {"place": "the list now holds another object" if replaced else "its tensor was left as it was"}
        fields |= {"requires": seen["parameters require grad"][i]}
    return fields


EXERCISE = Exercise(
    "sgd_step",
    probe,
    cases,
    hints=(
        "Autograd refuses an in-place write to a leaf that requires grad, since it could not record it. In which "
        "context does it record nothing?",
        "`p = p - lr * p.grad` gives the name p to a new tensor and leaves the parameter as it was. Which operation "
        "writes into the parameter itself?",
        "Some parameters took no part in the loss. What is their `.grad`, and what should the loop do when it meets "
        "one? Last of all: what would the next backward add to?",
    ),
    derive=derive,
    quotes=quotes,
)
