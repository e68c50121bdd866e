"""Let the processes that this one starts find the commands of its Python, though its environment is not activated."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["PROGRAMS", "put_on_path"]

PROGRAMS = str(Path(sys.executable).parent)
"""The folder of this Python's commands."""


def put_on_path() -> None:
    """Put the folder first on the PATH of this process, if it is nowhere on it."""
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if PROGRAMS not in searched:
        os.environ["PATH"] = os.pathsep.join([PROGRAMS, *searched])
