"""The environment of the JupyterLab that `torchcourse lab` starts: settings for learners, and Jupyter's folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["as_in_lab", "environment", "is_ours"]

SETTINGS = str(Path(__file__).resolve().parents[1] / "jupyter")


def environment() -> dict[str, str]:
    """Return this environment plus settings for learners.

    They are: no question about news, no panels for instructors, a file that is saved every few seconds, and cards that
    may ask JupyterLab for the text of a cell.
    """
    paths = [SETTINGS, *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH", "")])]
    return {"JUPYTER_PLATFORM_DIRS": "1", **os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}


def is_ours() -> bool:
    """Return whether the JupyterLab of this kernel has these settings."""
    return SETTINGS in os.environ.get("JUPYTER_CONFIG_PATH", "").split(os.pathsep)


@contextmanager
def as_in_lab() -> Iterator[None]:
    """Use the folders of our JupyterLab in this block: on macOS they differ from Jupyter's defaults."""
    was_set = "JUPYTER_PLATFORM_DIRS" in os.environ
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    try:
        yield
    finally:
        if not was_set:
            del os.environ["JUPYTER_PLATFORM_DIRS"]
