"""Helpers of the commands: consoles, messages that end a command, and names of lessons."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.console import Console

if TYPE_CHECKING:
    from autograde.classroom.compare import Change

__all__ = [
    "check_lessons_of_class",
    "console",
    "gradebook_errors",
    "is_interactive",
    "lesson_names",
    "one_lesson",
    "place",
    "pluralized",
    "show_changes",
    "split_lessons",
    "stderr",
    "stop",
    "write_errors",
]

DAMAGED = (
    "put a copy of gradebook.db back, or move it away and grade again, without the scores given by hand; in a class "
    "folder run `torchcourse class init` first, with the due dates."
)
GRADEBOOK_REMEDIES = {
    "locked": "close the program that has it open.",
    "readonly": "give yourself write permission for gradebook.db.", "not a database": DAMAGED,
    "malformed": DAMAGED, "no such": DAMAGED,
}  # fmt: skip
console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
stderr = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)


def stop(reason: str) -> NoReturn:
    """End the command with a message and exit status 2."""
    console.print(reason)
    raise typer.Exit(2)


def lesson_names(names: Sequence[str] | None) -> list[str]:
    """Return the lessons of these names or numbers, some with commas between them, each once, or all if none is named;
    stop if one does not exist, or a number is that of several."""
    from torchcourse.model.catalogue import LESSONS, UnknownExerciseError, check_lesson
    from torchcourse.model.own_course import has_lesson_name
    from torchcourse.model.path import AmbiguousNumberError, by_number

    parts = [part.strip() for name in names or LESSONS for part in name.split(",") if part.strip()]
    try:
        found = [by_number(part, LESSONS) for part in parts]
    except AmbiguousNumberError as error:
        stop(str(error))
    for name in found:
        try:
            check_lesson(name)
        except UnknownExerciseError as error:
            remedy = " A lesson of your own needs `torchcourse --course DIR`." if has_lesson_name(name) else ""
            stop(f"{error.args[0]}{remedy}")
    return list(dict.fromkeys(found))


def one_lesson(name: str) -> str:
    """Return the lesson of a name or number; stop unless it names exactly one, and as `lesson_names` does."""
    found = lesson_names([name])
    if len(found) != 1:
        stop(f"{name!r} has to name exactly one lesson{f', not {len(found)}' if found else ''}.")
    return found[0]


def split_lessons(names: str) -> list[str]:
    """Return the lessons of a comma-separated list, or all if it is empty; stop as `lesson_names` does."""
    return lesson_names([names] if names.strip(" ,") else None)


@contextmanager
def gradebook_errors(folder: Path) -> Iterator[None]:
    """Stop with a message if the gradebook of a folder is locked, damaged or out of reach."""
    from nbgrader.api import InvalidEntry
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, InvalidEntry) as error:
        from autograde.batch.preflight import reason_of

        reason = reason_of(error)
        remedy = next(
            (remedy for words, remedy in GRADEBOOK_REMEDIES.items() if words in reason),
            "check that its server is running and accepts your login.",
        )
        stop(f"The gradebook of {folder} cannot be used ({reason}): {remedy} Everything graded so far "
             "is kept; run the same command again to continue.")  # fmt: skip


def check_lessons_of_class(folder: Path, names: Sequence[str]) -> None:
    """Stop if a class folder, or one that `torchcourse grade` has written to, lacks one of these lessons."""
    from autograde.classroom.class_config import class_lessons

    with gradebook_errors(folder):
        known = class_lessons(folder)
    missing = ",".join(name for name in names if name not in known)
    if known and missing:
        stop(f"The class {folder} has no {missing}: it has {', '.join(known)}. "
             f"`torchcourse class init {folder} --lessons {missing}` adds what is missing.")  # fmt: skip


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Stop with a message if `path`, or something in it, cannot be written."""
    try:
        yield
    except OSError as error:
        stop(f"{error.filename or path} could not be written: {error.strerror or error}.")


def pluralized(number: float, noun: str) -> str:
    """Return a number with a noun, in the plural where it is not one: "1 row", "2.5 points"."""
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


def place(folder: Path) -> Path:
    """Return a folder as a sentence names it: the present one by its whole path, since "." would look like its end."""
    return folder if folder.name else folder.absolute()


def is_interactive() -> bool:
    """Return whether somebody can answer questions at a terminal."""
    return sys.stdin.isatty()


def show_changes(changes: Sequence[Change]) -> None:
    """Print the changes between two gradings, and their sums."""
    for change in changes:
        console.print(str(change))
    gained, lost = (sum(abs(c.points) for c in changes if sign * c.points > 0) for sign in (1, -1))
    verdicts = pluralized(len(changes), "verdict")
    count = len({change.student for change in changes})
    students = "one student" if count == 1 else f"{count} students"
    differ = "differs" if len(changes) == 1 else "differ"
    console.print(f"{verdicts} of {students} {differ}: {pluralized(gained, 'point')} gained, {lost:g} lost.")
