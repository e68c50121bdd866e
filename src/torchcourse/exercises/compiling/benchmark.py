"""The exercise `benchmark`: its probe, visible cases and hints."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.fake_clock import LAUNCH, SETBACK, World
from torchcourse.probes.observe import kind
from torchcourse.probes.sealed import sealed
from torchcourse.probes.trainable_models import number

COMPILING = 3.0  # seconds that the first call takes in addition
MEASURES = ("median", "iqr")


def probe(
    answer: Watched, bases: dict[str, float], pattern: list[float], repeats: int | None, x: Tensor
) -> Observations:
    """Measure programs of known times, in a world whose clock the probe moves; a device comes by its name, too."""
    world, host = World(x.device, setback=SETBACK), 0.0 if x.device.type == "cpu" else LAUNCH
    args, strange = (x, x + 1), list[int]()

    def program(name: str, base: float) -> Callable[..., Any]:
        run = world.program(name, [base * p for p in pattern], host, COMPILING)

        def noting(*given: Any) -> Any:
            if [id(arg) for arg in given] != [id(arg) for arg in args]:
                strange.append(len(given))
            return run(*given)

        return sealed(noting)

    fns = {name: program(name, base) for name, base in bases.items()}
    options: dict[str, Any] = {"device": x.device} if repeats is None else {"device": str(x.device), "repeats": repeats}
    with world.replace_clocks(answer.answer):
        found = answer.answer(fns, *args, **options)
    if not isinstance(found, dict):
        return {"returned": kind(found)}
    enough = min(map(world.calls.count, bases)) >= (repeats or 30)
    seen: Observations = {"names": sorted(map(str, found)), "runs of each": "enough" if enough else "too few"}
    seen["calls got"] = "other arguments" if strange else "the arguments"
    for name in bases:
        held: Any = found.get(name)
        good = isinstance(held, dict) and set(MEASURES) <= held.keys()
        for measure in MEASURES:
            seen[f"{measure} of {name}"] = number(held[measure]) if good else f"missing: {kind(held)}"
    return {**seen, "order of the calls": world.calls[-len(bases) * ((repeats or 30) // 2) :]}


def derive(case: Case, seen: Observations) -> Observations:
    """Reduce the order of the calls to whether several variants took turns."""
    if "order of the calls" not in seen:
        return seen
    rest = {name: value for name, value in seen.items() if name != "order of the calls"}
    repeats, order = case.inputs["repeats"] or 30, seen["order of the calls"]
    if len(case.inputs["bases"]) < 2 or repeats < 4:
        return rest
    longest = max(len(list(run)) for _, run in itertools.groupby(order))
    return {**rest, "variants": "one after another" if longest > 2 else "in turn"}


def cases(draw: Draw) -> list[Case]:
    def some(*names: str) -> dict[str, float]:
        return {name: draw.size(1, 9) / 1000 for name in names}

    x, spread = torch.ones(2), draw.pick([SPREAD, SPREAD[::-1]])
    near = {"rtol": 0.02, "atol": 1e-5}
    return [
        case("two variants, two repeats", **near, bases=some("eager", "compiled"), pattern=[1.0], repeats=2, x=x),
        case("three variants", **near, bases=some("eager", "compiled", "other"), pattern=spread, repeats=None, x=x),
        case("one variant, ten repeats", **near, bases=some("eager"), pattern=spread, repeats=10, x=x),
        case("slow ones, forty repeats", **near, bases={"a": 2.0, "b": 0.5}, pattern=spread, repeats=40, x=x),
    ]


SPREAD = [1.0, 0.8, 9.0, 1.5, 0.8, 1.5, 1.0, 0.2, 1.5, 0.8]
"""Median, quartiles and extremes are the same however quartiles are computed, and wherever in it one begins."""


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"number": inputs["repeats"] or 30}
    return {**fields, "turns": seen["variants"]} if "variants" in seen else fields


EXERCISE = Exercise(
    "benchmark",
    probe,
    cases,
    hints=(
        "The first call of a compiled function compiles. Where does that call belong: before the first stopwatch "
        "starts, or into the numbers?",
        "A GPU takes work into a queue and lets the host go on. What has to be empty before you start a stopwatch, and "
        "again before you stop it? On the CPU there is nothing to wait for.",
        "If the machine becomes warm halfway, which of two variants suffers? Two nested loops: which of them is the "
        "outer one?",
    ),
    derive=derive,
    quotes=quotes,
)
