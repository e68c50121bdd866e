"""The speed of matrix multiplication on this machine, by size."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence

import torch

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

SIZES = (16, 32, 64, 128, 256, 512)
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


def flops(size: int) -> int:
    """Return the operations of a square matrix product: a multiplication and an addition for each of size**3 terms."""
    return 2 * size**3


def best_time(run: Callable[[], object], wait: Callable[[], object], budget: float = 0.03, most: int = 50) -> float:
    """Return the shortest of several runs after a warm-up, in seconds, within about `budget` seconds."""
    run()
    wait()
    best, end = float("inf"), time.perf_counter() + budget
    for _ in range(most):
        start = time.perf_counter()
        run()
        wait()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return best


def speeds(
    dtype: str = "float32", sizes: Sequence[int] = SIZES, device: torch.device | None = None
) -> dict[int, float]:
    """Return the operations per second for each size, on CUDA if there is one, else on the CPU."""
    if device is None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    found = {}
    for size in sizes:
        a = torch.ones(size, size, dtype=DTYPES[dtype], device=device)
        found[size] = flops(size) / best_time(functools.partial(torch.mm, a, a), wait)
    return found


def draw(found: dict[int, float], title: str = "") -> Picture:
    """Draw speed over size, both on logarithmic axes."""
    figure, axes = style.chart(
        place=(0.13, 0.2, 0.83, 0.66), title=title, xlabel="rows and columns", ylabel="10⁹ operations a second"
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.plot(list(found), [speed / 1e9 for speed in found.values()], "o-", color=style.BLUE)
    axes.set_xticks(list(found), [str(size) for size in found])
    small, large = found[min(found)], max(found.values())
    words = f"{small / 1e9:.2g} billion operations a second at size {min(found)}, {large / 1e9:.2g} at best"
    return style.finish(figure, f"Speed of matrix multiplication, {title}: {words}.")


def explorer() -> Live:
    """Measure in every dtype, and return the pictures with a menu, without showing them."""
    threads = torch.get_num_threads()
    cpu = f"CPU, {threads} thread{'s' * (threads > 1)}"
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else cpu
    found = {dtype: speeds(dtype) for dtype in DTYPES}

    def picture(dtype: str) -> Picture:
        return draw(found[dtype], f"{dtype} on {where}")

    return Live(picture, dtype=list(DTYPES))


def explore() -> None:
    """Measure matrix multiplication on this machine, and choose the dtype to show."""
    explorer().show()
