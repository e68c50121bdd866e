"""The cost of compiling and when it pays: time per call over call number, measured or from a model."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from statistics import median
from typing import Any

import torch

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

COMPILED, EAGER = "compiled", "eager"
MAX_MARKS = 60
"""The largest number of calls that get a mark each; more would be a thick line, drawn slowly."""


@contextmanager
def silent() -> Iterator[None]:
    """Turn logging off in this block: compilers log what a machine lacks."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def usable_backend(fn: Callable[..., Any], *example: Any) -> tuple[str, str]:
    """Return the best backend that can compile `fn` on this machine, and why it is not inductor ("" if it is).

    Inductor needs a C++ compiler for the CPU, or a GPU that it has code for.
    """
    with silent():
        try:
            torch.compile(fn, backend="inductor")(*example)
        except Exception as error:
            return "aot_eager", f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        finally:
            torch.compiler.reset()
    return "inductor", ""


def written_by_inductor(fn: Callable[..., Any], *example: Any) -> str:
    """Return the C++ loops that Inductor writes for `fn`, without casts of constants, namespaces and error flags."""
    from torch._inductor.utils import run_and_get_code

    torch.compiler.reset()
    with silent():
        _, sources = run_and_get_code(torch.compile(fn, backend="inductor"), *example)
    start = sources[0].find('extern "C"')
    lines = sources[0][start : sources[0].find("\n}", start) + 2].splitlines()
    code = "\n".join(line for line in lines if "integer_div_error" not in line)
    return re.sub(r"static_cast<int64_t>\((\w+?)L?\)", r"\1", code).replace("at::vec::", "")


def each_call(fn: Callable[..., Any], inputs: Sequence[Any]) -> list[float]:
    """Return the seconds that each call took, in order."""
    seconds = []
    for one in inputs:
        start = time.perf_counter()
        fn(one)
        seconds.append(time.perf_counter() - start)
    return seconds


def relative(seconds: Mapping[str, Sequence[float]], to: str = EAGER) -> dict[str, list[float]]:
    """Return the times in multiples of the median of one of the series."""
    unit = median(seconds[to])
    return {name: [s / unit for s in each] for name, each in seconds.items()}


def draw(series: Mapping[str, Sequence[float]], title: str = "time per call, in medians of eager") -> Picture:
    """Draw time per call over call number, on a logarithmic axis."""
    figure, axes = style.chart(place=(0.1, 0.18, 0.66, 0.68), title=title, xlabel="call number")
    words = []
    for (name, values), colour in zip(series.items(), style.CYCLE * 2, strict=False):
        marked = "o-" if len(values) <= MAX_MARKS else "-"
        axes.plot(range(1, len(values) + 1), values, marked, color=colour, label=name, markersize=3, linewidth=1)
        words.append(f"{name}: first {values[0]:.3g}, then {median(values[1:] or values):.3g}")
    axes.set_yscale("log")
    style.legend(axes)
    return style.finish(figure, f"{title}. {'; '.join(words)}.")


def modelled(calls: int, compiling: int, gain: int, sizes: int) -> dict[str, list[float]]:
    """Model the times of both in units of an eager call; each of the first `sizes` calls compiles for a new shape."""
    first = [compiling + 1 / gain] * min(sizes, calls)
    return {EAGER: [1.0] * calls, COMPILED: first + [1 / gain] * (calls - len(first))}


def _from_controls(compiling: int, gain: int, sizes: int, calls: int) -> Picture:
    series = modelled(calls, compiling, gain, sizes)
    totals = {name: list(accumulate(values)) for name, values in series.items()}
    paid = next((n for n in range(1, calls + 1) if totals[COMPILED][n - 1] <= totals[EAGER][n - 1]), None)
    says = f"has paid from call {paid} on" if paid else f"has not paid after {calls} calls"
    return draw(totals, f"time in total, in eager calls: compiling {says}")


def explorer() -> Live:
    """Return the explorer without showing it."""
    return Live(_from_controls, compiling=range(20, 220, 20), gain=range(2, 11), sizes=range(1, 9),
                calls=range(50, 550, 50))  # fmt: skip


def explore() -> None:
    """Choose the cost and the gain of a compilation, and the numbers of shapes and of calls."""
    explorer().show()
