"""Running one answer in one case: whatever it does, it is observed, and the process is unchanged afterwards."""

from __future__ import annotations

import functools
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.alone import alone
from torchcourse import Unattempted
from torchcourse.checking.probe import Watched, observe, pristine
from torchcourse.model.devices import CPU, CheckedDevice, find_accelerator
from torchcourse.model.exercise import Exercise, case
from torchcourse.model.observations import Observations, Raised

HINTS = ("one", "two", "three")
SIMULATED = find_accelerator("simulated")
X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
CASE = case("a matrix", x=X)


def exercise(probe: Callable[..., dict[str, Any]], **others: Any) -> Exercise:
    return Exercise("double", probe, lambda _: [CASE], HINTS, **others)


def call(answer: Watched, x: Tensor) -> dict[str, Any]:
    return {"result": answer(x)}


def seen(answer: Callable[..., Any], device: CheckedDevice = CPU, **others: Any) -> Observations:
    return observe(exercise(call, **others), answer, CASE, device)


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
        "handler": signal.getsignal(signal.SIGCHLD),
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
    "handler": lambda: signal.signal(signal.SIGCHLD, lambda *_: None),
}


@pytest.fixture
def _learners_settings() -> Iterator[None]:
    """The learner's own settings, odd on purpose, and back to the ordinary ones afterwards."""
    torch.set_default_dtype(torch.float16)
    torch.set_grad_enabled(False)
    torch.set_deterministic_debug_mode(1)
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_deterministic_debug_mode(0)


@pytest.mark.usefixtures("_learners_settings")
@pytest.mark.parametrize(("device", "fails"), [(CPU, False), (SIMULATED, False), (CPU, True)])
@pytest.mark.parametrize("what", MEDDLING)
def test_what_an_answer_changes_is_restored(what: str, device: CheckedDevice, fails: bool) -> None:
    def meddling(x: Tensor) -> Tensor:
        MEDDLING[what]()
        if fails:
            raise ArithmeticError("no")
        return x * 2

    before = state()
    observations = seen(meddling, device)
    assert state() == before
    if fails:
        assert observations["raised"] == Raised("ArithmeticError", "no")
    else:
        assert observations["result"].tolist() == [[2, 4], [6, 8]]


@pytest.mark.usefixtures("_learners_settings")
def test_an_answer_finds_the_ordinary_settings_and_draws_the_same_numbers_in_every_run() -> None:
    def asking(_: Tensor) -> list[Any]:
        settings = [torch.tensor(0.5).dtype, torch.is_grad_enabled(), str(torch.get_default_device())]
        return [settings, torch.rand(2).tolist(), float(np.random.rand()), random.random()]

    first = seen(asking)["result"]
    assert first[0] == [torch.float32, True, "cpu"]
    torch.manual_seed(99)
    assert seen(asking)["result"] == first


def test_no_run_changes_the_inputs_of_the_next() -> None:
    for device in (CPU, SIMULATED):
        for _ in range(2):
            assert seen(lambda x: x.mul_(2), device)["result"].tolist() == [[2, 4], [6, 8]]
    assert X.tolist() == [[1, 2], [3, 4]]


def test_inputs_keep_their_layout_and_flags_on_every_device() -> None:
    def layout(answer: Watched, x: Tensor) -> dict[str, Any]:
        answer(x)
        return {"layout": [*x.stride(), x.storage_offset()], "grad": x.requires_grad, "device": x.device.type}

    odd = case("odd", x=torch.arange(24.0).reshape(4, 6).t()[1:, ::2].detach().requires_grad_())
    here, there = (observe(exercise(layout), lambda x: x, odd, device) for device in (CPU, SIMULATED))
    assert here["layout"] == there["layout"] == [1, 12, 1]
    assert here["grad"] is there["grad"] is True
    assert (here["device"], there["device"]) == ("cpu", SIMULATED.device.type)


def endless(x: Tensor) -> Tensor:
    return endless(x)


def stub(name: str) -> None:
    raise Unattempted(name)


RAISING: dict[str, tuple[Callable[..., Any], str]] = {
    "an exception": (lambda _: 1 / 0, "ZeroDivisionError"),
    "an exit": (lambda _: sys.exit(0), "SystemExit"),
    "recursion without end": (endless, "RecursionError"),
    "wrong arguments": (lambda: None, "TypeError"),
    "a missing name": (lambda _: eval("nothing_of_this_name"), "NameError"),
    "another exercise's stub": (lambda _: stub("another"), "Unattempted"),
    "a bare NotImplementedError": (torch.nn.Module(), "NotImplementedError"),
}


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


class Doubler(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


CALLABLES: dict[str, Callable[..., Any]] = {
    "a lambda": lambda x: x * 2,
    "a partial": functools.partial(torch.mul, other=2),
    "a method": Doubler().forward,
    "a module": Doubler(),
    "a decorated function": torch.no_grad()(lambda x: x * 2),
    "a partial of a method": functools.partial(Tensor.mul, other=2),
    "a function under vmap": torch.vmap(lambda x: x * 2),
}


@pytest.mark.parametrize("device", [CPU, SIMULATED], ids=lambda device: device.name)
@pytest.mark.parametrize("form", CALLABLES)
def test_an_answer_may_be_any_callable(form: str, device: CheckedDevice) -> None:
    assert seen(CALLABLES[form], device)["result"].tolist() == [[2, 4], [6, 8]]


def test_forbidden_calls_of_the_answer_are_named_once_even_if_it_fails_later() -> None:
    def probe(answer: Watched, x: Tensor) -> dict[str, Any]:
        return {"result": answer(x).exp()}  # the probe itself may call what it likes

    assert seen(lambda x: x.exp() + x.exp(), forbids=("exp", "log"))["forbidden calls"] == ["exp"]
    assert seen(lambda x: x.exp().view(3), forbids=("exp",))["forbidden calls"] == ["exp"]
    assert observe(exercise(probe, forbids=("exp",)), lambda x: x, CASE)["forbidden calls"] == []
    assert "forbidden calls" not in seen(lambda x: x.exp())


def test_what_other_threads_do_meanwhile_is_the_answers_unless_it_is_one_of_the_courses_own() -> None:
    rules = exercise(call, forbids=("exp", "log"))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(X.exp).result()  # so that no thread has to be started later

        def waiting(x: Tensor) -> Tensor:
            pool.submit(x.exp).result()
            return 2 * x

        assert observe(rules, waiting, CASE)["forbidden calls"] == ["exp"]
        assert observe(rules, waiting, CASE, trusted=True)["forbidden calls"] == []
        assert observe(rules, Tensor.log, CASE, trusted=True)["forbidden calls"] == ["log"]


def test_the_cost_is_that_of_the_last_call_and_off_the_cpu_nothing_is_watched() -> None:
    def probe(answer: Watched, x: Tensor) -> dict[str, Any]:
        return {"spent": [(answer(x, times), answer.spent())[1][0] for times in (2, 5)]}

    def adding(x: Tensor, times: int) -> list[Tensor]:
        return [x + i for i in range(times)]

    measuring = replace(exercise(probe), measures=True)
    here, there = (observe(measuring, adding, CASE, device)["spent"] for device in (CPU, SIMULATED))
    assert [spent[0] for spent in here] == [2, 5]
    assert there == [(0, 0, 0)] * 2


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


def test_mixing_devices_is_refused_on_the_second_one_and_recognised() -> None:
    here, there = (seen(lambda x: x + torch.ones(2), device) for device in (CPU, SIMULATED))
    assert "result" in here
    assert there["raised"].reason == "device mismatch"


def test_a_seed_for_the_answer_leaves_an_unused_gpu_alone() -> None:
    calls = list(torch.cuda._queued_calls)
    with pristine():
        pass
    assert len(torch.cuda._queued_calls) == len(calls)


FIRST = """
import sys
import torchcourse
from torchcourse.checking.check import report_on

report = report_on("row_softmax", {"row_softmax": lambda x: (x - x.logsumexp(-1, keepdim=True)).exp()})
assert report.status == "passed", report
for name in ("torch._dynamo", "torch._inductor", "matplotlib", "IPython"):
    assert name not in sys.modules, name
"""


def test_the_first_check_imports_none_of_the_slow_modules() -> None:
    done = alone(FIRST, TORCHCOURSE_SIMULATED="")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_default_device_and_inference_mode_of_before_change_nothing_in_an_answer() -> None:
    torch.set_default_device("meta")
    try:
        with torch.inference_mode():
            found = seen(lambda x: (2 * x.requires_grad_()).detach())
    finally:
        torch.set_default_device(None)
    assert torch.equal(found["result"], 2 * X)


def test_what_a_probe_cannot_use_is_described_without_the_insides_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchcourse.checking.probe.is_own", lambda _file: False)  # this file is none of the course

    def stopped_by(message: str) -> str:
        def probe(answer: Watched, x: Tensor) -> dict[str, Any]:
            answer(x)
            raise RuntimeError(message)

        return str(observe(exercise(probe), lambda x: 3.5, CASE)["returned"])

    stop = "a value of type float; the check could not go on with it"
    assert stopped_by('"schema_.has_value() INTERNAL ASSERT FAILED at "registry.h":66') == stop
    assert stopped_by("generator raised StopIteration") == stop
    assert stopped_by("a float has no length") == f"{stop}: a float has no length"


def test_objects_that_a_probe_cannot_use_are_described_alike_whatever_their_class_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torchcourse.checking.probe.is_own", lambda _file: False)

    def probe(answer: Watched) -> dict[str, Any]:
        return {"result": len(answer())}

    empty = case("no input")
    described = [observe(exercise(probe), type(name, (), {}), empty) for name in ("Scaler", "Unbegun")]
    assert described[0] == described[1]
    words = "a value of type double; the check could not go on with it: object of type 'double' has no len()"
    assert described[0]["returned"] == words
