"""The environment that `torchcourse lab` gives JupyterLab: settings for learners, and where Jupyter keeps its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["as_in_lab", "environment"]


def environment() -> dict[str, str]:
    """Ours, with settings for learners: no question about news on the first start, no instructor's panels."""
    settings = str(Path(__file__).resolve().parent / "jupyter")
    paths = [settings, *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH", "")])]
    return {"JUPYTER_PLATFORM_DIRS": "1", **os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}


@contextmanager
def as_in_lab() -> Iterator[None]:
    """In this block Jupyter's files are looked for where that JupyterLab has them; on macOS that is another folder."""
    there = "JUPYTER_PLATFORM_DIRS" in os.environ
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    try:
        yield
    finally:
        if not there:
            del os.environ["JUPYTER_PLATFORM_DIRS"]
