"""Pictures of lesson 13: a step's profile before and after a change, quantization errors, memory of attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from torchcourse.demos import style
from torchcourse.demos.style import Picture

__all__ = ["attention_bytes", "before_and_after", "memory_by_length", "quantization_error", "self_times"]

Measure = Callable[[Callable[[], object]], int]
"""A function that returns how many bytes a call holds at once."""


def self_times(call: Callable[[], object], repeats: int = 3) -> dict[str, float]:
    """Return milliseconds that a call spends in each operator itself, most first; a warm-up call is not counted."""
    call()
    with profile(activities=[ProfilerActivity.CPU]) as run:
        for _ in range(repeats):
            call()
    own = {row.key: row.self_cpu_time_total / 1000 / repeats for row in run.key_averages()}
    times = {name: spent for name, spent in own.items() if name[:6] == "aten::"}
    return dict(sorted(times.items(), key=lambda pair: -pair[1]))


def before_and_after(before: Callable[[], object], after: Callable[[], object], most: int = 5) -> Picture:
    """Draw the self times of the operators of two calls, one bar for each call."""
    profiles = {"before": self_times(before), "after": self_times(after)}
    figure, axes = style.chart(6.4, 2.0, (0.11, 0.28, 0.66, 0.6), xlabel="milliseconds a call, by operator (self time)")
    named = [name for times in profiles.values() for name in list(times)[:most]]
    colours = dict(zip(dict.fromkeys(named), style.CYCLE * 2, strict=False))
    for place, times in enumerate(profiles.values()):
        left = 0.0
        for name, width in times.items():
            axes.barh(-place, width, left=left, color=colours.get(name, style.FAINT), height=0.7)
            left += width
    for name, colour in colours.items():
        axes.barh(0, 0, color=colour, label=name.removeprefix("aten::"))
    axes.set_yticks([0, -1], list(profiles))
    style.legend(axes)
    told = "; ".join(f"{which}: {_most(times)}" for which, times in profiles.items())
    return style.finish(figure, f"Where a call spends its time. {told}.")


def _most(times: Mapping[str, float]) -> str:
    name, spent = next(iter(times.items()))
    return f"{sum(times.values()):.1f} ms, most of it in {name} ({spent:.1f} ms)"


def quantization_error(w: Tensor, bits: Sequence[int] = (2, 3, 4, 5, 6, 7, 8)) -> Picture:
    """Draw the relative error of a matrix quantized to some numbers of bits, with one scale and with one a row."""
    figure, axes = style.chart(5.4, 2.6, (0.13, 0.19, 0.83, 0.72), xlabel="bits", ylabel="relative error")
    said = []
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "one scale for all": lambda t: t.abs().max(),
        "one scale a row": lambda t: t.abs().amax(1, keepdim=True),
    }
    for (name, largest), colour in zip(ways.items(), style.CYCLE, strict=False):
        errors = [_error(w, largest(w), count) for count in bits]
        axes.semilogy(list(bits), errors, "o-", color=colour, label=name)
        said.append(f"{name}: {errors[0]:.0%} with {bits[0]} bits, {errors[-1]:.2%} with {bits[-1]}")
    style.legend(axes, beside=False)
    return style.finish(figure, "Error of a quantized matrix. " + "; ".join(said) + ".")


def _error(w: Tensor, largest: Tensor, bits: int) -> float:
    scale = largest / (2 ** (bits - 1) - 1)
    return float(((w / scale).round() * scale - w).norm() / w.norm())


def attention_bytes(attention: Callable[..., Tensor], length: int, measure: Measure, width: int = 16) -> int:
    """Return the bytes that `measure` finds for `attention(q, k, v)` on sequences of this length."""
    q = k = v = torch.linspace(-1, 1, length * width).view(1, length, width)
    with torch.no_grad():
        return measure(lambda: attention(q, k, v))


def memory_by_length(
    ways: Mapping[str, Any], measure: Measure, lengths: Sequence[int] = (128, 256, 512, 1024, 2048)
) -> Picture:
    """Draw the memory of some ways to compute attention against the length of the sequence."""
    figure, axes = style.chart(6.4, 2.6, (0.11, 0.19, 0.56, 0.72), xlabel="length of the sequence", ylabel="MB at once")
    said = []
    for (name, attention), colour in zip(ways.items(), style.CYCLE, strict=False):
        sizes = [attention_bytes(attention, length, measure) / 1e6 for length in lengths]
        axes.loglog(list(lengths), sizes, "o-", color=colour, label=name, base=2)
        said.append(f"{name}: {sizes[0]:.2f} MB at {lengths[0]}, {sizes[-1]:.2f} MB at {lengths[-1]}")
    style.legend(axes)
    return style.finish(figure, "Memory of attention. " + "; ".join(said) + ".")
