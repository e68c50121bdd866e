"""The paths of the parts of the course, and of an instructor's own course beside it."""

from __future__ import annotations

from pathlib import Path

from torchcourse.model.catalogue import LESSONS
from torchcourse.model.own_course import folder_of, own_course, own_home

__all__ = [
    "AUTOGRADE", "BUILD", "HALVES", "NOTEBOOKS", "ROOT", "SOLUTIONS", "STORED", "build_command", "module_file",
    "notebook", "private_topic", "public_topic", "script", "shown", "stored",
]  # fmt: skip

AUTOGRADE = Path(__file__).resolve().parents[1]
ROOT = AUTOGRADE.parent
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
STORED = ROOT / "src" / "torchcourse" / "stored"
BUILD = AUTOGRADE / "build"
HALVES = {"torchcourse.exercises": "exercises", "autograde.hidden": "hidden"}
"""The packages with the halves of exercises, and the folders that hold them in a course of one's own."""


def script(lesson: str) -> Path:
    """Return the script of a solved lesson."""
    return folder_of(lesson, "solutions", SOLUTIONS) / f"{lesson}.py"


def notebook(lesson: str) -> Path:
    """Return the released notebook of a lesson."""
    return folder_of(lesson, "notebooks", NOTEBOOKS) / f"{lesson}.ipynb"


def stored(lesson: str) -> Path:
    """Return the file with the data that a lesson's notebook checks answers against."""
    return folder_of(lesson, "stored", STORED) / f"{lesson}.bin"


def public_topic(lesson: str) -> Path:
    """Return the folder with the public halves of a lesson's exercises."""
    return folder_of(lesson, "exercises", ROOT / "src" / "torchcourse" / "exercises") / LESSONS[lesson]


def private_topic(lesson: str) -> Path:
    """Return the folder with the private halves of a lesson's exercises."""
    return folder_of(lesson, "hidden", AUTOGRADE / "hidden") / LESSONS[lesson]


def module_file(module: str) -> Path:
    """Return the file of a module of the course, or of a half in a course of one's own; it need not exist."""
    own = own_course()
    for package, folder in HALVES.items():
        if own and module.startswith(f"{package}."):
            path = own / folder / f"{module.removeprefix(f'{package}.').replace('.', '/')}.py"
            if path.is_file():
                return path
    root = ROOT / "src" if module.startswith("torchcourse") else AUTOGRADE.parent
    return root / f"{module.replace('.', '/')}.py"


def build_command(lesson: str) -> str:
    """Return the command that builds a lesson."""
    own = own_home(lesson)
    return f"torchcourse{f' --course {own}' if own else ''} build {lesson}"


def shown(path: Path) -> Path:
    """Return a path as messages show it: in the course's folder without that folder's own path."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
