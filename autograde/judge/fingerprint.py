"""Hash everything that a verdict depends on: the submission, the lesson, the grader and the libraries."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import platform
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torchcourse
from autograde.judge.submission import Submission
from autograde.judge.verdict import verdict_without_running
from autograde.sandbox.configuration import Isolation
from autograde.settings import Limits
from autograde.source import paths
from autograde.source.private_half import private_path
from autograde.source.release import load_release
from autograde.source.script import read_script
from torchcourse.model.catalogue import LESSONS

__all__ = ["LIBRARIES", "fingerprint", "private_hashes", "submission_key"]

LIBRARIES = ("torch", "torchvision", "numpy", "scikit-learn", "ipython", "matplotlib")
"""The libraries whose versions verdicts depend on."""


def submission_key(
    submission: Submission,
    seed: int,
    limits: Limits,
    isolation: Isolation = Isolation(),  # noqa: B008 - it is immutable
) -> str:
    """Return a hash of all that the verdicts on a submission depend on, whoever submitted it.

    Private halves are part of it only for exercises that have to be run.
    """
    lesson, release = submission.lesson, submission.release
    cells = [[cell.kind, cell.source, cell.grade_id] for cell in submission.cells]
    content = [cells, submission.problem, submission.reason, sorted(submission.tampered.items())]
    conditions = [dataclasses.astuple(limits), dataclasses.astuple(isolation)]
    pending = [name for name in release.exercises if verdict_without_running(submission, name) is None]
    private = private_hashes(lesson)
    return _hash([content, seed, conditions, fingerprint(lesson), [private[name] for name in pending]])


@cache
def fingerprint(lesson: str) -> str:
    """Return a hash of the lesson as it is graded, the grader itself and the libraries.

    Prose and other lessons are not part of it, so that changing them regrades nothing here. The private halves of this
    lesson have hashes of their own: `private_hashes`.
    """
    cells = read_script(paths.SOLUTIONS / f"{lesson}.py")
    solved = [cell.source for cell in cells if cell.exercise or "setup" in cell.tags]
    versions = [platform.python_version(), *(metadata.version(name) for name in LIBRARIES)]
    files = [[str(path.relative_to(root)), _file(path)] for root, path in _files(lesson)]
    release = load_release(lesson)
    released = [dataclasses.astuple(cell) for cell in release.cells.values()]
    return _hash([lesson, solved, versions, files, released, sorted(release.examples), sorted(release.demos)])


@cache
def private_hashes(lesson: str) -> dict[str, str]:
    """Return a hash of the private half of each exercise, including the files of hidden/ that it imports."""
    return {name: _hash(_sources(private_path(lesson, name), set())) for name in load_release(lesson).exercises}


def _sources(path: Path, seen: set[Path]) -> list[str]:
    """Return the hash of a file of hidden/, and those of the files of hidden/ that it imports."""
    seen.add(path)
    hashes = [_file(path)]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autograde.hidden"):
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]  # an alias may be a file
            files = (paths.AUTOGRADE.parent / f"{str(name).replace('.', '/')}.py" for name in names)
            hashes += [part for file in files if file.is_file() and file not in seen for part in _sources(file, seen)]
    return hashes


def _files(lesson: str) -> Iterator[tuple[Path, Path]]:
    """Yield the files of the package and of the grader, each as its root folder and its path.

    Exercises of other lessons and all private halves are left out.
    """
    package = Path(torchcourse.__file__).parent
    left_out = [package / "exercises" / topic for name, topic in LESSONS.items() if name != lesson]
    left_out += [paths.AUTOGRADE / "hidden" / topic for topic in LESSONS.values()] + [paths.BUILD]
    for root in (package, paths.AUTOGRADE):
        for path in sorted(p for suffix in ("py", "html", "csv") for p in root.rglob(f"*.{suffix}")):
            if not any(path.is_relative_to(folder) for folder in left_out):
                yield root, path


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
