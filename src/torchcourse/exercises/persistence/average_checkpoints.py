"""The exercise `average_checkpoints`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.crash_points import in_a_folder
from torchcourse.probes.observe import kind
from torchcourse.probes.savable_models import values

ENTRY = "entry "


@in_a_folder
def probe(answer: Watched, states: list[dict[str, Tensor]], times: int = 1) -> Observations:
    """Save the states, each `times` over, and average the files."""
    paths = [Path(f"epoch-{number}.pt") for number in range(times * len(states))]
    for path, state in zip(paths, times * states, strict=True):
        torch.save({**state, "tied": state["weight"]}, path)  # one tensor under two names, as of tied weights
    result = answer(paths)
    if not isinstance(result, dict):
        return {"returned": kind(result)}
    dtypes = {
        name: str(value.dtype).removeprefix("torch.") for name, value in result.items() if isinstance(value, Tensor)
    }
    return {**{ENTRY + name: _widened(value) for name, value in values(result).items()}, "dtypes": dtypes}


def _widened(value: object) -> object:
    """Return floats in float64, so that numbers are compared whatever their dtype, and all else as it is."""
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def averaged_states(draw: Draw, count: int, dtype: torch.dtype, size: float) -> list[dict[str, Tensor]]:
    return [
        {"weight": (size * (1 + draw.uniform(0.0, 0.2, 3, 2))).to(dtype), "bias": draw.normal(3, dtype=dtype),
         "steps": torch.tensor(10 * n + draw.size(1, 9)), "mask": draw.flags(4),
         "scale": draw.uniform(0.5, 1.5).to(dtype), "total": draw.normal(2, dtype=torch.float64)}
        for n in range(count)
    ]  # fmt: skip


def cases(draw: Draw) -> list[Case]:
    spoilt = averaged_states(draw, 3, torch.float32, 1.0)
    spoilt[1]["bias"][2] = math.nan
    return [
        case("three files", states=averaged_states(draw, 3, torch.float32, 1.0)),
        case("one file", states=averaged_states(draw, 1, torch.float32, 1.0)),
        case("half precision, large numbers", rtol=2e-3, states=averaged_states(draw, 4, torch.float16, 3e4)),
        case("bfloat16, twelve files", rtol=8e-3, atol=8e-3, states=averaged_states(draw, 12, torch.bfloat16, 300.0)),
        case("a NaN in one of three", states=spoilt),
        case("bfloat16, three files over and over", rtol=8e-3, atol=8e-3, times=32,
             states=averaged_states(draw, 3, torch.bfloat16, 300.0)),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    """Quote the first entry whose dtype differs, and the first whose values do."""
    fields: dict[str, object] = {}
    for key, right in reversed(wanted.items()):
        theirs, name = seen.get(key), key.removeprefix(ENTRY)
        if not isinstance(theirs, Tensor) or theirs.shape != right.shape:
            continue
        dtype, want_dtype = (side["dtypes"].get(name) for side in (seen, wanted))
        if dtype != want_dtype:
            fields |= {"cast": name, "dtype": dtype, "want_dtype": want_dtype}
        gap = (theirs.double() - right.double()).abs().nan_to_num(nan=math.inf).flatten()
        if gap.max() > 0.01 * right.double().abs().max() + 1e-3:
            at = int(gap.argmax())
            fields |= {"entry": name, "value": theirs.flatten()[at].item(), "want_value": right.flatten()[at].item()}
    return fields


EXERCISE = Exercise(
    "average_checkpoints",
    probe,
    cases,
    hints=(
        "Load each file and add up. In which dtype is there room for a sum of numbers that are themselves close to "
        "their dtype's limit?",
        "A mean of counters is not a counter. Which entries have no mean, and from which file are they taken?",
        "After the division an entry goes back to the dtype it has in the files. `tensor.is_floating_point()` tells "
        "the two kinds apart.",
    ),
    any_device=False,
    quotes=quotes,
)
