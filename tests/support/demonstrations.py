"""Functions that a lesson shows, to be run outside its notebook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograde.source.script import read_script

__all__ = ["demonstrated"]


def demonstrated(path: Path, *names: str) -> dict[str, Callable[..., Any]]:
    """Run the setup cells of a lesson script and the cells that begin with these functions; return the functions.

    Raises:
        MalformedScriptError: as `read_script` does.
    """
    namespace: dict[str, Any] = {"__name__": f"demonstrations_{path.stem}"}
    for cell in read_script(path):
        if "setup" in cell.tags or cell.source.startswith(tuple(f"def {name}(" for name in names)):
            exec(compile("\n" * cell.line + cell.source, str(path), "exec"), namespace)
    return {name: namespace[name] for name in names}
