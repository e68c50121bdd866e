"""What the probes of lessons 06 and 08 rely on: made-up clocks, pretended machines, bytes that are kept."""

from __future__ import annotations

import functools
import logging
import time
import timeit
from collections.abc import Callable
from time import perf_counter

import pytest
import torch
from torch import nn
from torch.utils.benchmark import Timer
from torch.utils.checkpoint import checkpoint

from torchcourse import simulated
from torchcourse.probes.fake_clock import LAUNCH, SETBACK, World
from torchcourse.probes.fake_machines import MACHINES, pretending
from torchcourse.probes.memory import kept_bytes


def by_module() -> float:
    return time.perf_counter()


def by_name() -> float:
    return perf_counter()


def by_import() -> float:
    from time import monotonic_ns

    return monotonic_ns() / 1e9


def by_timeit() -> float:
    return timeit.default_timer()


def by_default(*, clock=perf_counter) -> float:  # type: ignore[no-untyped-def]
    return float(clock())


def on_the_wall() -> float:
    return time.time()


def of_the_processor() -> float:
    return time.process_time()


READERS = (by_module, by_name, by_import, by_timeit, by_default, functools.partial(by_name), on_the_wall)


@pytest.mark.parametrize(
    ("read", "setback", "passed"),
    [*((read, 0.0, 6.0) for read in READERS), (on_the_wall, SETBACK, 6.0 - SETBACK), (of_the_processor, 0.0, 12.0)],
)
def test_clocks_are_replaced_however_they_are_spelled(read: Callable[[], float], setback: float, passed: float) -> None:
    """The clock on the wall may go back, and the time of the processor is no time that passes."""
    world, real = World(torch.device("cpu"), setback=setback), read()
    with world.replace_clocks(read):
        start = read()
        world.launch(5.0, host=1.0)
        assert read() - start == pytest.approx(passed)
    assert abs(read() - real) < 60


def test_whoever_is_not_the_answer_goes_on_living_in_real_time() -> None:
    real, read = time, time.monotonic
    with World(torch.device("cpu")).replace_clocks(by_module):
        assert time is not real
        assert logging.time is real  # type: ignore[attr-defined]
        assert vars(real)["monotonic"] is read
    assert time is real


def test_stopwatches_of_the_libraries_live_in_the_same_time() -> None:
    def measure() -> tuple[float, float]:
        run = world.program("f", [5.0], compiling=3.0)
        return timeit.Timer(run).timeit(1), timeit.repeat(run, number=2, repeat=1)[0]

    def with_torchs_own() -> float:
        run = world.program("f", [5.0])
        return float(Timer("run()", globals={"run": run}).timeit(1).mean)

    world = World(torch.device("cpu"))
    with world.replace_clocks(measure):
        assert measure() == pytest.approx((8.0, 10.0))
        assert with_torchs_own() == pytest.approx(5.0)
    assert world.calls[:3] == ["f"] * 3
    assert timeit.Timer.__init__.__defaults__[2] is perf_counter  # type: ignore[index]
    assert timeit.default_timer is perf_counter


def test_a_device_works_until_somebody_waits() -> None:
    if torch.cuda.is_available():
        pytest.skip("this process uses CUDA")
    device = simulated.register()
    world = World(device)
    with world.replace_clocks(by_name):
        start = by_name()
        world.launch(5.0, host=1.0)
        assert by_name() - start == pytest.approx(1.0)
        torch.accelerator.synchronize()
        assert by_name() - start == pytest.approx(6.0)
        world.launch(2.0, host=0.0)
        torch.get_device_module(device).synchronize()
        assert by_name() - start == pytest.approx(8.0)
        world.program("f", [5.0], host=LAUNCH)()
        assert by_name() - start == pytest.approx(8.0)


def test_on_the_cpu_alone_there_is_nothing_to_synchronize() -> None:
    before = torch.accelerator.current_accelerator()
    with World(torch.device("cpu")).replace_clocks(by_name):
        assert not torch.accelerator.is_available()
        with pytest.raises(RuntimeError, match="no accelerator"):
            torch.accelerator.synchronize()
    assert torch.accelerator.current_accelerator() == before


@pytest.mark.parametrize("name", MACHINES)
def test_a_pretended_machine_answers_alike_wherever_it_is_asked(name: str) -> None:
    machine, before = MACHINES[name], torch.accelerator.current_accelerator()
    with pretending(machine):
        assert torch.accelerator.is_available() == (machine.count > 0)
        assert torch.cuda.is_available() == (machine.kind == "cuda")
        assert torch.backends.mps.is_available() == torch.mps.is_available() == (machine.kind == "mps")
        if machine.count:
            found = torch.accelerator.current_accelerator(check_available=True)
            assert found is not None
            assert torch.empty(0, device=f"{found.type}:0").device == torch.device(found.type, 0)
            assert torch.zeros(2).to(found).device.type == found.type
            assert torch.get_device_module(found).device_count() == machine.count
        with pytest.raises(RuntimeError, match="no such device"):
            torch.empty(0, device="cuda:5")
    assert torch.accelerator.current_accelerator() == before


def test_kept_bytes_are_those_of_the_result_and_of_what_backward_needs() -> None:
    x = torch.ones(100, requires_grad=True)
    result, held = kept_bytes(lambda: x.exp().exp().sum(), exclude=[x])
    assert held == 2 * 400 + 4
    del result
    assert kept_bytes(lambda: x.view(10, 10).sum(), exclude=[x])[1] == 4
    block = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 4))
    batch = torch.ones(8, 4)
    plain = kept_bytes(lambda: block(batch), exclude=[batch, *block.parameters()])[1]
    twice = kept_bytes(lambda: checkpoint(block, batch, use_reentrant=False), exclude=[batch, *block.parameters()])[1]
    assert (plain, twice) == (8 * 64 * 4 + 8 * 4 * 4, 8 * 4 * 4)
