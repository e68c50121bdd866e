"""The exercise `hot_ops`: its probe, visible cases and hints."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.profiling import known_times

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # where there is no driver, the profiler writes to stderr


def a_product(x: Tensor) -> Tensor:
    return torch.matmul(x, x.mT).exp().cumsum(1)


def a_loop(x: Tensor) -> Tensor:
    for _ in range(4):
        x = x.sin()
    return (x @ x.mT).sort(1).values


def with_a_range(x: Tensor) -> Tensor:
    with torch.profiler.record_function("my aten::block"):
        y = torch.matmul(x, x.mT)
        with torch.profiler.record_function("aten_like"):
            return y.exp().sort(1).values


def nested_names(x: Tensor) -> Tensor:
    return F.softmax(torch.einsum("ij,kj->ik", x, x), dim=1).cumsum(0)


def many_kinds(x: Tensor) -> Tensor:
    y = x @ x.mT
    return y.exp().sin().cos().tanh().cumsum(1)


def two_tables(x: Tensor, y: Tensor) -> Tensor:
    return torch.matmul(x, y.mT).exp().cumsum(1)


class FirstCallPrepares:
    """A function whose first call prepares a table, as a compiled function or a lazy layer does."""

    def __init__(self) -> None:
        self.table: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = x.sort(1).values.tanh()
        return (self.table @ x.mT).exp().cumsum(1)


FUNCTIONS: dict[str, Callable[[], Callable[..., Any]]] = {
    "a product": lambda: a_product,
    "a loop": lambda: a_loop,
    "with a range of its own": lambda: with_a_range,
    "nested names": lambda: nested_names,
    "many kinds": lambda: many_kinds,
    "the first call prepares": FirstCallPrepares,
    "two tables": lambda: two_tables,
}


def probe(
    answer: Watched, function: str, x: Tensor, top: int | None, host: dict[str, float], kernels: dict[str, float]
) -> Observations:
    """Observe the names for one of `FUNCTIONS`, in profiles whose times are known."""
    options = {} if top is None else {"top": top}
    with known_times(host, kernels, x.device):
        args = (x, x + 1) if function == "two tables" else (x,)
        names = answer.answer(FUNCTIONS[function](), *args, **options)
    return {"result": names if isinstance(names, list) else kind(names)}


OPERATORS = ("mm", "exp", "cumsum", "sort", "sin", "cos", "tanh", "_softmax", "bmm")
OUTER = {"aten::matmul": 0.5, "aten::einsum": 0.4, "aten::softmax": 0.3}
"""Operators that only call others, and take little time themselves."""


def profiled(draw: Draw, function: str, top: int | None = None) -> Case:
    """Return the case of a function whose operators take drawn times, in another order on the device."""
    order = torch.randperm(len(OPERATORS), generator=draw.generator).tolist()
    other = [*order[3:], *order[:3]]
    host = {f"aten::{OPERATORS[i]}": 10.0 + 7 * place for place, i in enumerate(order)}
    kernels = {f"aten::{OPERATORS[i]}": 20.0 + 9 * place for place, i in enumerate(other)}
    return case(function, function=function, x=draw.normal(3, 4), top=top, host={**host, **OUTER}, kernels=kernels)


def range_on_device(draw: Draw) -> Case:
    """Return the case of a function in which a range, and no operator, has time on the device."""
    plain = profiled(draw, "with a range of its own", 2).inputs
    return case("a range with time on the device", **plain | {"kernels": {"my aten::block": 90.0, "aten_like": 40.0}})


def on_the_host_alone(draw: Draw) -> Case:
    """Return the case of a function with an operator that takes long on the host, and no time on the device."""
    inputs = profiled(draw, "many kinds", 4).inputs
    kernels = {name: time for name, time in inputs["kernels"].items() if name != "aten::tanh"}
    host = {**inputs["host"], "aten::tanh": 500.0}
    return case("an operator without time on the device", **inputs | {"kernels": kernels, "host": host})


def cases(draw: Draw) -> list[Case]:
    return [
        profiled(draw, "a product", 3),
        profiled(draw, "a loop", 2),
        profiled(draw, "with a range of its own", 3),
        profiled(draw, "nested names", 3),
        profiled(draw, "the first call prepares", 3),
        profiled(draw, "many kinds"),
        profiled(draw, "two tables", 3),
        range_on_device(draw),
        on_the_host_alone(draw),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    names, wanted_names = (
        ", ".join(map(str, s["result"])) if isinstance(s.get("result"), list) else s.get("result")
        for s in (seen, wanted)
    )
    return {"names": names, "want_names": wanted_names}


EXERCISE = Exercise(
    "hot_ops",
    probe,
    cases,
    hints=(
        "`torch.profiler.profile()` records what its block runs. Which call of `fn` belongs before the block, so that "
        "what only the first call does stays out?",
        "`key_averages()` gives one entry for each name, with `key`, `self_cpu_time_total` and "
        "`self_device_time_total`. Why are the times with `self` in their name the ones to compare?",
        "Where a device works, the host's time is only that of launching. If any entry has time on the device, by "
        "which of the two do you sort? And what do all operators' names begin with, unlike those of ranges?",
    ),
    quotes=quotes,
)
