"""The exercise `latency`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.fake_clock import LAUNCH, World
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import number

DEFAULT = 5
COLD = 40.0  # how many times as long the first requests take


def probe(answer: Watched, times: list[float], count: int, warmup: int | None, x: Tensor) -> Observations:
    """Measure requests of known times, in a world whose clock the probe moves."""
    world, host = World(x.device), 0.0 if x.device.type == "cpu" else LAUNCH
    cold = DEFAULT if warmup is None else warmup
    asked: list[Any] = []
    came: list[Any] = []

    def route(request: Any) -> Tensor:
        place = len(asked)
        asked.append("several at once" if isinstance(request, list | tuple) else "one")
        came.append(request)
        many = len(request) if isinstance(request, list | tuple) else 1
        usual = times[(place - cold) % len(times)]
        world.launch(many * (COLD * max(times) if place < cold else usual), host)
        return x

    options = {} if warmup is None else {"warmup": warmup}
    requests = [f"ticket {n}" for n in range(count)]
    with world.replace_clocks(answer.answer):
        found = answer.answer(route, requests, **options)
    if not isinstance(found, dict):
        return {"returned": kind(found)}
    seen: Observations = {name: number(found[name]) if name in found else "missing" for name in ("p50", "p95")}
    seen |= {"requests": " and ".join(sorted(set(asked))) or "none", "calls of route": len(asked)}
    often = max((came[:cold].count(request) for request in came[:cold]), default=0)
    seen["warm-up requests"] = "in turn" if often <= -(-cold // count) else "the same again and again"
    return {**seen, "measured requests": _measured(came[cold:], requests)}


def _measured(came: list[Any], requests: list[str]) -> str:
    if all(came.count(request) == 1 for request in requests):
        return "each once"
    return "always the same one" if len(came) > 1 == len(set(map(str, came))) else "not each of them once"


# The median and the 95th percentile are the same however they are interpolated: they lie on steps.
STEPS = [0.001] * 6 + [0.002] * 9 + [0.005] * 2 + [0.012] * 2 + [0.012]
LATE = [0.003] * 16 + [0.004] * 12 + [0.006] * 8 + [0.03] * 3 + [0.2]

TIGHT = [0.001] * 59 + [0.002] * 2 + [0.005] * 52 + [0.012] * 2 + [0.05] * 5


def mixed(draw: Draw, times: list[float]) -> list[float]:
    """Return the times in a drawn order, all of them by a drawn factor longer or shorter."""
    factor = draw.size(2, 9) / 4
    return [factor * times[i] for i in draw.normal(len(times)).argsort().tolist()]


def cases(draw: Draw) -> list[Case]:
    near: dict[str, Any] = {"rtol": 0.02, "atol": 1e-4, "x": torch.ones(2)}
    return [
        case("twenty requests", **near, times=mixed(draw, STEPS), count=20, warmup=None),
        case("some late ones", **near, times=mixed(draw, LATE), count=40, warmup=3),
        case("many requests", **near, times=mixed(draw, TIGHT), count=120, warmup=4),
        case("all alike", **near, times=[0.002], count=30, warmup=None),
        case("more to warm up than requests", **near, times=[0.002], count=3, warmup=8),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields = {f: seen[n] for f, n in (("calls", "calls of route"), ("asked", "requests"), ("p95", "p95"),
                                      ("p50", "p50"), ("returned", "returned")) if n in seen}  # fmt: skip
    return {**fields, "want_calls": wanted["calls of route"], "want_p95": wanted["p95"], "want_p50": wanted["p50"]}


EXERCISE = Exercise(
    "latency",
    probe,
    cases,
    hints=(
        "A customer waits for one ticket. How many requests does one stopwatch cover, and how many times do you have "
        "in the end?",
        "The first calls allocate and compile. Where do they belong? And a device that still works when the stopwatch "
        "stops: what did you measure?",
        "Wait before you start and before you stop. `torch.quantile`, `numpy.percentile` and `statistics.quantiles` "
        "all give percentiles; `perf_counter` counts seconds.",
    ),
    quotes=quotes,
)
