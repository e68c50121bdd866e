"""Running one answer in one case: whatever it does, observations come back and the process is as before."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from torchcourse import Unattempted
from torchcourse.exercise import Exercise, case
from torchcourse.lanes import CPU, Lane, accelerator_lane
from torchcourse.observations import Observations, Raised
from torchcourse.probing import Watched, observe, pristine

HINTS = ("one", "two", "three")
SIMULATED = accelerator_lane("simulated")
X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
CASE = case("a matrix", x=X)


def exercise(probe: Callable[..., dict[str, Any]], **others: Any) -> Exercise:
    return Exercise("double", probe, lambda _: [CASE], HINTS, **others)


def call(answer: Watched, x: Tensor) -> dict[str, Any]:
    return {"result": answer(x)}


def seen(answer: Callable[..., Any], lane: Lane = CPU, **others: Any) -> Observations:
    return observe(exercise(call, **others), answer, CASE, lane)


def state() -> dict[str, Any]:
    """Everything that an answer may change for the whole process."""
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.get_deterministic_debug_mode(),
        "anomalies": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "precision of products": torch.get_float32_matmul_precision(),
        "numpy's faults": np.geterr(),
        "torch's numbers": torch.get_rng_state().tolist(),
        "numpy's numbers": str(np.random.get_state()),
        "python's numbers": random.getstate(),
        "warning filters": list(warnings.filters),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
    }


MEDDLING: dict[str, Callable[[], Any]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "no default device": lambda: torch.set_default_device(None),
    "grad mode": lambda: torch.set_grad_enabled(False),
    "threads": lambda: torch.set_num_threads(3),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "deterministic, warning only": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast's dtype": lambda: torch.set_autocast_dtype("cpu", torch.float16),
    "precision of products": lambda: torch.set_float32_matmul_precision("medium"),
    "numpy's faults": lambda: np.seterr(all="raise"),
    "torch's seed": lambda: torch.manual_seed(3),
    "numpy's seed": lambda: np.random.seed(3),
    "python's seed": lambda: random.seed(3),
    "drawing numbers": lambda: (torch.rand(3), np.random.rand(), random.random()),
    "warning": lambda: warnings.warn("this is fine", stacklevel=1),
    "warning filters": lambda: warnings.simplefilter("error"),
}


@pytest.fixture
def _as_it_was() -> Iterator[None]:
    """The learner's own settings, odd on purpose, and back to the ordinary ones afterwards."""
    torch.set_default_dtype(torch.float16)
    torch.set_grad_enabled(False)
    torch.set_deterministic_debug_mode(1)
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_deterministic_debug_mode(0)


@pytest.mark.usefixtures("_as_it_was")
@pytest.mark.parametrize("lane", [CPU, SIMULATED], ids=lambda lane: lane.name)
@pytest.mark.parametrize("what", MEDDLING)
def test_what_an_answer_changes_is_put_back(what: str, lane: Lane) -> None:
    def meddling(x: Tensor) -> Tensor:
        MEDDLING[what]()
        return x * 2

    before = state()
    observations = seen(meddling, lane)
    assert state() == before
    assert observations["result"].tolist() == [[2, 4], [6, 8]]


@pytest.mark.usefixtures("_as_it_was")
@pytest.mark.parametrize("what", MEDDLING)
def test_it_is_put_back_when_the_answer_raises(what: str) -> None:
    def failing(x: Tensor) -> Tensor:
        MEDDLING[what]()
        raise ArithmeticError("no")

    before = state()
    assert seen(failing)["raised"] == Raised("ArithmeticError", "no")
    assert state() == before


@pytest.mark.usefixtures("_as_it_was")
def test_an_answer_finds_the_ordinary_settings() -> None:
    def asking(_: Tensor) -> list[Any]:
        return [torch.tensor(0.5).dtype, torch.is_grad_enabled(), str(torch.get_default_device())]

    assert seen(asking)["result"] == [torch.float32, True, "cpu"]


def test_an_answer_draws_the_same_numbers_in_every_run() -> None:
    def drawing(_: Tensor) -> list[Any]:
        return [torch.rand(2), float(np.random.rand()), random.random()]

    first = seen(drawing)["result"]
    torch.manual_seed(99)
    second = seen(drawing)["result"]
    assert torch.equal(first[0], second[0])
    assert first[1:] == second[1:]


def test_no_run_changes_the_inputs_of_the_next() -> None:
    for lane in (CPU, SIMULATED):
        for _ in range(2):
            assert seen(lambda x: x.mul_(2), lane)["result"].tolist() == [[2, 4], [6, 8]]
    assert X.tolist() == [[1, 2], [3, 4]]


def test_inputs_keep_their_layout_and_flags_on_every_lane() -> None:
    def layout(answer: Watched, x: Tensor) -> dict[str, Any]:
        answer(x)
        return {"layout": [*x.stride(), x.storage_offset()], "grad": x.requires_grad, "device": x.device.type}

    odd = case("odd", x=torch.arange(24.0).reshape(4, 6).t()[1:, ::2].detach().requires_grad_())
    here, there = (observe(exercise(layout), lambda x: x, odd, lane) for lane in (CPU, SIMULATED))
    assert here["layout"] == there["layout"] == [1, 12, 1]
    assert here["grad"] is there["grad"] is True
    assert (here["device"], there["device"]) == ("cpu", SIMULATED.device.type)


def endless(x: Tensor) -> Tensor:
    return endless(x)


RAISING: dict[str, tuple[Callable[..., Any], str]] = {
    "an exception": (lambda _: 1 / 0, "ZeroDivisionError"),
    "an exit": (lambda _: sys.exit(0), "SystemExit"),
    "recursion without end": (endless, "RecursionError"),
    "wrong arguments": (lambda: None, "TypeError"),
    "a missing name": (lambda _: eval("nothing_of_this_name"), "NameError"),
    "another exercise's stub": (lambda _: stub("another"), "Unattempted"),
    "a bare NotImplementedError": (torch.nn.Module(), "NotImplementedError"),
}


def stub(name: str) -> None:
    raise Unattempted(name)


@pytest.mark.parametrize("how", RAISING)
def test_whatever_an_answer_raises_becomes_an_observation(how: str) -> None:
    answer, kind = RAISING[how]
    observations = seen(answer)
    assert list(observations) == ["raised"]
    assert observations["raised"].kind == kind


@pytest.mark.parametrize("name", ["double", ""])
def test_the_own_stub_is_no_observation(name: str) -> None:
    with pytest.raises(Unattempted):
        seen(lambda _: stub(name))


def test_an_interrupt_goes_through() -> None:
    def interrupted(_: Tensor) -> None:
        raise KeyboardInterrupt

    before = state()
    with pytest.raises(KeyboardInterrupt):
        seen(interrupted)
    assert state() == before


class Doubler:
    def __call__(self, x: Tensor) -> Tensor:
        return x * 2

    def method(self, x: Tensor) -> Tensor:
        return x * 2


class Double(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@torch.no_grad()
def decorated(x: Tensor) -> Tensor:
    return x * 2


CALLABLES: dict[str, Callable[..., Any]] = {
    "a lambda": lambda x: x * 2,
    "a partial": functools.partial(torch.mul, other=2),
    "an object": Doubler(),
    "a method": Doubler().method,
    "a module": Double(),
    "a decorated function": decorated,
    "a partial of a method": functools.partial(Tensor.mul, other=2),
    "a function under vmap": torch.vmap(decorated),
}


@pytest.mark.parametrize("lane", [CPU, SIMULATED], ids=lambda lane: lane.name)
@pytest.mark.parametrize("form", CALLABLES)
def test_an_answer_may_be_any_callable(form: str, lane: Lane) -> None:
    assert seen(CALLABLES[form], lane)["result"].tolist() == [[2, 4], [6, 8]]


def test_what_is_forbidden_is_told_once_and_only_where_something_is() -> None:
    observations = seen(lambda x: x.exp() + x.exp(), forbids=("exp", "log"))
    assert observations["forbidden calls"] == ["exp"]
    assert seen(lambda x: x, forbids=("exp",))["forbidden calls"] == []
    assert "forbidden calls" not in seen(lambda x: x.exp())


def test_a_forbidden_call_is_told_even_if_the_answer_fails_later() -> None:
    assert seen(lambda x: x.exp().view(3), forbids=("exp",))["forbidden calls"] == ["exp"]


def test_what_the_probe_itself_calls_is_not_forbidden() -> None:
    def probe(answer: Watched, x: Tensor) -> dict[str, Any]:
        return {"result": answer(x).exp()}

    observations = observe(exercise(probe, forbids=("exp",)), lambda x: x, CASE)
    assert observations["forbidden calls"] == []


def test_the_cost_is_that_of_the_last_call() -> None:
    watched = Watched(lambda x, times: [x + i for i in range(times)], (), watching=True)
    costs = []
    for times in (2, 5):
        watched(X, times)
        costs.append(watched.spent[0])
    assert costs == [2, 5]


def test_off_the_cpu_nothing_is_watched() -> None:
    def probe(answer: Watched, x: Tensor) -> dict[str, Any]:
        answer(x)
        return {"spent": answer.spent}

    assert observe(exercise(probe), lambda x: x + 1, CASE, SIMULATED)["spent"] == (0, 0, 0)


def test_mixing_devices_is_refused_on_the_second_one_and_recognised() -> None:
    def mixing(x: Tensor) -> Tensor:
        return x + torch.ones(2)

    assert "result" in seen(mixing)
    assert seen(mixing, SIMULATED)["raised"].reason == "device mismatch"


def test_pristine_blocks_nest() -> None:
    before = state()
    with pristine(seed=1):
        one = torch.rand(1)
        with pristine(seed=2):
            torch.rand(5)
        two = torch.rand(1)
    with pristine(seed=1):
        assert torch.equal(torch.cat([one, two]), torch.rand(1).new_tensor([one.item(), two.item()]))
    assert state() == before


def test_a_seed_for_the_answer_leaves_an_unused_gpu_alone() -> None:
    calls = list(torch.cuda._queued_calls)
    with pristine():
        pass
    assert len(torch.cuda._queued_calls) == len(calls)


FIRST = """
import sys, time
import torch
begin = time.perf_counter()
import torchcourse
imported = time.perf_counter()
from torchcourse.checking import examine

def row_softmax(x):
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)

report = examine("row_softmax", globals())
assert report.status in ("passed", "failed"), report
for name in ("torch._dynamo", "torch._inductor", "matplotlib", "IPython"):
    assert name not in sys.modules, name
"""


def test_the_first_check_imports_none_of_the_slow_modules() -> None:
    environment = {**os.environ, "TORCHCOURSE_SIMULATED": ""}
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_default_device_and_inference_mode_of_before_change_nothing_in_an_answer() -> None:
    torch.set_default_device("meta")
    try:
        with torch.inference_mode():
            found = seen(lambda x: (2 * x.requires_grad_()).detach())
    finally:
        torch.set_default_device(None)
    assert torch.equal(found["result"], 2 * X)
