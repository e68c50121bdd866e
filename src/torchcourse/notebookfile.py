"""Lesson notebooks as files: read with one clear message where that fails, written whole or not at all."""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Cell", "DeskError", "Notebook", "cells", "find_cell", "find_notebook", "grade_id", "keep_aside", "read",
           "set_text", "squeezed", "text", "write", "write_text"]  # fmt: skip

Cell: TypeAlias = dict[str, Any]
Notebook: TypeAlias = dict[str, Any]

ASIDE = "aside"
"""The folder in a working copy that keeps what a command took out of a notebook."""


class DeskError(Exception):
    """What one of the learner's commands cannot do: one message with the remedy. Nothing was changed."""


def find_notebook(name: str) -> Path:
    """The notebook that a learner means: a path, with or without its ending, here or in `work`.

    Raises:
        DeskError: when there is none; the nearest is named.
    """
    named = Path(name if name.endswith(".ipynb") else f"{name}.ipynb")
    places = [named, Path("work") / named] if named.parent == Path() else [named]
    found = next((path for path in places if path.is_file()), None)
    if found:
        return found
    there = {path.name: path for place in places for path in sorted(place.parent.glob("*.ipynb"))}
    near = difflib.get_close_matches(named.name, there, n=1, cutoff=0.5)
    raise DeskError(f"There is no notebook {named}." + (f" Did you mean {there[near[0]]}?" if near else ""))


def read(path: Path) -> Notebook:
    """The notebook at `path`.

    Raises:
        DeskError: when there is none that is whole.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DeskError(f"There is no notebook {path}.") from None
    except OSError as error:
        raise DeskError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise DeskError(f"{path} is not a whole notebook{where}: a save was cut short, or something else wrote to it. "
                        f"{_way_back(path)}") from None  # fmt: skip
    if not isinstance(found, dict) or not isinstance(found.get("cells"), list):
        raise DeskError(f"{path} holds no notebook, but something else. {_way_back(path)}")
    return found


def _way_back(path: Path) -> str:
    saved = path.parent / ".ipynb_checkpoints" / f"{path.stem}-checkpoint.ipynb"
    try:
        whole = isinstance(json.loads(saved.read_text(encoding="utf-8")).get("cells"), list)
    except (OSError, ValueError, AttributeError):
        whole = False
    if whole:
        return f"Jupyter's checkpoint of it is whole; to go back to it: cp '{saved}' '{path}'"
    return "Save it again from JupyterLab if it is open there; else move it away, and `torchcourse lab` copies it anew."


def cells(notebook: Notebook) -> Iterator[Cell]:
    """The cells that are cells, whatever else a file may hold among them."""
    yield from (cell for cell in notebook["cells"] if isinstance(cell, dict))


def text(cell: Cell) -> str:
    """A cell's source as one text."""
    source = cell.get("source", "")
    return "".join(filter(_is_text, source)) if isinstance(source, list) else source if _is_text(source) else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def set_text(cell: Cell, source: str) -> Cell:
    """A copy of the cell with another source, and for code without what the old one had put out."""
    changed = {**cell, "source": source.splitlines(keepends=True)}
    return {**changed, "outputs": [], "execution_count": None} if cell.get("cell_type") == "code" else changed


def grade_id(cell: Cell) -> str:
    """The name under which nbgrader knows a cell: that of its exercise, or `check_` and that; "" for other cells."""
    metadata = cell.get("metadata")
    known = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = known.get("grade_id") if isinstance(known, dict) else None
    return name if isinstance(name, str) else ""


def find_cell(notebook: Notebook, name: str) -> Cell | None:
    """The cell that nbgrader knows under this name."""
    return next((cell for cell in cells(notebook) if grade_id(cell) == name), None)


def squeezed(source: str) -> str:
    """A source without comments and white space: what makes it the same."""
    lines = (re.sub(r"(^|\s)#.*$", "", line) for line in source.splitlines())
    return re.sub(r"\s+", "", "".join(lines))


def write(path: Path, notebook: Notebook) -> None:
    """Put a notebook in the place of the one at `path`, as Jupyter writes it.

    Raises:
        DeskError: when that cannot be; the file is then as it was.
    """
    write_text(path, json.dumps(notebook, ensure_ascii=False, indent=1) + "\n")


def write_text(path: Path, content: str) -> None:
    """Write a file so that it is whole or as it was; a link stays one, and the file's permissions stay.

    Raises:
        DeskError: when that cannot be; the file is then as it was.
    """
    target = path.resolve()
    part = ""
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644
        handle, part = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(part).chmod(mode)
        Path(part).replace(target)
    except OSError as error:
        Path(part).unlink(missing_ok=True) if part else None
        raise DeskError(f"{path} cannot be written: {error.strerror}. {_as_it_was(target)}") from None


def _as_it_was(path: Path) -> str:
    return "It is as it was." if path.exists() else "Nothing was made."


def keep_aside(path: Path, name: str, content: str) -> Path:
    """Write what is to be taken out of the notebook at `path` to a new file in the folder `aside` beside it.

    Returns:
        The file, whose name is `name` with the time put into it.

    Raises:
        DeskError: when that cannot be.
    """
    folder, stem, ending = path.parent / ASIDE, Path(name).stem, Path(name).suffix
    now = time.strftime("%Y-%m-%d_%H-%M-%S")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise DeskError(f"{folder} cannot be made: {error.strerror}. {path} is as it was.") from None
    names = (f"{stem}_{now}{more}{ending}" for more in ["", *(f"_{n}" for n in range(2, 1000))])
    kept = next(folder / name for name in names if not (folder / name).exists())
    write_text(kept, content)
    return kept
