"""The exercise `quantize_int8`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, kind, where
from torchcourse.probes.trainable_models import with_detail

HALF = 0.5 + 1e-3
"""Half a scale, and a little for rounding."""


def probe(answer: Watched, w: Tensor) -> Observations:
    """Observe the levels and scales of a matrix, which may not change."""
    before = w.clone()
    returned = answer(w)
    if not (isinstance(returned, tuple) and len(returned) == 2 and all(isinstance(t, Tensor) for t in returned)):
        return {"returned": kind(returned)}
    q, scale = returned
    places = {"device of q": where(q, w), "device of scale": where(scale, w)}
    return {"q": q, "scale": scale, **places, **kept(w=(w, before))}


def derive(case: Case, seen: Observations) -> Observations:
    """Reduce the levels to their range and largest error, since which way a half is rounded is free; part the scales
    from their shape, so that a wrong one does not hide what is wrong with the numbers."""
    if "q" not in seen:
        return seen
    w, q, scale = case.inputs["w"], seen["q"], seen["scale"]
    shapes = {"shape of q": tuple(q.shape), "shape of scale": tuple(scale.shape)}
    scale = scale.reshape(-1, 1) if scale.numel() == len(w) else scale
    rest = {name: value for name, value in seen.items() if name != "q"}
    rest |= {"scale": scale, "dtype of q": q.dtype, **shapes}
    if q.shape != w.shape or scale.shape != (len(w), 1):
        return rest
    levels, step = q.double(), scale.double()
    error = (
        ((levels * step - w.double()).abs() / step).nan_to_num(nan=torch.inf).amax() if q.numel() else torch.zeros(())
    )
    low, high = (int(levels.min()), int(levels.max())) if q.numel() else (0, 0)
    return {
        **rest,
        "levels": with_detail("in ±127" if -127 <= low <= high <= 127 else "out of ±127", f"from {low} to {high}"),
        "largest error": with_detail("within half a scale" if error <= HALF else "more than half a scale",
                                f"{error:.2f} scales"),
    }  # fmt: skip


def cases(draw: Draw) -> list[Case]:
    rows, columns = draw.size(3, 5), draw.size(6, 9)
    sizes = torch.tensor([0.01, 1.0, 30.0])[:, None]
    zero = draw.normal(3, columns)
    zero[1] = 0
    return [
        case("a matrix", rtol=1e-5, atol=1e-8, w=draw.normal(rows, columns)),
        case("rows of different sizes", rtol=1e-5, atol=1e-8, w=sizes * draw.normal(3, columns)),
        case("largest entry positive", rtol=1e-5, atol=1e-8, w=draw.uniform(0.5, 3, 2, columns)),
        case("largest entry negative", rtol=1e-5, atol=1e-8, w=-draw.uniform(0.5, 3, 2, columns)),
        case("a row of zeros", rtol=1e-5, atol=1e-8, w=zero),
        case("float64", rtol=1e-9, atol=1e-12, w=draw.normal(rows, columns, dtype=torch.float64)),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    for field, name in (("levels", "levels"), ("error", "largest error")):
        if name in seen:
            fields[field] = seen[name].message
    scale, want = seen.get("scale"), wanted.get("scale")
    if isinstance(scale, Tensor) and isinstance(want, Tensor):
        fields["scales"] = scale.flatten()[:3]
    for field, side in (("scale_shape", seen), ("want_scale_shape", wanted)):
        fields |= {field: side["shape of scale"]} if "shape of scale" in side else {}
    return fields


EXERCISE = Exercise(
    "quantize_int8",
    probe,
    cases,
    hints=(
        "The largest absolute value of a row shall become 127. What is then the size of one step, in terms of that "
        "value? Which reduction keeps the dimension, so that the division broadcasts?",
        "A cast to int8 cuts off what is behind the point. What has to be done before the cast, so that no entry is "
        "off by more than half a step?",
        "A row of zeros has a largest value of 0, and 0 / 0 is not a number. `torch.where` can put another scale in "
        "its place before you divide.",
    ),
    derive=derive,
    quotes=quotes,
)
