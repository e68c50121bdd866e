"""An extension of Jupyter's server: kernels and terminals find the `torchcourse` command, however it was started.

The package's data files switch it on for every server of the environment that the course is installed in.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

__all__: list[str] = []


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Put the folder of this Python's commands on the path that the server hands down."""
    programs = str(Path(sys.executable).parent)
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if programs not in searched:
        os.environ["PATH"] = os.pathsep.join([programs, *searched])
