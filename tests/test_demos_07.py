"""The demos of lesson 07: bits and shares against what torch itself says, and their drawing without a display."""

from __future__ import annotations

import math

import pytest
import torch

from torchcourse.demos import bits, casts, ranges


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


def test_neighbours_are_the_nearest_numbers() -> None:
    reading = bits.read(1.0, "bfloat16")
    assert (reading.below, reading.above) == (1 - 2.0**-8, 1 + 2.0**-7)
    assert "exact" in bits.comparison(reading)


def test_what_leaves_the_range_is_said() -> None:
    assert "outside" in bits.comparison(bits.read(70000.0, "float16"))
    assert "underflows" in bits.comparison(bits.read(1e-9, "float16"))
    assert "subnormal" in bits.meaning(bits.read(6e-8, "float16"))
    assert "zero" in bits.meaning(bits.read(0.0, "float32"))


@pytest.mark.parametrize("name", bits.FORMATS)
@pytest.mark.parametrize("number", ["0.1", "-1e30", "inf", "nan", "nonsense", ""])
def test_anything_that_is_typed_can_be_drawn(name: str, number: str) -> None:
    picture = bits.draw(number, name)
    assert picture.png.startswith(b"\x89PNG")
    assert picture.alt


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


def test_the_explorers_redraw_when_a_control_moves() -> None:
    first, second = bits.explorer(), ranges.explorer()
    before = first.picture.alt, second.picture.alt
    first.set("format", "bfloat16")
    second.set("scale", 12)
    assert (first.picture.alt, second.picture.alt) != before
    assert second.picture.png.startswith(b"\x89PNG")


def test_the_table_of_casts_is_what_the_operations_give() -> None:
    cpu = torch.device("cpu")
    assert casts.given(cpu)["linear"] == torch.float16
    lines = casts.table([cpu]).splitlines()
    assert lines[0].split() == ["cpu"]
    assert [line.split() for line in lines[1:]] == [
        [name, str(dtype).removeprefix("torch.")] for name, dtype in casts.given(cpu).items()
    ]


def test_half_the_bytes_are_kept_under_autocast_where_the_batch_is_large() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 16))
    small, large = (
        [casts.kept(layers, torch.ones(rows, 16), dtype) for dtype in (torch.float32, torch.bfloat16)]
        for rows in (1, 2048)
    )
    assert large[0] == 3 * 2048 * 16 * 4
    assert large[1] == pytest.approx(0.5 * large[0], rel=0.01)
    assert small[1] > small[0]
