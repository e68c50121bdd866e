"""Measure how fast the demos react: `python -m benchmarks.demos`, from the repository's root.

For each demo with controls: the first drawing, then the median and the slowest redrawing when a control is moved;
wall time, in milliseconds. `tests/demos/test_explorers.py` limits the medians to a tenth of a second of CPU time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from tests.demos.test_explorers import EXPLORERS, moves


def milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begun)


def main() -> None:
    for name, explorer in EXPLORERS.items():
        first = milliseconds(explorer)
        one = explorer()
        times = [milliseconds(partial(one.set, control, value)) for control, value in moves(one)]
        middle, worst = statistics.median(times), max(times)
        print(f"{name:14} first {first:6.0f} ms   then {middle:6.1f} ms, at most {worst:6.1f} ms")


if __name__ == "__main__":
    main()
