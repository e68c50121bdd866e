"""The device stands in for the machine's accelerator only inside the block made for that."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.accelerator import is_available as imported_earlier

from torchcourse.simulated import NAME, as_accelerator, counters, values

CALLS: dict[str, Callable[[], Any]] = {
    "current": torch.accelerator.current_accelerator,
    "checked": lambda: torch.accelerator.current_accelerator(check_available=True),
    "available": torch.accelerator.is_available,
    "count": torch.accelerator.device_count,
    "allocated": torch.accelerator.memory_allocated,
    "peak": torch.accelerator.max_memory_allocated,
    "reserved": torch.accelerator.memory_reserved,
    "stats": torch.accelerator.memory_stats,
    "empty": torch.accelerator.empty_cache,
    "module": lambda: torch.get_device_module(NAME).is_available(),
    "cuda": torch.cuda.is_available,
}

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")


def answers() -> dict[str, Any]:
    return {name: call() for name, call in CALLS.items()}


@without_gpu
def test_it_is_never_the_accelerator_by_itself(device: torch.device) -> None:
    torch.ones(2, device=device)
    found = answers()
    assert found.pop("current") != torch.device(NAME)
    assert {name: bool(answer) for name, answer in found.items()} == dict.fromkeys(found, False)


def test_inside_the_block_it_is(device: torch.device) -> None:
    with as_accelerator() as found:
        assert found == device
        for check in (True, False):
            assert torch.accelerator.current_accelerator(check_available=check) == torch.device(NAME)
        assert torch.accelerator.is_available() and imported_earlier()
        assert torch.accelerator.device_count() == 1
        assert torch.accelerator.current_device_index() == 0
        assert torch.get_device_module(NAME).is_available()
        torch.accelerator.set_device_index(0)
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.accelerator.set_device_index(1)
        with torch.accelerator.device_index(0), torch.Stream(device=device):
            assert torch.ones(2, device=torch.accelerator.current_accelerator()).device == device
        torch.Event(device=device).record()
        assert torch.accelerator.current_stream().device == device


def test_synchronising_is_counted_by_every_name(device: torch.device) -> None:
    module = torch.get_device_module(device)
    with as_accelerator():
        torch.accelerator.synchronize()
        torch.accelerator.synchronize(device)
        torch.accelerator.synchronize(0)
        module.synchronize()
    module.synchronize()
    assert counters().synchronizations == 5


def test_memory_is_told_in_bytes(device: torch.device) -> None:
    gc.collect()
    with as_accelerator():
        torch.accelerator.reset_peak_memory_stats()
        before = torch.accelerator.memory_allocated()
        x = torch.zeros(1000, device=device)
        x + 1
        torch.accelerator.empty_cache()
        assert torch.accelerator.memory_allocated() - before == 4000
        assert torch.accelerator.max_memory_allocated() - before == 8000
        assert torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
        assert torch.accelerator.memory_stats()["allocated_bytes.all.peak"] - before == 8000
        free, total = torch.accelerator.get_memory_info()
        module = torch.get_device_module(device)
        assert total - free == torch.accelerator.memory_allocated() == module.memory_allocated()


def test_everything_is_restored_after_errors_and_nesting() -> None:
    before = answers()
    functions = {name: getattr(torch._C, name) for name in dir(torch._C) if name.startswith("_accelerator_")}
    with pytest.raises(ValueError, match="stop"), as_accelerator(), as_accelerator():
        raise ValueError("stop")
    assert answers() == before
    assert functions == {name: getattr(torch._C, name) for name in functions}
    assert torch.Generator is torch._C.Generator


def test_generators_can_be_made_for_it_inside_the_block(device: torch.device) -> None:
    with as_accelerator():
        generator = torch.Generator(device=device).manual_seed(5)
        assert isinstance(generator, torch.Generator)
        assert (generator.device, torch.Generator().device) == (device, torch.device("cpu"))
        assert isinstance(torch.Generator(), torch.Generator)
        drawn = torch.randn(4, device=device, generator=generator)
    assert values(drawn).equal(torch.randn(4, generator=torch.Generator().manual_seed(5)))


@without_gpu
def test_pinning_behaves_as_without_a_gpu_outside_the_block(device: torch.device) -> None:
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="pin"):
        x.pin_memory()
    assert not x.is_pinned()
    with as_accelerator():
        assert x.pin_memory().to(device, non_blocking=True).tolist() == [1, 1]
        loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=2, pin_memory=True)
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    with pytest.warns(UserWarning, match="no accelerator is found"):
        list(torch.utils.data.DataLoader(torch.arange(4), pin_memory=True))


def test_seeds_reach_the_device(device: torch.device) -> None:
    torch.manual_seed(7)
    want = torch.randn(3)
    for seed in (torch.manual_seed, torch.get_device_module(device).manual_seed):
        seed(7)
        assert values(torch.randn(3, device=device)).equal(want)
    state = torch.get_device_module(device).get_rng_state()
    first = torch.rand(3, device=device)
    torch.get_device_module(device).set_rng_state(state)
    assert values(torch.rand(3, device=device)).equal(values(first))
    with torch.random.fork_rng():
        torch.rand(3, device=device)
