"""Compare `otter run` and this grader on one exercise, a softmax, each with its own tests.

    python -m benchmarks.otter [--students 10] [--environment FOLDER]

otter-grader is installed from the package index into an environment of its own, which sees this one's torch. Its
notebook has the setup cell, the answer and two tests; ours is the exercise `row_softmax` of lesson 01, other cells left
as released, with visible and hidden cases on two devices. `otter run` grades one file a call. Prints one table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from autograde.batch.grading import grade
from autograde.classroom.synthetic_class import answered_notebook, write_notebook

LESSON, NAME = "01_tensors", "row_softmax"
ANSWER = """def row_softmax(x):
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)"""
TESTS = """from otter.test_files import test_case
import torch

OK_FORMAT = False
name, points = "row_softmax", 2

@test_case(points=1)
def test_small(row_softmax):
    torch.testing.assert_close(row_softmax(torch.tensor([[1.0, 1.0]])), torch.tensor([[0.5, 0.5]]))

@test_case(points=1)
def test_large(row_softmax):
    x = torch.tensor([[1000.0, 1000.0]])
    assert torch.allclose(row_softmax(x), torch.tensor([[0.5, 0.5]]))
"""


def environment(folder: Path) -> Path:
    """Make an environment with otter-grader unless it exists, and return the folder of its programs."""
    programs = folder / "bin"
    if not (programs / "otter").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([programs / "python", "-m", "pip", "install", "-q", "otter-grader", "ipykernel"], check=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "with_torch.pth").write_text(sysconfig.get_path("purelib") + "\n")  # after its own packages
    return programs


def by_otter(programs: Path, folder: Path, students: int) -> tuple[float, list[float]]:
    """Return the seconds that `otter run` takes for all students, and the scores."""
    (folder / "tests").mkdir()
    (folder / "tests" / f"{NAME}.py").write_text(TESTS)
    (folder / "requirements.txt").write_text("")
    subprocess.run([programs / "otter", "generate", "--no-environment"], cwd=folder, check=True, capture_output=True)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cells = [_code("import torch"), _code(ANSWER)]
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    scores, began = [], time.perf_counter()
    for number in range(students):
        place = folder / f"student{number}"
        place.mkdir()
        (place / "hw.ipynb").write_text(json.dumps(notebook))
        command = [str(programs / "otter"), "run", "-a", str(folder / "autograder.zip"), "-o", "."]
        done = subprocess.run([*command, "hw.ipynb"], cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr)[-2000:])
        results = json.loads((place / "results.json").read_text())
        scores.append(sum(test.get("score", 0) for test in results["tests"]))  # a summary has none
    return time.perf_counter() - began, scores


def _code(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "id": f"c{abs(hash(source)) % 10**6}", "metadata": {},
            "outputs": [], "source": source}  # fmt: skip


def by_ours(folder: Path, students: int) -> tuple[float, list[float]]:
    """Return the seconds that this grader takes with one worker for all students, and the scores of the exercise."""
    for number in range(students):
        notebook = answered_notebook(LESSON, {NAME: f"{ANSWER}\n# student {number}"})
        write_notebook(folder / "class", f"student{number}", LESSON, notebook)
    began = time.perf_counter()
    done = grade([LESSON], folder / "class", folder / "out")
    seconds = time.perf_counter() - began
    return seconds, [v.score for graded in done for v in graded.verdicts if v.exercise == NAME]


def main() -> int:
    """Print the table and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--students", type=int, default=10)
    parser.add_argument("--environment", type=Path, help="where to make otter's environment, or where it is")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = environment((chosen.environment or folder / "otter").absolute())
        (folder / "theirs").mkdir()
        theirs, ours = by_otter(programs, folder / "theirs", chosen.students), by_ours(folder, chosen.students)
    print(f"python -m benchmarks.otter --students {chosen.students}\n")
    print("| grader | seconds a submission | scores |\n|---|---|---|")
    for who, (seconds, scores) in (("otter run", theirs), ("this, 1 worker", ours)):
        print(f"| {who} | {seconds / chosen.students:.2f} | {', '.join(f'{s:g}' for s in sorted(set(scores)))} |")
    print(f"\n{theirs[0] / ours[0]:.1f} times the submissions a minute")
    return int(set(theirs[1]) != set(ours[1]))


if __name__ == "__main__":
    sys.exit(main())
