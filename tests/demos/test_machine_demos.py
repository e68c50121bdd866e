"""Demos of lessons 06 to 08: memory, speed, number formats and compiling, against what torch itself says."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from torchcourse import simulated
from torchcourse.demos import bits, calls, casts, devices, matmul, memory_line, ranges
from torchcourse.demos.allocator import CachingAllocator


@pytest.fixture
def device() -> torch.device:
    if torch.cuda.is_available():
        pytest.skip("this process uses CUDA")
    return simulated.register()


@pytest.fixture
def cache() -> CachingAllocator:
    """100 MiB, of which five tensors take half."""
    made = CachingAllocator(100)
    for name in "abcde":
        made.take(name, 10)
    return made


def test_an_allocator_keeps_what_comes_back(cache: CachingAllocator) -> None:
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


def test_an_allocator_fails_where_memory_lies_in_pieces_but_empties_its_cache_first(cache: CachingAllocator) -> None:
    cache.give_back("b")
    cache.give_back("d")
    with pytest.raises(MemoryError, match="60 reserved, 30 of them free"):
        cache.take("f", 45)
    cache.take("f", 40)
    assert cache.reserved == 100
    for name in "acef":
        cache.give_back(name)
    cache.take("g", 90)
    assert cache.reserved == 90


def test_a_step_holds_most_where_forward_ends(device: torch.device) -> None:
    moments = memory_line.record(device, blocks=3, batch=64, width=8)
    held = [moment.held for moment in moments]
    assert moments[held.index(max(held))].phase in ("forward", "backward")
    assert held[0] == held[-1]
    less = memory_line.record(device, blocks=3, batch=64, width=8, how=memory_line.CHOICES[1])
    assert max(moment.held for moment in less) < max(held)
    assert "at the peak" in memory_line.draw(moments, "a test").alt


def test_speeds_are_positive_and_drawn() -> None:
    found = matmul.speeds(sizes=(8, 16), device=torch.device("cpu"))
    assert list(found) == [8, 16]
    assert len(calls.each_call(torch.sin, [torch.ones(1)] * 3)) == 3
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


def test_what_was_recorded_says_where_it_comes_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    devices.print_recorded("matmul", tmp_path / "none.json")
    assert capsys.readouterr().out == ""  # learners read nothing about figures that do not exist
    path = tmp_path / "figures.json"
    kept = {"machine": "a machine", "date": "a day", "command": "a command", "figures": {"matmul": {"size 8": "fast"}}}
    path.write_text(json.dumps(kept))
    assert devices.recorded("matmul", path) == "recorded on a machine, a day, by: a command\n  size 8: fast"
    devices.print_recorded("matmul", path)
    assert "size 8: fast" in capsys.readouterr().out


@pytest.mark.parametrize("name", bits.FORMATS)
@pytest.mark.parametrize("number", [0.1, -3.7, 1.0, 6e-8, -0.0, 0.0, 448.0, 2.0**-9])
def test_the_bits_stand_for_the_number_that_torch_stores(name: str, number: float) -> None:
    form, reading = bits.FORMATS[name], bits.read(number, name)
    assert reading.value == torch.tensor(number).to(form.dtype).float().item()
    exponent, mantissa = (int(reading.parts[field], 2) for field in ("exponent", "mantissa"))
    leading, power = (0, 1 - form.bias) if exponent == 0 else (1, exponent - form.bias)
    size = (leading + mantissa / 2**form.mantissa) * 2.0**power
    assert size == abs(reading.value)
    assert len(reading.bits) == 1 + form.exponent + form.mantissa
    assert (reading.parts["sign"] == "1") == (math.copysign(1, number) < 0)


def test_neighbours_and_what_leaves_the_range_are_said() -> None:
    reading = bits.read(1.0, "bfloat16")
    assert (reading.below, reading.above) == (1 - 2.0**-8, 1 + 2.0**-7)
    assert "exact" in bits.comparison(reading)
    assert "outside" in bits.comparison(bits.read(70000.0, "float16"))
    assert bits.comparison(bits.read(math.inf, "float16")) == "stored as what it is"
    assert bits.comparison(bits.read(math.nan, "float16")) == "stored as what it is"
    assert bits.comparison(bits.read(math.inf, "float8 e4m3")) == "outside of the range"  # it has no infinity
    assert "underflows" in bits.comparison(bits.read(1e-9, "float16"))
    assert "subnormal" in bits.meaning(bits.read(6e-8, "float16"))
    assert "zero" in bits.meaning(bits.read(0.0, "float32"))


@pytest.mark.parametrize("name", bits.FORMATS)
@pytest.mark.parametrize("number", ["0.1", "-1e30", "inf", "nan", "nonsense", ""])
def test_anything_that_is_typed_can_be_drawn(name: str, number: str) -> None:
    assert bits.draw(number, name).alt


@pytest.mark.parametrize("name", ranges.DTYPES)
@pytest.mark.parametrize("scale", [0, 12, 40])
def test_the_shares_are_those_that_a_cast_gives(name: str, scale: int) -> None:
    found, g = ranges.shares(name, scale), ranges.gradients()
    cast = (g[g != 0] * 2.0**scale).to(ranges.DTYPES[name])
    assert found["vanish"] == pytest.approx((cast == 0).float().mean().item(), abs=2e-3)
    assert found["overflow"] == pytest.approx(cast.isinf().float().mean().item(), abs=2e-3)
    assert sum(found.values()) == pytest.approx(1)


def test_scaling_helps_until_it_overflows() -> None:
    assert ranges.shares("float16", 0)["vanish"] > 0.2
    assert ranges.shares("float16", 12)["vanish"] < ranges.shares("float16", 0)["vanish"]
    assert ranges.shares("float16", 48)["overflow"] > 0.5
    assert ranges.shares("bfloat16", 0)["vanish"] == 0


def test_the_table_of_casts_is_what_the_operations_give() -> None:
    cpu = torch.device("cpu")
    assert casts.result_dtypes(cpu)["linear"] == torch.float16
    lines = casts.table([cpu]).splitlines()
    assert lines[0].split() == ["cpu"]
    assert [line.split() for line in lines[1:]] == [
        [name, str(dtype).removeprefix("torch.")] for name, dtype in casts.result_dtypes(cpu).items()
    ]


def test_half_the_bytes_are_kept_under_autocast_where_the_batch_is_large() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 16))
    small, large = (
        [casts.saved_bytes(layers, torch.ones(rows, 16), dtype) for dtype in (torch.float32, torch.bfloat16)]
        for rows in (1, 2048)
    )
    assert large[0] == 3 * 2048 * 16 * 4
    assert large[1] == pytest.approx(0.5 * large[0], rel=0.01)
    assert small[1] > small[0]


def test_each_new_size_compiles_in_the_model() -> None:
    series = calls.modelled(calls=5, compiling=20, gain=2, sizes=2)
    assert series == {"eager": [1.0] * 5, "compiled": [20.5, 20.5, 0.5, 0.5, 0.5]}
    assert calls.relative({"eager": [1.0, 2.0, 3.0], "compiled": [4.0]})["compiled"] == [2.0]
    assert "compiled: first 20.5, then 0.5" in calls.draw(series).alt


def test_the_explorer_says_when_compiling_has_paid() -> None:
    one = calls.explorer()
    assert "has paid from call 40 on" in one.picture.alt
    one.set("sizes", 8)
    assert "has not paid after 50 calls" in one.picture.alt


def test_without_a_compiler_graphs_are_still_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no C++ compiler\nand more")

    monkeypatch.setattr(torch._TorchCompileInductorWrapper, "__call__", fails)
    backend, reason = calls.usable_backend(lambda x: x.sin(), torch.zeros(2))
    assert backend == "aot_eager"
    assert "BackendCompilerFailed" in reason
    assert torch.compile(lambda x: x.sin(), backend=backend)(torch.zeros(2)).tolist() == [0.0, 0.0]
