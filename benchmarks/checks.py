"""How long checks take: `python benchmarks/checks.py [LESSON…]`, from the repository's root.

For each exercise the visible check of the reference, first in the process and median of five more; then what importing
the course adds to importing torch, and what one solved lesson costs in the sandbox.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autograde.grading import Examiner
from autograde.oracle import references
from autograde.sample import LESSON as SAMPLED
from autograde.sample import make_sample_class
from autograde.sandbox import Sandbox, blocker
from autograde.submission import read_submission
from torchcourse.checking import examine
from torchcourse.exercise import LESSONS

IMPORTS = "import time, torch; t = time.perf_counter(); import torchcourse; print(time.perf_counter() - t)"


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def checks(lesson: str) -> None:
    namespace = dict(references(lesson))
    medians = []
    for name in namespace:
        first, *rest = (seconds(lambda name=name: examine(name, namespace)) for _ in range(6))
        medians.append(statistics.median(rest))
        print(f"{lesson:20} {name:24} first {1e3 * first:6.0f} ms   then {1e3 * medians[-1]:6.0f} ms")
    print(f"{lesson:20} {'median of all':24} {'':12}   then {1e3 * statistics.median(medians):6.0f} ms")


def sandboxed() -> None:
    if reason := blocker():
        print(f"not measured: {reason}")
        return
    sandbox, examiner = Sandbox(), Examiner(SAMPLED)
    with tempfile.TemporaryDirectory() as folder:
        make_sample_class(Path(folder))
        submission = read_submission(Path(folder) / "ada" / SAMPLED / f"{SAMPLED}.ipynb", "ada", SAMPLED)
        sandbox.start()
        examiner.grade(sandbox, submission)
        times = [seconds(lambda: examiner.grade(sandbox, submission)) for _ in range(5)]
    sandbox.close()
    print(f"{SAMPLED:20} {'graded, solved':24} {'':12}   then {1e3 * statistics.median(times):6.0f} ms")


def main() -> None:
    for lesson in sys.argv[1:] or LESSONS:
        checks(lesson)
    runs = [float(subprocess.check_output([sys.executable, "-c", IMPORTS])) for _ in range(5)]
    print(f"import torchcourse, over import torch: {1e3 * statistics.median(runs):.0f} ms")
    sandboxed()


if __name__ == "__main__":
    main()
