"""Putting the released stub of an exercise back in a learner's notebook; the answer that was there is kept aside."""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path

from torchcourse import desk, progress
from torchcourse.lessons import released
from torchcourse.notebookfile import (
    DeskError,
    Notebook,
    find_cell,
    grade_id,
    keep_aside,
    read,
    set_text,
    squeezed,
    text,
)  # fmt: skip
from torchcourse.signing import rewrite

__all__ = ["reset"]


def reset(path: Path, exercise: str) -> Path | None:
    """Put the stub of `exercise` back into the notebook at `path`.

    Returns:
        The file that keeps the answer that was there; None where it was the stub still.

    Raises:
        DeskError: when notebook or exercise are not there, or something cannot be written. The notebook is as it was.
    """
    mine, release = read(path), _release_of(path)
    stub, cell = find_cell(release, exercise), find_cell(mine, exercise)
    if stub is None or exercise.startswith("check_"):
        raise DeskError(f"{path.name} has no exercise {exercise!r}.{_nearest(exercise, release)}")
    if cell is None:
        raise DeskError(f"The cell of {exercise} is no longer in {path}: torchcourse update puts it back.")
    answer = text(cell)
    if squeezed(answer) == squeezed(text(stub)):
        return None
    kept = keep_aside(path, f"{exercise}.py", answer + "\n")
    cells = [set_text(c, text(stub)) if c is cell else c for c in mine["cells"]]
    rewrite(path, {**mine, "cells": cells})
    _forget(path, exercise)
    return kept


def _forget(path: Path, exercise: str) -> None:
    """The exercise is open again. The notebook is what counts, so a record that cannot be written is no fault."""
    home = progress.desk_of(path.parent)
    try:
        if home:
            progress.note(home, exercise, progress.OPEN)
    except OSError:
        return


def _release_of(path: Path) -> Notebook:
    """The release that a notebook was made from, as far as that is known."""
    home = progress.desk_of(path.parent)
    if home and desk.origin(home, path.name).is_file():
        with contextlib.suppress(DeskError):  # not whole: the installed one is the nearest to it
            return read(desk.origin(home, path.name))
    if not (released() / path.name).is_file():
        raise DeskError(f"{path.name} is no lesson of this course: a lesson's notebook keeps its released name.")
    return read(released() / path.name)


def _nearest(name: str, release: Notebook) -> str:
    checks = [grade_id(cell) for cell in release["cells"] if grade_id(cell).startswith("check_")]
    near = difflib.get_close_matches(name, [check.removeprefix("check_") for check in checks], n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""
