"""The exercise `to_numpy`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind


def probe(answer: Watched, t: Tensor, negative: bool) -> dict[str, Any]:
    """Observe the array, and again after `t` was changed: shared memory follows."""
    t = torch._neg_view(t) if negative else t
    array = answer(t)
    if not isinstance(array, np.ndarray):
        return {"returned": f"{kind(array)}, where a NumPy array is wanted"}
    seen = {"dtype": str(array.dtype), "values": array.copy(), "t requires grad": t.requires_grad}
    with torch.no_grad():
        t.logical_not_() if t.dtype == torch.bool else t.copy_(torch.where(t == 1, 2, 1))  # uint16 cannot add
    return {**seen, "array after t was changed": array}


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    common: dict[str, Any] = {"negative": False}
    waves = torch.complex(draw.normal(n), draw.normal(n))
    return [
        case("float32", **common, t=draw.normal(n, 2)),
        case("float16, requires grad", **common, t=draw.normal(n, 2, dtype=torch.float16).requires_grad_()),
        case("bfloat16", **common, t=draw.normal(n, dtype=torch.bfloat16)),
        case("bool", **common, t=draw.flags(n)),
        case("int16, transposed", **common, t=draw.integers(-9, 9, n, 2, dtype=torch.int16).t()),
        case("a conjugate view", **common, t=waves.conj()),
        case("a negative view", t=draw.normal(n), negative=True),
        case("one number", **common, t=draw.normal(dtype=torch.float64)),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    if "dtype" in seen and seen["dtype"] != wanted["dtype"]:
        fields |= {"seen_dtype": seen["dtype"], "wanted_dtype": wanted["dtype"]}
    kept_array = seen.get("array after t was changed")
    if isinstance(kept_array, Tensor) and kept_array.numel():
        fields["kept_entry"] = kept_array.flatten()[0].item()
    error = seen.get("raised")
    if isinstance(error, Raised):
        fields["error"] = error
        causes = {"device": "device type", "grad": "requires grad", "bit": "bit set", "scalar": "ScalarType"}
        fields |= {f"{cause}_error": error for cause, said in causes.items() if said in error.message}
    return fields


EXERCISE = Exercise(
    "to_numpy",
    probe,
    cases,
    hints=(
        "Call `t.numpy()` on a tensor that requires grad, on one of another device and on a bfloat16 one, and read "
        "what each message asks for.",
        "`detach()` and `cpu()` return a view or the tensor itself where they can. Which calls do copy, and when?",
        "A conjugate or negative view is a promise to flip signs on reading. Which two methods keep the promise in "
        "memory?",
    ),
    quotes=quotes,
)  # fmt: skip
