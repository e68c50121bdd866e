"""Read a class folder's nbgrader_config.py. Only `class_config` imports torch."""

from __future__ import annotations

from pathlib import Path

from traitlets.config import Config, PyFileConfigLoader

from autograde.results.gradebook_url import gradebook_url
from autograde.settings import SEED
from autograde.source import paths

__all__ = ["class_config", "class_gradebook", "class_seed", "is_class"]

CONFIG_FILE = "nbgrader_config.py"


def is_class(folder: Path) -> bool:
    """Return whether `folder` is a class folder."""
    return (folder / CONFIG_FILE).is_file()


def class_config(folder: Path) -> Config:
    """Return the configuration of a class folder."""
    return PyFileConfigLoader(CONFIG_FILE, path=str(folder)).load_config()


class _ClassOnly(PyFileConfigLoader):  # type: ignore[misc]
    """Loads the file of a class without autograde's, which imports the engine and with it torch."""

    def load_config(self) -> Config:
        return Config() if self.path == str(paths.AUTOGRADE) else super().load_config()


def _own_config(folder: Path) -> Config:
    """Return what the file of a class says itself; nothing for a folder that is no class."""
    return _ClassOnly(CONFIG_FILE, path=str(folder)).load_config() if is_class(folder) else Config()


def class_gradebook(folder: Path) -> str:
    """Return the URL of the gradebook of a class folder, or of a folder that `torchcourse grade` has written to."""
    return gradebook_url(folder, str(_own_config(folder).CourseDirectory.get("db_url") or ""))


def class_seed(folder: Path) -> int:
    """Return the seed of a class's hidden cases; the public one of a folder that is no class folder, or has none."""
    return int(_own_config(folder).GradeSubmission.get("seed", SEED))
