"""Grade the same submissions with stock nbgrader and with this grader.

    python -m benchmarks.stock_nbgrader [--only NAME …]

An ordinary nbgrader assignment (one function, a visible and a hidden assert on it) is made in a throwaway course
folder, and each submission is autograded there by `nbgrader autograde` without any configuration of ours. The
same change to the lesson's notebook goes through this grader. Prints a table: what was submitted, what it deserves,
what each gave. The submissions start no processes, use no network and write only to the throwaway folder;
each command has a time limit.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from autograde.batch.grading import grade
from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.classroom.synthetic_class import write_sample_class
from autograde.judge.oracle import hidden, visible
from autograde.settings import SEED
from autograde.source import paths
from tests.support.attacks import attack_source
from torchcourse.model.catalogue import exercises

CELLS = paths.ROOT / "tests" / "attacks" / "cells"
NAME, CHECK = "row_softmax", "check_row_softmax"
ASSIGNMENT = "ps1"
POINTS = 2.0
RIGHT = "def row_softmax(x):\n    return torch.softmax(x, dim=-1)"
WRONG = "def row_softmax(x):\n    return x"
ASSERTS = """
torch.testing.assert_close(row_softmax(torch.tensor([[1.0, 1.0]])), torch.tensor([[0.5, 0.5]]))
### BEGIN HIDDEN TESTS
x = torch.tensor([[1000.0, 1000.0, 1000.0, 1000.0]])
assert torch.allclose(row_softmax(x), torch.tensor([[0.25, 0.25, 0.25, 0.25]])), "the secret case"
### END HIDDEN TESTS
"""
SECRET = "the secret case"
SECONDS = 900
CONFIG = """c = get_config()
c.CourseDirectory.course_id = 'course'
c.Execute.startup_timeout = c.Execute.timeout = 600
"""
"""Longer time limits for a busy machine, and nothing else."""
Notebook = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Submitted:
    """A submission: the answer, a change to the notebook or to its file, and the score that it deserves."""

    what: str
    answer: str
    deserves: str
    change: Callable[[Notebook], object] = lambda notebook: None
    write: Callable[[Path, Notebook], object] = lambda path, notebook: path.write_text(json.dumps(notebook))


def cell(notebook: Notebook, grade_id: str) -> dict[str, Any]:
    """Return the cell with this grade_id."""
    found: dict[str, Any] = next(
        c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id
    )
    return found


def attack(name: str) -> str:
    """Return the answer in a file of tests/attacks/cells."""
    return attack_source(CELLS / f"{name}.py")


def skip(notebook: Notebook) -> None:
    cell(notebook, CHECK)["metadata"]["tags"] = ["skip-execution"]


def set_points(points: float) -> Callable[[Notebook], None]:
    def change(notebook: Notebook) -> None:
        cell(notebook, CHECK)["metadata"]["nbgrader"]["points"] = points

    return change


def double(notebook: Notebook) -> None:
    place = notebook["cells"].index(cell(notebook, NAME))
    notebook["cells"].insert(place, copy.deepcopy(notebook["cells"][place]) | {"id": "another"})


def version(notebook: Notebook) -> None:
    cell(notebook, NAME)["metadata"]["nbgrader"]["schema_version"] = 99


def last_line(line: str) -> Callable[[Notebook], None]:
    """Return a change that adds a cell, ending in this line, after the answer."""

    def change(notebook: Notebook) -> None:
        place = notebook["cells"].index(cell(notebook, NAME))
        notebook["cells"].insert(place + 1, _code("more", line, {}))

    return change


def talkative(line: str) -> str:
    """Return a right answer that runs this line when it is called."""
    return RIGHT.replace("    return", f"    {line}\n    return")


def with_bom(path: Path, notebook: Notebook) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(notebook).encode())


def cut(path: Path, notebook: Notebook) -> None:
    path.write_text(json.dumps(notebook)[:700])


def renamed(path: Path, notebook: Notebook) -> None:
    path.with_name("Untitled.ipynb").write_text(json.dumps(notebook))


def link_to_source(path: Path, notebook: Notebook) -> None:
    """Link to a solved notebook that the grader may read: in the stock course, the instructor's source."""
    source = path.parents[3] / "source" / path.parent.name / path.name
    path.symlink_to(source)


DATABASE = """
import sqlite3
with sqlite3.connect("../../../gradebook.db") as book:
    book.execute("update grade set auto_score = 2")
"""
"""A line of an answer that opens the gradebook of the folder in which it is graded."""

EXIT, WARN = "import os; os._exit(0)", "import warnings; warnings.warn('w')"
COMPLAIN = "import sys; print('x', file=sys.stderr)"

SUBMITTED = {
    "right": Submitted("a right answer", RIGHT, "all"),
    "wrong": Submitted("a wrong answer", WRONG, "nothing"),
    "skipped": Submitted("a wrong answer, the check cell tagged to be skipped", WRONG, "nothing", skip),
    "patched": Submitted("a wrong answer, patched comparisons", attack("patched_oracles"), "nothing"),
    "ast": Submitted("a wrong answer, asserts dropped by an AST transformer", attack("ast_transformer"), "nothing"),
    "lines": Submitted("a wrong answer, cells rewritten before they run", attack("input_transformer"), "nothing"),
    "run_cell": Submitted("a wrong answer, the shell's run_cell replaced", attack("replaced_run_cell"), "nothing"),
    "subclass": Submitted("a tensor subclass that equals everything", attack("lying_subclass"), "nothing"),
    "builtins": Submitted("a wrong answer, patched builtins", attack("patched_builtins"), "nothing"),
    "points": Submitted("a wrong answer, points changed to 100", WRONG, "nothing", set_points(100)),
    "gradebook": Submitted("a wrong answer that opens the gradebook", WRONG + DATABASE, "nothing"),
    "link": Submitted("a symbolic link to a solved notebook", WRONG, "nothing", write=link_to_source),
    "exit": Submitted("a right answer, then a cell that ends its process", RIGHT, "a verdict", last_line(EXIT)),
    "cut": Submitted("a file cut off in the middle", WRONG, "nothing", write=cut),
    "warns": Submitted("a right answer that warns", talkative(WARN), "all"),
    "stderr": Submitted("a right answer that writes to stderr", talkative(COMPLAIN), "all"),
    "doubled": Submitted("a right answer, its cell doubled", RIGHT, "all", double),
    "version": Submitted("a right answer, an unknown metadata version", RIGHT, "all", version),
    "bom": Submitted("a right answer, a byte-order mark", RIGHT, "all", write=with_bom),
    "renamed": Submitted("a right answer, the notebook renamed", RIGHT, "to be told", write=renamed),
}
OURS = """def row_softmax(x):
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)"""
"""A right answer to the lesson's exercise, which does not allow softmax."""
TWICE = "a broken file after a right answer"
PAGE = "a wrong answer that only hidden tests see: its feedback page"
HALF_RIGHT = "def row_softmax(x):\n    e = torch.exp(x)\n    return e / e.sum(dim=-1, keepdim=True)"


# --- stock nbgrader -----------------------------------------------------------------------------------------------


class Stock:
    """A course folder of stock nbgrader with one assignment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        source = root / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        source.parent.mkdir(parents=True)
        (root / "nbgrader_config.py").write_text(CONFIG)
        source.write_text(json.dumps(assignment()))
        made = self.run("generate_assignment", ASSIGNMENT, "--create")
        if made.returncode:
            raise RuntimeError(made.stderr[-2000:])
        self.released = json.loads((root / "release" / ASSIGNMENT / source.name).read_text())

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run an nbgrader command in the course folder."""
        folders = {"HOME": str(self.root), "JUPYTER_CONFIG_DIR": str(self.root / "none")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        try:
            return subprocess.run(
                ["nbgrader", *arguments], cwd=self.root, env={**os.environ, **folders, "PATH": path},
                capture_output=True, text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(arguments, 124, "", "out of time")

    def submit(self, student: str, submitted: Submitted) -> None:
        """Put a submission into its place."""
        _place(self.root / "submitted", student, ASSIGNMENT, self.released, submitted)

    def grade(self, student: str) -> str:
        """Autograde this student's submission and describe the outcome."""
        done = self.run("autograde", ASSIGNMENT, "--create", "--student", student, "--force")
        score = self.score(student)
        stopped = ", and the command failed" if done.returncode else ""
        return (f"{score:g} of {POINTS:g}" if score is not None else "no grade") + stopped

    def score(self, student: str) -> float | None:
        """Return the score in the gradebook."""
        from nbgrader.api import Gradebook, MissingEntry

        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as book:
            try:
                submission = book.find_submission(ASSIGNMENT, student)
            except MissingEntry:
                return None
            grades = [g for notebook in submission.notebooks for g in notebook.grades]
            return sum(g.auto_score for g in grades) if all(g.auto_score is not None for g in grades) else None


def assignment() -> Notebook:
    """Return the source notebook: a setup cell, the function with its solution, the asserts."""

    def graded(grade_id: str, source: str, points: float | None) -> dict[str, Any]:
        check = points is not None
        meta = {"grade": check, "grade_id": grade_id, "locked": check, "schema_version": 3, "solution": not check,
                "task": False}  # fmt: skip
        return _code(grade_id, source, {"nbgrader": meta | ({"points": points} if check else {})})

    solved = RIGHT.replace("    return", "    ### BEGIN SOLUTION\n    return") + "\n    ### END SOLUTION"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cells = [_code("setup", "import torch", {}), graded(NAME, solved, None), graded(CHECK, ASSERTS.strip(), POINTS)]
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _code(cell_id: str, source: str, metadata: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "id": cell_id.replace("_", "-"), "metadata": metadata,
            "outputs": [], "source": source}  # fmt: skip


def _place(folder: Path, student: str, name: str, released: Notebook, submitted: Submitted) -> None:
    notebook = copy.deepcopy(released)
    cell(notebook, NAME)["source"] = submitted.answer
    submitted.change(notebook)
    path = folder / student / name / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    submitted.write(path, notebook)


def by_stock(names: list[str]) -> Iterator[tuple[str, str]]:
    """Return the outcome of each submission with stock nbgrader."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stock = Stock(Path(folder))
        stock.submit("bystander", SUBMITTED["wrong"])
        stock.grade("bystander")
        for name in names:
            if name == "twice":
                stock.submit(name, SUBMITTED["right"])
                first = stock.grade(name)
                stock.submit(name, SUBMITTED["cut"])
                yield name, f"{first}; then {stock.grade(name)}"
            elif name == "page":
                stock.submit(name, Submitted("", HALF_RIGHT, ""))
                stock.grade(name)
                stock.run("generate_feedback", ASSIGNMENT, "--student", name)
                pages = [p.read_text() for p in (stock.root / "feedback" / name).rglob("*.html")]
                yield name, _shown(pages[0], [SECRET]) if pages else "no page"
            else:
                before = stock.score("bystander")
                stock.submit(name, SUBMITTED[name])
                came = stock.grade(name)
                after = stock.score("bystander")
                yield name, came if before == after else f"{came}; another student now has {after:g}"


# --- this grader --------------------------------------------------------------------------------------------------


def by_ours(names: list[str]) -> dict[str, str]:
    """Return the outcome of each submission with this grader: status and score of the exercise that was changed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_sample_class(root / "sample")
        solved = json.loads((root / "sample" / "eve" / LESSON / f"{LESSON}.ipynb").read_text())
        cell(solved, NAME)["source"] = OURS
        source = root / "source" / LESSON / f"{LESSON}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(json.dumps(solved))
        ordinary = [name for name in names if name in SUBMITTED]
        for name in ordinary:
            _place(root / "class", name, LESSON, solved, _in_our_words(SUBMITTED[name]))
        _place(root / "class", "bystander", LESSON, solved, SUBMITTED["wrong"])
        _place(root / "class", "twice", LESSON, solved, _in_our_words(SUBMITTED["right"]))
        _place(root / "class", "page", LESSON, solved, Submitted("", HALF_RIGHT, ""))
        first = _scores(root)
        _place(root / "class", "twice", LESSON, solved, SUBMITTED["cut"])
        second = _scores(root)
        page = (root / "out" / "feedback" / "page" / f"{LESSON}.html").read_text()
        outcomes = {name: first[name] for name in ordinary} | {"twice": f"{first['twice']}; then {second['twice']}"}
        if first["bystander"] != "0 of 2, failed":
            outcomes["gradebook"] += f"; another student now has {first['bystander']}"
        exercise = exercises(LESSON)[NAME]
        secrets = {c.name for c in hidden(LESSON, exercise, SEED)} - {c.name for c in visible(exercise)}
        return outcomes | {"page": _shown(page, sorted(secrets))}


def _shown(page: str, secrets: list[str]) -> str:
    return "shows the hidden test" if any(secret in page for secret in secrets) else "shows no hidden test"


def _in_our_words(submitted: Submitted) -> Submitted:
    """Return the same submission with an answer that our exercise allows."""
    own, ours = RIGHT.split("\n", 1)[1], OURS.split("\n", 1)[1]
    return dataclasses.replace(submitted, answer=submitted.answer.replace(own, ours))


def _scores(root: Path) -> dict[str, str]:
    done = grade([LESSON], root / "class", root / "out")
    verdicts = {g.submission.student: v for g in done for v in g.verdicts if v.exercise == NAME}
    return {student: f"{v.score:g} of {v.max_score:g}, {v.status}" for student, v in verdicts.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[*SUBMITTED, "twice", "page"])
    names = parser.parse_args().only
    ours = by_ours(names)
    print("| submitted | deserves | stock nbgrader | this grader |\n|---|---|---|---|", flush=True)
    for name, came in by_stock(names):
        submitted = SUBMITTED.get(name)
        what = submitted.what if submitted else TWICE if name == "twice" else PAGE
        deserves = submitted.deserves if submitted else "nothing" if name == "twice" else "no hidden test"
        print(f"| {what} | {deserves} | {came} | {ours[name]} |", flush=True)


if __name__ == "__main__":
    main()
