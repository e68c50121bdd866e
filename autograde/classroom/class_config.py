"""Read a class folder's nbgrader_config.py, and what it leads to. Only `class_config` imports torch."""

from __future__ import annotations

import traceback
from pathlib import Path

from nbgrader.api import Assignment, Gradebook
from traitlets.config import Config, PyFileConfigLoader

from autograde.errors import ClassError
from autograde.results.gradebook_url import gradebook_file, gradebook_url
from autograde.settings import SEED
from autograde.source import paths
from torchcourse.model.catalogue import in_order

__all__ = ["class_config", "class_gradebook", "class_lessons", "class_seed", "is_class"]

CONFIG_FILE = "nbgrader_config.py"


def is_class(folder: Path) -> bool:
    """Return whether `folder` is a class folder."""
    return (folder / CONFIG_FILE).is_file()


def class_config(folder: Path) -> Config:
    """Return the configuration of a class folder.

    Raises:
        ClassError: when it cannot be read.
    """
    return _loaded(PyFileConfigLoader(CONFIG_FILE, path=str(folder)))


class _ClassOnly(PyFileConfigLoader):  # type: ignore[misc]
    """Loads the file of a class without autograde's, which imports the engine and with it torch."""

    def load_config(self) -> Config:
        return Config() if self.path == str(paths.AUTOGRADE) else super().load_config()


def _loaded(file: PyFileConfigLoader) -> Config:
    try:
        return file.load_config()
    except Exception as error:  # the file is a program, which its instructor may have changed
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == file.full_filename]  # fmt: skip
        line = getattr(error, "lineno", None) or (lines or [1])[-1]
        reason = f"{type(error).__name__}: {getattr(error, 'msg', error)}"
        raise ClassError(f"{file.full_filename}:{line}: {reason}. Correct it and run this again.") from error


def _own_config(folder: Path) -> Config:
    """Return what the file of a class says itself; nothing for a folder that is no class."""
    return _loaded(_ClassOnly(CONFIG_FILE, path=str(folder))) if is_class(folder) else Config()


def class_gradebook(folder: Path) -> str:
    """Return the URL of the gradebook of a class folder, or of a folder that `torchcourse grade` has written to."""
    return gradebook_url(folder, str(_own_config(folder).CourseDirectory.get("db_url") or ""))


def class_lessons(folder: Path) -> list[str]:
    """Return the lessons that are assignments of a class folder, in the course's order; unknown ones come last."""
    url = class_gradebook(folder)
    file = gradebook_file(url)
    if file and not file.is_file():
        return []
    with Gradebook(url) as book:
        return in_order(name for (name,) in book.db.query(Assignment.name))


def class_seed(folder: Path) -> int:
    """Return the seed of a class's hidden cases; the public one of a folder that is no class folder, or has none."""
    return int(_own_config(folder).GradeSubmission.get("seed", SEED))
