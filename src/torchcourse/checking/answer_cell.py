"""Find the cell that an answer came from, and warn if the saved notebook no longer has it.

Functions live in memory and cells in a file: learners who edit a cell and forget to run it check the old answer. That
is certain only if the file was saved after the cell was run and no longer has it, so only then is there a warning; our
JupyterLab saves every few seconds. A cell whose last run failed leaves the old answer too.
"""

from __future__ import annotations

import inspect
import json
import linecache
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from torchcourse.model.notebook_file import find_cell, read, source_of
from torchcourse.workspace import session

__all__ = ["CHANGED", "LastRun", "cell_of", "changed_since", "id_of", "is_saved", "running_cell", "watch"]

CHANGED = "The cell has changed since this check: run it, unless you have, and check again."
LARGEST_FILE = 20_000_000
"""Size in bytes up to which a check reads the notebook; larger ones (with videos, say) are not read."""
SETTLING = 2.0
"""Seconds that a save may take if it began before the cell was run."""


@dataclass
class LastRun:
    """The last run of a cell in this session.

    Attributes:
        began: when, in seconds since the epoch.
        cell: the cell's id, "" where the front end does not tell it.
        exception: the name of the exception that ended it, "" if none did.
    """

    began: float
    cell: str = ""
    exception: str = ""


_runs: dict[str, LastRun] = {}
"""The last run of each cell, by its source."""


def watch() -> None:
    """Record from now on when each cell is run, and which exception ended it."""
    shell = session.shell()
    for event, record in (("pre_run_cell", _record), ("post_run_cell", _record_outcome)):
        if shell is not None and record not in shell.events.callbacks.get(event, ()):
            shell.events.register(event, record)


def _record(info: Any) -> None:
    _runs[str(info.raw_cell).strip()] = LastRun(time.time(), info.cell_id or "")


def _record_outcome(result: Any) -> None:
    run = _runs.get(str(result.info.raw_cell).strip()) if result.info else None
    error = result.error_before_exec or result.error_in_exec
    if run is not None and error is not None:
        run.exception = type(error).__name__


def cell_of(answer: object) -> str:
    """Return the source of the cell that defined a function or class; its own source if from a file; "" if unknown."""
    code = _code(answer)
    if code is None:
        return ""
    entry = linecache.cache.get(code.co_filename, ())
    if len(entry) > 1 and entry[1] is None:  # IPython puts cells there, with no modification time
        return "".join(linecache.getlines(code.co_filename)).strip()
    try:
        return inspect.cleandoc("\n" + inspect.getsource(answer))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def running_cell() -> str:
    """Return the id of the cell that is running, or was run last; "" if unknown."""
    return max(_runs.values(), key=lambda run: run.began).cell if _runs else ""


def id_of(source: str) -> str:
    """Return the id of the cell that was run last with this source; "" if unknown."""
    return _runs[source].cell if source in _runs else ""


def _code(answer: object) -> CodeType | None:
    codes = (function.__code__ for function in _functions(answer))
    return next((code for code in codes if code.co_filename != "<string>"), None)  # that is a dataclass's __init__


def _functions(answer: object) -> Iterator[FunctionType]:
    """Yield the Python functions that an answer is, wraps, or has as methods of its own."""
    inner = inspect.unwrap(answer) if callable(answer) else answer
    methods = vars(inner).values() if isinstance(inner, type) else ()
    for candidate in (inner, getattr(inner, "_init_fn", None), *methods):  # torch's custom operators have an _init_fn
        plain = getattr(candidate, "__func__", candidate)
        if isinstance(plain, FunctionType):
            yield plain


def changed_since(answer: object, exercise: str = "") -> str:
    """Return a warning if this answer is not what its cell has now, else "".

    Args:
        answer: the function or class that was checked.
        exercise: its name, by which a cell that defines it and failed is found.
    """
    cell, path = cell_of(answer), session.notebook_file()
    latest = _latest_definition(exercise) if exercise else None
    if latest is not None and latest != cell and _runs[latest].exception:
        ended = f"The last run of this cell ended with {_runs[latest].exception}"
        return f"{ended}: this is about the version that ran before it." if callable(answer) else f"{ended}."
    if not cell or path is None or cell not in _runs:
        return ""
    try:
        if path.stat().st_mtime < _runs[cell].began + SETTLING or path.stat().st_size > LARGEST_FILE:
            return ""
        saved = {"".join(c["source"]).strip() for c in json.loads(path.read_bytes())["cells"]}
    except (OSError, ValueError, KeyError, TypeError):  # moved, half written, no notebook
        return ""
    if cell in saved:
        return ""
    return CHANGED


def is_saved(exercise: str, path: Path) -> bool:
    """Return whether the notebook at `path` has the cell of an exercise as it was last run in this session.

    Raises:
        WorkspaceError: if the notebook cannot be read.
    """
    cell = find_cell(read(path), exercise)
    latest = _latest_definition(exercise)
    return cell is None or latest is None or source_of(cell).strip() == latest


def _latest_definition(exercise: str) -> str | None:
    """Return the source of the cell that defines an exercise and was run last in this session, if any was."""
    defining = (source for source in _runs if _defines(source, exercise))
    return max(defining, key=lambda source: _runs[source].began, default=None)


def _defines(source: str, name: str) -> bool:
    return re.search(rf"^\s*(def|class)\s+{re.escape(name)}\b", source, re.MULTILINE) is not None
