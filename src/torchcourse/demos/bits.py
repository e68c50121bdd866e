"""The bit explorer: a number as each format stores it, bit by bit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

WIDTH, MARGIN, HEIGHT = 6.6, 0.15, 2.35  # inches
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
COLOURS = {"sign": style.VERMILION, "exponent": style.BLUE, "mantissa": style.GREEN}


@dataclass(frozen=True)
class Format:
    """A format and the number of its exponent and mantissa bits."""

    dtype: torch.dtype
    exponent: int
    mantissa: int

    @property
    def bias(self) -> int:
        return int(2 ** (self.exponent - 1) - 1)


FORMATS = {
    "float16": Format(torch.float16, 5, 10),
    "bfloat16": Format(torch.bfloat16, 8, 7),
    "float32": Format(torch.float32, 8, 23),
    "float8 e4m3": Format(torch.float8_e4m3fn, 4, 3),
    "float8 e5m2": Format(torch.float8_e5m2, 5, 2),
}


@dataclass(frozen=True)
class Reading:
    """A number in a format: its bits as text, the value they stand for, and its neighbours if it has any."""

    asked: float
    format: str
    bits: str
    value: float
    below: float | None
    above: float | None

    @property
    def parts(self) -> dict[str, str]:
        """The bits by field."""
        end = 1 + FORMATS[self.format].exponent
        return {"sign": self.bits[0], "exponent": self.bits[1:end], "mantissa": self.bits[end:]}


def _value_of(pattern: int, form: Format) -> float:
    size = torch.finfo(form.dtype).bits // 8
    signed = pattern - 2 ** (8 * size) if size > 1 and pattern >= 2 ** (8 * size - 1) else pattern
    return float(torch.tensor([signed], dtype=INTEGERS[size]).view(form.dtype).float().item())


def read(number: float, name: str) -> Reading:
    """Return how the format of this name stores a number."""
    form = FORMATS[name]
    stored: Tensor = torch.tensor([number], dtype=torch.float64).to(torch.float32).to(form.dtype)
    size = torch.finfo(form.dtype).bits
    pattern = int(stored.view(INTEGERS[size // 8]).item()) % 2**size
    value = _value_of(pattern, form)
    usual = math.isfinite(value) and value != 0
    below, above = (_value_of(pattern + step, form) if usual else None for step in (-1, 1))
    return Reading(number, name, f"{pattern:0{size}b}", value, below, above)


def meaning(reading: Reading) -> str:
    """Return what the fields stand for, as an equation."""
    form, parts = FORMATS[reading.format], reading.parts
    exponent, mantissa = int(parts["exponent"], 2), int(parts["mantissa"], 2)
    sign = "-" if parts["sign"] == "1" else ""
    if not math.isfinite(reading.value):
        return f"exponent {exponent}, the highest: {sign if math.isinf(reading.value) else ''}{abs(reading.value)}"
    if exponent == 0:
        what = "zero" if mantissa == 0 else "subnormal"
        return f"exponent 0, so no leading 1 ({what}): {sign}{mantissa}/{2**form.mantissa} · 2**{1 - form.bias}"
    return f"{sign}(1 + {mantissa}/{2**form.mantissa}) · 2**({exponent} - {form.bias})"


def comparison(reading: Reading) -> str:
    """Describe how far the stored number is from the one asked for, and its neighbours."""
    if not (math.isfinite(reading.value) and math.isfinite(reading.asked)):
        same = reading.value == reading.asked or (math.isnan(reading.value) and math.isnan(reading.asked))
        return "stored as what it is" if same else "outside of the range"
    if reading.asked and not reading.value:
        return "rounded to zero: it underflows"
    off = reading.value - reading.asked
    exact = "exact" if off == 0 else f"off by {off:.3g}"
    return exact if reading.below is None else f"{exact}; neighbours {reading.below:.9g} and {reading.above:.9g}"


def in_words(reading: Reading) -> str:
    """Describe the picture."""
    fields = ", ".join(f"{name} {bits}" for name, bits in reading.parts.items())
    return (
        f"{reading.asked!r} in {reading.format} is {reading.value:.12g}: {fields}. {meaning(reading)}; "
        f"{comparison(reading)}."
    )


def draw(number: str, format: str) -> Picture:
    """Draw the bits of the number that was typed in, coloured by field."""
    try:
        reading = read(float(number), format)
    except ValueError:
        return _sorry(number)
    figure, axes = style.canvas(WIDTH, HEIGHT)
    title = f"{number.strip()} in {format} is {reading.value:.12g}"
    style.say(axes, MARGIN, HEIGHT - 0.22, title, size=11, bold=True)
    side = min(0.36, (WIDTH - 2 * MARGIN) / len(reading.bits))
    x, y = MARGIN, HEIGHT - 1.0
    for name, bits in reading.parts.items():
        middle = x + side * len(bits) / 2
        style.say(axes, max(middle, MARGIN + 0.16), y + side + 0.16, name, size=8, colour=COLOURS[name],
                  align="center")  # fmt: skip
        style.say(axes, middle, y - 0.16, str(int(bits, 2)), size=8.5, colour=COLOURS[name], align="center", mono=True)
        for bit in bits:
            fill = COLOURS[name] if bit == "1" else style.PAPER
            style.cell(axes, x, y, side, side, bit, fill=fill, edge=COLOURS[name], size=9 if side > 0.25 else 7)
            x += side
    style.say(axes, MARGIN, 0.5, meaning(reading), mono=True, size=8.5)
    style.say(axes, MARGIN, 0.22, comparison(reading), colour=style.GREY)
    return style.finish(figure, in_words(reading))


def _sorry(number: str) -> Picture:
    figure, axes = style.canvas(WIDTH, 0.5)
    text = f"{number!r} is no number; try 0.1, -3e-8, 65520 or inf."
    style.say(axes, MARGIN, 0.25, text, colour=style.VERMILION)
    return style.finish(figure, text)


def explorer() -> Live:
    """Return the explorer without showing it."""
    return Live(draw, number="0.1", format=tuple(FORMATS))


def explore() -> None:
    """Type a number, choose a format, and see its bits."""
    explorer().show()
