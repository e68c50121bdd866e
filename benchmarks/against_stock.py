"""Compare stock `nbgrader autograde` and this grader on the same solved submissions of lesson 01.

    python -m benchmarks.against_stock [--students 50] [--workers 2]

Both start from folders and a gradebook with only the assignment in it, and both are the commands that people run. The
stock command runs the notebooks as they are, so only visible checks; this grader runs visible and hidden cases on two
devices. Prints one table; ends with 1 if the scores differ.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from autograde.batch.journal import is_recorded
from autograde.course.build import generate
from tests.support.results import recorded
from tests.support.solved import write_solved

LESSON = "01_tensors"
ROOT = Path(__file__).resolve().parents[1]
GRADE = "import sys; sys.argv[0] = 'torchcourse'; from torchcourse.cli import main; main()"
CONFIG = """c = get_config()
c.CourseDirectory.root, c.CourseDirectory.db_url = {root!r}, {url!r}
c.Execute.startup_timeout = c.Execute.timeout = 3600
"""


def timed(command: list[str | Path], cwd: Path) -> float:
    """Return the seconds that a command takes.

    Raises:
        RuntimeError: if it fails.
    """
    env = {**os.environ, "HOME": str(cwd), "JUPYTER_CONFIG_DIR": str(cwd / "none"),
           "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
           "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # fmt: skip
    began = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-3000:])
    return seconds


def stock(folder: Path) -> float:
    """Return the seconds that stock nbgrader takes for `folder`/submitted; its gradebook is `folder`/gradebook.db."""
    (folder / "nbgrader_config.py").write_text(
        CONFIG.format(root=str(folder), url=f"sqlite:///{folder / 'gradebook.db'}")
    )
    return timed([Path(sys.executable).parent / "nbgrader", "autograde", LESSON, "--create"], folder)


def ours(folder: Path, workers: int) -> float:
    """Return the seconds that this grader takes for the same."""
    command = [sys.executable, "-c", GRADE, "grade", LESSON, "--workers", str(workers)]
    return timed([*command, "--submitted", folder / "submitted", "--out", folder / "out"], folder)


def main() -> int:
    """Print the table and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--students", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        students = write_solved(folder / "submitted", [LESSON], chosen.students)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            generate([LESSON], folder, f"sqlite:///{folder / 'gradebook.db'}")
        (folder / "out").mkdir()
        (folder / "out" / "gradebook.db").write_bytes((folder / "gradebook.db").read_bytes())
        mine, theirs = ours(folder, chosen.workers), stock(folder)
        assert all(is_recorded(folder / "out" / "journal", student, LESSON) for student in students)
        scores = recorded(folder / "out", LESSON), recorded(folder, LESSON)
    print(f"python -m benchmarks.against_stock --students {chosen.students} --workers {chosen.workers}\n")
    print("| grader | seconds | submissions a minute |\n|---|---|---|")
    for who, seconds in (("stock nbgrader autograde", theirs), (f"this, {chosen.workers} workers", mine)):
        print(f"| {who} | {seconds:.1f} | {60 * chosen.students / seconds:.1f} |")
    same = scores[0] == scores[1] and set(scores[0].values()) != {0}
    for who, exercise in sorted(key for key in scores[0].keys() | scores[1].keys() if not same)[:20]:
        print(f"{who} {exercise}: this {scores[0].get((who, exercise))}, stock {scores[1].get((who, exercise))}")
    print(f"\n{theirs / mine:.1f} times the submissions a minute; the scores are {'the same' if same else 'DIFFERENT'}")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
