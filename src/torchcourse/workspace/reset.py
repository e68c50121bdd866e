"""Put the released stub of an exercise back into a learner's notebook; their answer is set aside in a file."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from torchcourse.model.lessons import released
from torchcourse.model.notebook_file import (
    Notebook,
    WorkspaceError,
    did_you_mean,
    exercises_of,
    find_cell,
    is_check,
    is_question,
    normalized,
    read,
    set_aside,
    source_of,
    with_source,
)
from torchcourse.workspace import progress, working_copy
from torchcourse.workspace.notebook_trust import rewrite

__all__ = ["SetAside", "reset"]


@dataclass(frozen=True)
class SetAside:
    """An answer that was set aside.

    Attributes:
        file: the file that has it now.
        cell: the id of its cell, "" if the notebook gives none.
        stub: the released source of that cell.
    """

    file: Path
    cell: str
    stub: str


def reset(path: Path, exercise: str, *, in_file: bool = True) -> SetAside | None:
    """Set the answer to `exercise` aside, and put its stub back into the notebook at `path`.

    Args:
        path: the notebook.
        exercise: the name of the exercise.
        in_file: whether to change the notebook; otherwise that is left to whoever shows it.

    Returns:
        Where the answer is, and what takes its place; None if it was still the stub.

    Raises:
        WorkspaceError: if the notebook or the exercise does not exist, or writing fails; the notebook is unchanged.
    """
    mine, release = read(path), _release_of(path)
    stub, cell = find_cell(release, exercise), find_cell(mine, exercise)
    if stub is None or is_check(exercise):
        known = exercises_of(release)
        remedy = did_you_mean(exercise, known) or f" It has {', '.join(known)}."
        raise WorkspaceError(f"{path.name} has no exercise {exercise!r}.{remedy}")
    if cell is None:
        raise WorkspaceError(f"The cell of {exercise} is no longer in {path}: torchcourse update puts it back.")
    answer = source_of(cell)
    if normalized(answer) == normalized(source_of(stub)):
        return None
    aside = set_aside(path, f"{exercise}.{'md' if is_question(cell) else 'py'}", answer + "\n")
    if in_file:
        cells = [with_source(c, source_of(stub)) if c is cell else c for c in mine["cells"]]
        rewrite(path, {**mine, "cells": cells})
    home = progress.working_copy_of(path.parent)
    with contextlib.suppress(OSError):  # the answer is safe; a missing record does no harm
        if home:
            progress.record(home, exercise, progress.OPEN)
    return SetAside(aside, cell.get("id", ""), source_of(stub))


def _release_of(path: Path) -> Notebook:
    """Return the release that a notebook was made from, or the installed one if that is not known."""
    home = progress.working_copy_of(path.parent)
    if home and working_copy.origin(home, path.name).is_file():
        with contextlib.suppress(WorkspaceError):  # damaged: the installed release is the closest to it
            return read(working_copy.origin(home, path.name))
    if path.name not in released():
        raise WorkspaceError(f"{path.name} is no lesson of this course: a lesson's notebook keeps its released name.")
    return read(released()[path.name])
