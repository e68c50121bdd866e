"""Hash everything that a verdict depends on: the submission, the lesson, the grader and the libraries."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import platform
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torchcourse
from autograde.files import digest
from autograde.judge.submission import Submission
from autograde.judge.verdict import verdict_without_running
from autograde.sandbox.configuration import Isolation
from autograde.settings import Limits
from autograde.source import paths
from autograde.source.private_half import private_path
from autograde.source.release import load_release
from autograde.source.script import read_script
from torchcourse.model.catalogue import LESSONS, module_name

__all__ = ["LIBRARIES", "fingerprint", "observation_key", "private_hashes", "submission_key"]

PACKAGE = Path(torchcourse.__file__).parent
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
    exercises = [[path.name, _file(path)] for path in sorted(paths.public_topic(lesson).glob("*.py"))]
    release = load_release(lesson)
    released = [dataclasses.astuple(cell) for cell in release.cells.values()]
    shown = [released, sorted(release.examples), sorted(release.demos)]
    return _hash([lesson, _solved(lesson), _machinery(), exercises, shown])


@cache
def observation_key(lesson: str, exercise: str) -> str:
    """Return a hash of all that the observations of an exercise's reference and mistakes depend on, but for the seed.

    Other exercises are not part of it, other than those whose files it imports.
    """
    public = paths.public_topic(lesson) / f"{module_name(exercise)}.py"
    sources = [part for path in (public, private_path(lesson, exercise)) for part in _sources(path, set())]
    return _hash([exercise, _solved(lesson), _machinery(), sources])


@cache
def private_hashes(lesson: str) -> dict[str, str]:
    """Return a hash of the private half of each exercise, including the files of exercises that it imports."""
    return {name: _hash(_sources(private_path(lesson, name), set())) for name in load_release(lesson).exercises}


def _sources(path: Path, seen: set[Path]) -> list[str]:
    """Return the hash of a file of an exercise, and those of the files of exercises that it imports."""
    seen.add(path)
    hashes = [_file(path)]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            files = _imported(node, path)
            hashes += [part for file in files if file.is_file() and file not in seen for part in _sources(file, seen)]
    return hashes


def _imported(node: ast.Import | ast.ImportFrom, path: Path) -> list[Path]:
    """Return the files of exercises that an import in the file `path` may read; not all of them need to exist."""
    aliases = [alias.name for alias in node.names]  # what is imported from a package may be a module
    if isinstance(node, ast.Import):
        names = aliases
    elif node.level:
        folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        return [folder.with_suffix(".py"), *(folder / f"{alias}.py" for alias in aliases)]
    else:
        names = [str(node.module), *(f"{node.module}.{alias}" for alias in aliases)]
    return [paths.module_file(name) for name in names if name.startswith(tuple(paths.HALVES))]


@cache
def _solved(lesson: str) -> list[str]:
    """Return the cells of a solved lesson that run: its setup and its answers."""
    cells = read_script(paths.script(lesson))
    return [cell.source for cell in cells if cell.exercise or "setup" in cell.tags]


@cache
def _machinery() -> str:
    """Return a hash of the libraries, and of the package and the grader without any exercise."""
    versions = [platform.python_version(), *(metadata.version(name) for name in LIBRARIES)]
    left_out = [PACKAGE / "exercises" / topic for topic in LESSONS.values()]
    left_out += [paths.AUTOGRADE / "hidden" / topic for topic in LESSONS.values()] + [paths.BUILD]
    files = []
    for root in (PACKAGE, paths.AUTOGRADE):
        for path in sorted(p for suffix in ("py", "html", "csv") for p in root.rglob(f"*.{suffix}")):
            if not any(path.is_relative_to(folder) for folder in left_out):
                files.append([str(path.relative_to(root)), _file(path)])
    return _hash([versions, files])


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(value: Any) -> str:
    return digest(json.dumps(value))
