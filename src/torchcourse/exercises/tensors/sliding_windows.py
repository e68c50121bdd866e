"""The exercise `sliding_windows`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, look, refusal

AT_LEAST = "1", "0", "one", "zero", "positive", "negative", "natural"
AT_MOST = "n", "x", "len", "length", "long", "longer", "entries", "elements", "shape", "input", "tensor", "sequence"
"""Words by which a message says what is allowed."""


def probe(answer: Watched, x: Tensor, size: int, step: int | None, refused: str) -> dict[str, Any]:
    """Observe the windows, and again after `x` was changed; or how bad arguments are refused."""

    def call() -> object:
        return answer(x, size) if step is None else answer(x, size=size, step=step)

    if refused:
        if refused == "size" and size > 0:
            return refusal(call, "size", [str(size)], [str(len(x)), *AT_MOST])
        return refusal(call, refused, [str(size if refused == "size" else step)], AT_LEAST)
    before, result = x.clone(), call()
    seen = {**look(result.clone() if isinstance(result, Tensor) else result, x), **kept(x=(x, before))}
    (x if x.stride(0) else x[:1]).mul_(-2)  # an expanded x is one number, and torch refuses to write it n times
    return {**seen, "windows after x *= -2": result}


def cases(draw: Draw) -> list[Case]:
    n = draw.size(9, 12)
    matrix = draw.normal(n, 4)
    common: dict[str, Any] = {"refused": ""}
    return [
        case("step 1", **common, x=draw.normal(n), size=3, step=None),
        case("step 2, nothing left over", **common, x=draw.normal(11), size=3, step=2),
        case("step 3, some left over", **common, x=draw.normal(12), size=4, step=3),
        case("one window of all", **common, x=draw.normal(n), size=n, step=2),
        case("every second element of a longer tensor", **common, x=draw.normal(2 * n)[::2], size=3, step=2),
        case("a column of a matrix", **common, x=matrix[:, 2], size=2, step=1),
        case("the middle of a longer tensor", **common, x=draw.normal(20)[4:-5], size=4, step=2),
        case("windows of one", **common, x=draw.normal(n), size=1, step=4),
        case("size 0", x=draw.normal(n), size=0, step=1, refused="size"),
        case("size larger than n", x=draw.normal(n), size=n + 1, step=1, refused="size"),
        case("step 0", x=draw.normal(n), size=3, step=0, refused="step"),
        case("a negative step", x=draw.normal(n), size=3, step=-1, refused="step"),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"n": len(inputs["x"]), "step": inputs["step"] or 1, "stride": inputs["x"].stride(0)}
    fields |= {"refused": seen.get("refused with"), "offset": inputs["x"].storage_offset()}
    fields |= {"returned": seen["returned"]} if "returned" in seen else {}
    if isinstance(seen.get("result"), Tensor):
        fields |= {"windows": len(seen["result"])}
        fields |= {"first": seen["result"][0]} if len(seen["result"]) else {}
    if isinstance(wanted.get("result"), Tensor):
        fields |= {"wanted_windows": len(wanted["result"]), "wanted_first": wanted["result"][0]}
        fields["wanted_last"] = wanted["result"][-1]
    return fields


EXERCISE = Exercise(
    "sliding_windows",
    probe,
    cases,
    hints=(
        "A window starts `step` elements after the one before it, and its own elements are neighbours in x. How far is "
        "each of these two moves in storage?",
        "`as_strided` takes a shape, strides and an offset, all counted in elements of the storage. If x takes every "
        "second element of something longer, what is `x.stride(0)`?",
        "The last window must still fit: its first element may be at most at n - size. How many starts 0, step, "
        "2·step, … are there up to that?",
    ),
    forbids=("unfold",),
    quotes=quotes,
)
