"""An extension of Jupyter's server: kernels and terminals find the `torchcourse` command, however it was started.

The package's data files switch it on for every server of the environment that the course is installed in.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from torchcourse.workspace.own_programs import PROGRAMS, put_on_path

__all__: list[str] = []

POSIX_SHELLS = {"bash", "dash", "ksh", "sh", "zsh"}
AFTER_LOGIN = 'export PATH="$0:$PATH"; exec "$1"'


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _link_jupyter_server_extension(server: Any) -> None:
    """Have terminals keep the path where Jupyter starts them as login shells, whose profile sets it anew.

    It does so where the server itself was not started in a terminal. This runs before any extension is loaded.
    """
    shell = os.environ.get("SHELL") or "sh"
    is_set, is_posix = "shell_command" in server.terminado_settings, Path(shell).name in POSIX_SHELLS
    if is_posix and not is_set and not sys.stdout.isatty():
        command = [shell, "-l", "-c", AFTER_LOGIN, PROGRAMS, shell]
        server.terminado_settings = {**server.terminado_settings, "shell_command": command}


def _load_jupyter_server_extension(server: Any) -> None:
    """Put the folder of this Python's commands on the path that the server hands down."""
    put_on_path()
