"""The exercise `float_fields`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

FIELDS = ("sign", "exponent", "mantissa")


def probe(answer: Watched, x: float, dtype: torch.dtype) -> dict[str, Any]:
    """Ask for sign, exponent and mantissa of a number."""
    fields = answer(x, dtype)
    if not isinstance(fields, tuple | list) or len(fields) != 3:
        return {"returned": kind(fields)}
    seen = {name: int(f) if isinstance(f, int) else _number(f) for name, f in zip(FIELDS, fields, strict=True)}
    if math.isnan(x):  # any sign, and any mantissa but 0, make it one
        del seen["sign"]
        seen["mantissa"] = "not 0" if isinstance(seen["mantissa"], int) and seen["mantissa"] else seen["mantissa"]
    return seen


def _number(value: object) -> object:
    """Return a number of another type as it is (NumPy's integers count as integers), and describe anything else."""
    return kind(value) if isinstance(value, Tensor) or not hasattr(value, "__float__") else value


def cases(draw: Draw) -> list[Case]:
    some, low = draw.uniform(2, 9).item(), -draw.uniform(0.01, 0.9).item()
    return [
        case("one, in float16", x=1.0, dtype=torch.float16),
        case("a tenth, in float16", x=0.1, dtype=torch.float16),
        case("a tenth, in bfloat16", x=0.1, dtype=torch.bfloat16),
        case("a tenth, in float32", x=0.1, dtype=torch.float32),
        case("a third, in bfloat16", x=float(torch.tensor(1 / 3)), dtype=torch.bfloat16),
        case("some number, in bfloat16", x=some, dtype=torch.bfloat16),
        case("a negative number, in float16", x=low, dtype=torch.float16),
        case("a negative number, in float32", x=low, dtype=torch.float32),
        case("minus zero, in bfloat16", x=-0.0, dtype=torch.bfloat16),
        case("a subnormal number of float16", x=-3 * 2.0**-24, dtype=torch.float16),
        case("too large for float16", x=70000.0, dtype=torch.float16),
        case("NaN, in bfloat16", x=math.nan, dtype=torch.bfloat16),
        case("half way, to the even neighbour", x=1 + 2.0**-8, dtype=torch.bfloat16),
        case("rounded up to the next power of two", x=1.9999, dtype=torch.float16),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return {
        "number": repr(inputs["x"]),
        "fields": f"({', '.join(str(seen.get(name, 'any')) for name in FIELDS)})",
        "right": f"({', '.join(str(wanted.get(name, 'any')) for name in FIELDS)})",
    }


EXERCISE = Exercise(
    "float_fields",
    probe,
    cases,
    hints=(
        "A tensor of the wanted dtype holds the rounded number already. Which method reads the same bits as an "
        "integer, without converting the number?",
        "How many bits do exponent and mantissa take in each of the three formats? `torch.finfo(dtype).bits` and "
        "`.eps` say all that you need: eps is two to the minus mantissa bits.",
        "A signed integer shifted right fills up with ones where it is negative. What do you keep with `&` before you "
        "shift, so that only the bits of the format are left?",
    ),
    any_device=False,
    quotes=quotes,
)  # fmt: skip
