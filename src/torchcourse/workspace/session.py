"""The running IPython session and its notebook. Never imports IPython."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["in_notebook", "notebook_file", "notebook_folder", "on_start_page", "shell"]


def shell() -> Any:
    """Return the running IPython shell, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


START = "START.ipynb"
"""The notebook that JupyterLab opens first."""


def in_notebook() -> bool:
    """Return whether this process is a notebook's kernel."""
    return hasattr(shell(), "kernel")


def notebook_file() -> Path | None:
    """Return the file of the running notebook; None unless Jupyter's server or VS Code provides its name."""
    ipython = shell()
    name = os.environ.get("JPY_SESSION_NAME") or (ipython and ipython.user_ns.get("__vsc_ipynb_file__"))
    path = Path(name) if isinstance(name, str) else None
    return path if path and path.suffix == ".ipynb" and path.is_file() else None


def notebook_folder() -> Path:
    """Return the folder of the running notebook: Jupyter names it, other front ends start the kernel there."""
    path = Path(os.environ.get("JPY_SESSION_NAME", ""))
    return path.parent if path.is_absolute() and path.parent.is_dir() else Path.cwd()


def on_start_page() -> bool:
    """Return whether the running notebook is the start page."""
    file = notebook_file()
    return file is not None and file.name == START
