"""The pictures and instruments of lesson 06: the numbers behind them, and that they can be drawn without a screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from torchcourse import simulated
from torchcourse.demos import devices, matmul, memory_line
from torchcourse.demos.allocator import CachingAllocator


@pytest.fixture
def device() -> torch.device:
    if torch.cuda.is_available():
        pytest.skip("this process uses CUDA")
    return simulated.register()


def test_an_allocator_keeps_what_comes_back() -> None:
    cache = CachingAllocator(100)
    for name in "abcde":
        cache.take(name, 10)
    assert (cache.allocated, cache.reserved) == (50, 60)
    cache.give_back("a")
    cache.give_back("b")
    assert (cache.allocated, cache.reserved) == (30, 60)
    cache.take("f", 20)
    assert (cache.allocated, cache.reserved) == (50, 60)
    cache.give_back("e")
    cache.empty_cache()
    assert (cache.allocated, cache.reserved) == (40, 40)
    assert "40 MiB allocated, 40 reserved" in cache.picture().alt


def test_an_allocator_fails_where_memory_lies_in_pieces() -> None:
    cache = CachingAllocator(100)
    for name in "abcde":
        cache.take(name, 10)
    cache.give_back("b")
    cache.give_back("d")
    with pytest.raises(MemoryError, match="60 reserved, 30 of them free"):
        cache.take("f", 45)
    cache.take("f", 40)
    assert cache.reserved == 100


def test_an_allocator_empties_its_cache_before_it_gives_up() -> None:
    cache = CachingAllocator(100)
    cache.take("a", 60)
    cache.give_back("a")
    cache.take("b", 90)
    assert cache.reserved == 90


def test_a_step_holds_most_where_forward_ends(device: torch.device) -> None:
    moments = memory_line.record(device, blocks=3, batch=64, width=8)
    held = [moment.held for moment in moments]
    assert moments[held.index(max(held))].phase in ("forward", "backward")
    assert held[0] == held[-1]
    less = memory_line.record(device, blocks=3, batch=64, width=8, how=memory_line.CHOICES[1])
    assert max(moment.held for moment in less) < max(held)
    assert "at the peak" in memory_line.draw(moments, "a test").alt


def test_the_timeline_follows_its_controls(device: torch.device) -> None:
    live = memory_line.explorer()
    before = live.picture.alt
    live.set("memory", memory_line.CHOICES[1])
    assert live.picture.alt != before


def test_speeds_are_positive_and_drawn() -> None:
    found = matmul.speeds(sizes=(8, 16), device=torch.device("cpu"))
    assert list(found) == [8, 16]
    assert min(found.values()) > 0
    assert matmul.flops(10) == 2000
    assert "at size 8" in matmul.draw(found, "a test").alt


def test_both_ways_of_recording_see_the_same_events(device: torch.device) -> None:
    with devices._seen(device) as one, devices.events(device) as other:
        x = torch.ones(3).to(device, non_blocking=True)
        (x * 2).sum().item()
        x.cpu()
        torch.zeros(3).copy_(x, non_blocking=True)
    assert one == other
    assert one[0] == "copy_to_device"


def test_what_was_recorded_says_where_it_comes_from(tmp_path: Path) -> None:
    assert "No GPU figures" in devices.recorded("matmul", tmp_path / "none.json")
    path = tmp_path / "figures.json"
    kept = {"machine": "a machine", "date": "a day", "command": "a command", "figures": {"matmul": {"size 8": "fast"}}}
    path.write_text(json.dumps(kept))
    assert devices.recorded("matmul", path) == "recorded on a machine, a day, by: a command\n  size 8: fast"
