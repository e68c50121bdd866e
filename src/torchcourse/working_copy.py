"""The learner's side of an answer: the cell it was run from, and whether the saved notebook still has that cell.

A notebook's functions live in memory and its cells in a file; who edits a cell and forgets to run it checks the old
answer. That can be said for certain only where the file was saved after the cell was run and no longer holds it, so
only then is it said.
"""

from __future__ import annotations

import inspect
import json
import linecache
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

__all__ = ["cell_of", "changed_since", "shell", "watch"]

LARGEST_FILE = 20_000_000
"""Bytes of a notebook that a check may read on the way; one that holds more (videos, say) is left alone."""
SETTLING = 2.0
"""Seconds: a save that had begun when the cell was run may be written after it."""

_run_at: dict[str, float] = {}
"""When each cell of this session was last run, by its text."""


def shell() -> Any:
    """The running IPython shell, or None; IPython is not imported for that."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def watch() -> None:
    """Note from now on when each cell is run."""
    running = shell()
    if running is not None and _note not in running.events.callbacks.get("pre_run_cell", ()):
        running.events.register("pre_run_cell", _note)


def _note(info: Any) -> None:
    _run_at[str(info.raw_cell).strip()] = time.time()


def cell_of(answer: object) -> str:
    """The text of the cell that defined a function or class, or its own text if it is from a file; "" if unknown."""
    code = _code(answer)
    if code is None:
        return ""
    entry = linecache.cache.get(code.co_filename, ())
    if len(entry) > 1 and entry[1] is None:  # put there by IPython: the text of a cell, and of no file
        return "".join(linecache.getlines(code.co_filename)).strip()
    try:
        return inspect.cleandoc("\n" + inspect.getsource(answer))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _code(answer: object) -> CodeType | None:
    codes = (function.__code__ for function in _functions(answer))
    return next((code for code in codes if code.co_filename != "<string>"), None)  # that is a dataclass's __init__


def _functions(answer: object) -> Iterator[FunctionType]:
    """The Python functions that an answer is, wraps, or has as methods of its own."""
    inner = inspect.unwrap(answer) if callable(answer) else answer
    methods = vars(inner).values() if isinstance(inner, type) else ()
    for found in (inner, getattr(inner, "_init_fn", None), *methods):  # the second: of a custom operator of torch
        plain = getattr(found, "__func__", found)
        if isinstance(plain, FunctionType):
            yield plain


def changed_since(answer: object) -> str:
    """One sentence where the saved notebook no longer has the cell that this answer was run from, else ""."""
    cell, path = cell_of(answer), _notebook()
    begun = _run_at.get(cell)
    if not cell or path is None or begun is None:
        return ""
    try:
        if path.stat().st_mtime < begun + SETTLING or path.stat().st_size > LARGEST_FILE:
            return ""
        saved = {"".join(c["source"]).strip() for c in json.loads(path.read_bytes())["cells"]}
    except (OSError, ValueError, KeyError, TypeError):  # moved, half written, no notebook
        return ""
    if cell in saved:
        return ""
    return ("This is about what was last run. The notebook, saved after that, has another text in that cell: "
            "run the cell again to check what it says now.")  # fmt: skip


def _notebook() -> Path | None:
    """The file of the running notebook, where Jupyter's server (or VS Code) has told its name."""
    running = shell()
    told = os.environ.get("JPY_SESSION_NAME") or (running and running.user_ns.get("__vsc_ipynb_file__"))
    path = Path(told) if isinstance(told, str) else None
    return path if path and path.suffix == ".ipynb" and path.is_file() else None
