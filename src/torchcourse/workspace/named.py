"""Find what a learner names in a terminal: notebook and exercises. Imports no torch, so a typo is answered at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from torchcourse.model.lessons import Lesson, lessons
from torchcourse.model.notebook_file import WorkspaceError, did_you_mean, exercises_of, find_notebook, read
from torchcourse.model.path import AmbiguousNumberError, by_number

__all__ = ["find_named"]


def find_named(words: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the notebook, and the exercises in it, that a learner names.

    Args:
        words: a notebook, a lesson ("01_tensors", "01", "1") or an exercise, and then further exercises; for lessons
            and exercises, the beginning of a name that no other has is enough.

    Raises:
        WorkspaceError: if there is no such notebook or exercise, or a beginning fits several.
    """
    first, others = words[0], list(words[1:])
    try:
        notebook = find_notebook(first)
    except WorkspaceError:
        if "/" in first or "." in first:  # a path
            raise
        lesson = _lesson(first)
        if lesson is None:
            lesson, others = _owner(first), list(words)
        notebook = find_notebook(lesson.name)
    known = exercises_of(read(notebook))
    return notebook, [_exercise(name, known) for name in others]


def _lesson(word: str) -> Lesson | None:
    """Return the one lesson whose number is this, or whose name begins so.

    Raises:
        WorkspaceError: if several have this number.
    """
    known = {x.name: x for x in lessons()}
    try:
        name = by_number(word, known)
    except AmbiguousNumberError as error:
        raise WorkspaceError(str(error)) from None
    found = [known[name]] if name in known else [x for x in known.values() if x.name.startswith(word)]
    return found[0] if len(found) == 1 else None


def _owner(word: str) -> Lesson:
    """Return the lesson of the one exercise that has this name or begins so.

    Raises:
        WorkspaceError: if no exercise does, or several.
    """
    every = {name: lesson for lesson in lessons() for name in lesson.exercises}
    if not any(name.startswith(word) for name in every):
        names = [lesson.name for lesson in lessons()]
        remedy = did_you_mean(word, [*names, *every]) or f" The lessons are {', '.join(names)}."
        raise WorkspaceError(f"There is no lesson or exercise {word!r}.{remedy}")
    return every[_exercise(word, every)]


def _exercise(word: str, known: Iterable[str]) -> str:
    """Return the one known name that is `word` or begins so; the name of an exercise elsewhere stays as it is.

    Raises:
        WorkspaceError: if there is no such exercise, or several begin so.
    """
    names = list(known)
    every = [name for lesson in lessons() for name in lesson.exercises]
    found = [word] if word in names else [name for name in names if name.startswith(word)]
    if len(found) > 1:
        raise WorkspaceError(f"{word!r} may be {', '.join(found[:-1])} or {found[-1]}: type more of its name.")
    if not found and word not in every:
        remedy = did_you_mean(word, [*names, *every]) or f" The notebook has {', '.join(names)}."
        raise WorkspaceError(f"There is no exercise {word!r}.{remedy}")
    return (found or [word])[0]
