"""Notebook files: read with one clear message where that fails, and replaced atomically."""

from __future__ import annotations

import difflib
import json
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from torchcourse.model.files import replacing

__all__ = [
    "Cell", "Notebook", "WorkspaceError", "cells", "did_you_mean", "exercise_of", "exercises_of", "find_cell",
    "find_notebook", "grade_id", "is_check", "is_question", "normalized", "read", "replace_file", "replace_text",
    "set_aside", "source_of", "with_source", "write",
]  # fmt: skip

Cell: TypeAlias = dict[str, Any]
Notebook: TypeAlias = dict[str, Any]

NAMED_LIKE_CHECKS = frozenset({"check_batch"})
"""The exercises whose own names look like the grade_id of a check cell, which is `check_` and the exercise's name."""
ASIDE = "aside"
"""The folder of a working copy for what commands take out of notebooks."""


class WorkspaceError(Exception):
    """A learner's command cannot be carried out. The message says why and what to do; nothing was changed."""


def did_you_mean(name: str, known: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """Return a suggestion of the nearest known name, to append to a message; "" if none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {show(near[0])}?" if near else ""


def find_notebook(name: str) -> Path:
    """Return the path of the notebook `name`, given with or without its ending, in this folder or in `work`.

    Raises:
        WorkspaceError: if there is none; the message suggests the nearest name.
    """
    named = Path(name if name.endswith(".ipynb") else f"{name}.ipynb")
    places = [named, Path("work") / named] if named.parent == Path() else [named]
    found = next((path for path in places if path.is_file()), None)
    if found:
        return found
    there = {path.name: path for place in places for path in sorted(place.parent.glob("*.ipynb"))}
    suggestion = did_you_mean(named.name, there, show=lambda near: str(there[near]))
    raise WorkspaceError(f"There is no notebook {named}.{suggestion}")


def read(path: Path) -> Notebook:
    """Read the notebook at `path`.

    Raises:
        WorkspaceError: if there is none, or it is damaged.
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise WorkspaceError(f"There is no notebook {path}.") from None
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise WorkspaceError(
            f"{path} is not a complete notebook{where}: a save was interrupted, or another program wrote to it. "
            f"{_recovery_advice(path)}"
        ) from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise WorkspaceError(f"{path} is not a notebook. {_recovery_advice(path)}")
    return notebook


def _recovery_advice(path: Path) -> str:
    """Return advice on a damaged notebook: Jupyter's checkpoint if that is complete."""
    saved = path.parent / ".ipynb_checkpoints" / f"{path.stem}-checkpoint.ipynb"
    try:
        complete = isinstance(json.loads(saved.read_text(encoding="utf-8")).get("cells"), list)
    except (OSError, ValueError, AttributeError):
        complete = False
    if complete:
        return f"Jupyter's checkpoint of it is complete; to go back to it: cp '{saved}' '{path}'"
    return "If it is open in JupyterLab, save it again; else move it away, and `torchcourse lab` copies a new one."


def cells(notebook: Notebook) -> Iterator[Cell]:
    """Yield the cells of a notebook, skipping entries that are no cells at all."""
    yield from (cell for cell in notebook["cells"] if isinstance(cell, dict))


def source_of(cell: Cell) -> str:
    """Return a cell's source as one string; the format also allows a list of lines."""
    source = cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))


def with_source(cell: Cell, source: str) -> Cell:
    """Return a copy of a cell with another source; a code cell loses its outputs."""
    changed = {**cell, "source": source.splitlines(keepends=True)}
    return {**changed, "outputs": [], "execution_count": None} if cell.get("cell_type") == "code" else changed


def grade_id(cell: Cell) -> str:
    """Return a cell's `grade_id`: the exercise's name for an answer cell, `check_` before it for a check, else ""."""
    metadata = cell.get("metadata")
    known = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = known.get("grade_id") if isinstance(known, dict) else None
    return name if isinstance(name, str) else ""


def find_cell(notebook: Notebook, name: str) -> Cell | None:
    """Return the cell with this `grade_id`: the name of an exercise gives its answer cell."""
    return next((cell for cell in cells(notebook) if grade_id(cell) == name), None)


def is_check(grade_id: str) -> bool:
    """Return whether a cell with this grade_id is the check cell of an exercise, and not its answer cell."""
    return grade_id.startswith("check_") and grade_id not in NAMED_LIKE_CHECKS


def is_question(cell: Cell) -> bool:
    """Return whether a cell is a question that is answered in words and graded by hand: no exercise has its name."""
    if not grade_id(cell):
        return False
    known = cell["metadata"]["nbgrader"]
    return known.get("solution") is True and known.get("grade") is True


def exercise_of(grade_id: str) -> str:
    """Return the exercise that a cell with this grade_id, its answer cell or its check cell, belongs to."""
    return grade_id.removeprefix("check_") if is_check(grade_id) else grade_id


def exercises_of(notebook: Notebook) -> list[str]:
    """Return the names of the exercises that a notebook has a check or an answer cell for, in order."""
    names = (exercise_of(grade_id(cell)) for cell in cells(notebook) if not is_question(cell))
    return list(dict.fromkeys(filter(None, names)))


def normalized(source: str) -> str:
    """Return code without comments and white space, to compare programs."""
    lines = (re.sub(r"(^|\s)#.*$", "", line) for line in source.splitlines())
    return re.sub(r"\s+", "", "".join(lines))


def write(path: Path, notebook: Notebook) -> None:
    """Replace the notebook at `path`, in the form in which Jupyter writes it.

    Raises:
        WorkspaceError: if that fails; the file is then unchanged.
    """
    replace_text(path, json.dumps(notebook, ensure_ascii=False, indent=1) + "\n")


def replace_text(path: Path, content: str) -> None:
    """Write a text file atomically, see `replace_file`.

    Raises:
        WorkspaceError: if that fails; the file is then unchanged.
    """
    try:
        replace_file(path, content.encode("utf-8", errors="replace"))
    except OSError as error:
        state = "It is unchanged." if path.exists() else "Nothing was created."
        raise WorkspaceError(f"{path} cannot be written: {error.strerror}. {state}") from None


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: a crash or a full disk leaves the old content. Links and permissions are kept.

    Raises:
        OSError: if that fails; the file is then unchanged.
    """
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    with replacing(path, several_writers=True, durable=True) as part:
        part.write_bytes(content)
        part.chmod(mode)


def set_aside(path: Path, name: str, content: str) -> Path:
    """Save what a command will take out of the notebook at `path` in a new file, in the folder `aside` next to it.

    Returns:
        The file. Its name is `name` with the time inserted.

    Raises:
        WorkspaceError: if that fails.
    """
    folder, stem, ending = path.parent / ASIDE, Path(name).stem, Path(name).suffix
    now = time.strftime("%Y-%m-%d_%H-%M-%S")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise WorkspaceError(f"{folder} cannot be created: {error.strerror}. {path} is unchanged.") from None
    names = (f"{stem}_{now}{more}{ending}" for more in ["", *(f"_{n}" for n in range(2, 1000))])
    aside = next(folder / name for name in names if not (folder / name).exists())
    replace_text(aside, content)
    return aside
