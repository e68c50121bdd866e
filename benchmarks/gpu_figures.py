"""Record the figures of a real GPU that lesson 06 shows: `python benchmarks/gpu_figures.py` on a machine that has one.

Writes src/torchcourse/data/gpu_figures.json, with machine, date and command. Without CUDA it measures nothing and says
so.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable

import torch

from torchcourse.demos import devices, matmul

COMMAND = "python benchmarks/gpu_figures.py"


def gigabytes_a_second(copy: Callable[[], object], size: int, wait: Callable[[], object]) -> str:
    return f"{size / matmul.best_time(copy, wait, budget=0.5) / 1e9:.1f} GB/s"


def transfer(device: torch.device, wait: Callable[[], object], count: int = 64_000_000) -> dict[str, str]:
    """Measure bandwidths between host and device, and within the device."""
    plain, there = torch.ones(count), torch.ones(count, device=device)
    ways = {"ordinary memory to device": lambda: there.copy_(plain), "device to device": lambda: there.clone()}
    if device.type == "cuda":
        pinned = plain.pin_memory()
        ways["pinned memory to device"] = lambda: there.copy_(pinned, non_blocking=True)
    factors = {"device to device": 2}  # read and written
    return {way: gigabytes_a_second(copy, 4 * count * factors.get(way, 1), wait) for way, copy in ways.items()}


def timing(device: torch.device, wait: Callable[[], object], size: int = 4096) -> dict[str, str]:
    """Time a matrix product without waiting for the device, and with waiting."""
    a = torch.ones(size, size, device=device)
    a @ a
    wait()
    start = time.perf_counter()
    a @ a
    ordered = time.perf_counter() - start
    wait()
    done = time.perf_counter() - start
    what = f"float32 product of size {size}"
    return {f"{what}, clock stopped at once": f"{ordered * 1e6:.0f} microseconds",
            f"{what}, after synchronising": f"{done * 1e6:.0f} microseconds"}  # fmt: skip


def products(device: torch.device, sizes: tuple[int, ...] = (256, 1024, 4096, 8192)) -> dict[str, str]:
    """Measure the speed of matrix multiplication by size."""
    return {
        f"{dtype}, size {size}": f"{speed / 1e12:.2f} TFLOPS"
        for dtype in ("float32", "bfloat16")
        for size, speed in matmul.speeds(dtype, sizes, device).items()
    }


def main() -> int:
    if not torch.cuda.is_available():
        print("There is no CUDA device here: nothing is measured.")
        return 1
    device, wait = torch.device("cuda", 0), torch.cuda.synchronize
    figures = {"transfer": transfer(device, wait), "timing": timing(device, wait), "matmul": products(device)}
    kept = {
        "machine": f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}",
        "date": datetime.date.today().isoformat(), "command": COMMAND, "figures": figures,
    }  # fmt: skip
    devices.FIGURES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(devices.FIGURES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
