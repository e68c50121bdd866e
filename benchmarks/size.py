"""Measure the cost of batches of 10 to 5 000 submissions, everything real except for running them.

    python -m benchmarks.size [--sizes 10 100 1000 5000] [--plot docs/images/size.svg]

What could grow with the number of submissions is reading, keeping, writing and the gradebook, so a stand-in gives the
verdicts at once. Every batch is a process of its own. Prints one table; `--plot` draws seconds over submissions.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograde.batch import grading
from autograde.results.gradebook import Writer
from tests.support.solved import write_solved
from tests.support.stand_ins import AtOnce

LESSON = "01_tensors"


@dataclass(frozen=True)
class Cost:
    """The cost of a batch: wall and CPU seconds, the process's largest resident memory, bytes written."""

    submissions: int
    seconds: float
    cpu: float
    memory: int
    written: int


def measured(count: int, out: multiprocessing.SimpleQueue[Cost]) -> None:
    """Grade a class of `count`, in a process that has done nothing else, and put the cost into `out`."""
    warnings.simplefilter("ignore")
    grading.LessonGrader = AtOnce  # type: ignore[assignment, misc]
    grading.isolation_problem = lambda: ""  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_solved(folder / "class", [LESSON], count)
        with Writer(folder / "out" / "gradebook.db", [LESSON], folder / "scratch"):
            pass  # making one takes the same time whatever the size
        wall, cpu = time.perf_counter(), time.process_time()
        grading.grade_class([LESSON], folder / "class", folder / "out")
        spent = time.perf_counter() - wall, time.process_time() - cpu
        memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        written = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())
        out.put(Cost(count, *spent, memory, written))


def measure(count: int) -> Cost:
    """Return the cost of a batch of `count` submissions.

    Raises:
        RuntimeError: if it failed.
    """
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.SimpleQueue[Cost] = context.SimpleQueue()
    process = context.Process(target=measured, args=(count, queue))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the batch of {count} failed")
    return queue.get()


def plot(costs: Iterable[Cost], path: Path) -> None:
    """Plot seconds over submissions, with a straight line at the largest batch's rate."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    costs = list(costs)
    rate = costs[-1].cpu / costs[-1].submissions
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    sizes = [cost.submissions for cost in costs]
    axes.loglog(sizes, [cost.cpu for cost in costs], "o", label="measured")
    axes.loglog(sizes, [rate * size for size in sizes], label=f"{1e3 * rate:.0f} ms a submission")
    axes.set(xlabel="submissions", ylabel="CPU seconds of the writer")
    axes.legend()
    with matplotlib.rc_context({"svg.hashsalt": "size"}):
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000, 5000])
    parser.add_argument("--plot", type=Path)
    chosen = parser.parse_args()
    print(f"python -m benchmarks.size --sizes {' '.join(map(str, chosen.sizes))}\n")
    print("| submissions | seconds | CPU a submission | largest memory | written a submission |\n|---|---|---|---|---|")
    costs = []
    for count in chosen.sizes:
        costs.append(cost := measure(count))
        print(f"| {count} | {cost.seconds:.1f} | {1e3 * cost.cpu / count:.1f} ms | {cost.memory / 1e6:.0f} MB | "
              f"{cost.written / count / 1e3:.0f} kB |", flush=True)  # fmt: skip
    if chosen.plot:
        plot(costs, chosen.plot)


if __name__ == "__main__":
    main()
