"""The instructor's commands on graded work: report, diff, export."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from autograde.cli.console import (
    check_lessons_of_class,
    console,
    gradebook_errors,
    one_lesson,
    pluralized,
    show_changes,
    split_lessons,
    stderr,
    stop,
    write_errors,
)
from autograde.cli.quick_imports import quick_imports
from autograde.errors import ClassError, RefusedError

if TYPE_CHECKING:
    from autograde.report.enrolled import Enrolled
    from autograde.results.final_scores import FinalScores
    from autograde.results.grades_table import Row
    from autograde.results.submission_times import HandedIn

__all__ = ["diff", "export", "report"]

Found = TypeVar("Found")
CLASS_FILES = {"grades.csv", "roster.csv", "gradebook.db", "collected.json", "grading-log.jsonl", "nbgrader_config.py"}
"""Files of a class folder that an export must not replace."""


def report(
    out: Annotated[Path, typer.Argument(help="the folder that `torchcourse grade --out` wrote")],
    html: Annotated[Path | None, typer.Option("--html", help="the page; OUT/report.html if not given")] = None,
    mistakes: Annotated[
        Path | None, typer.Option(help="make this notebook of the ten most frequent mistakes, to show, and no page")
    ] = None,
    lessons: Annotated[str, typer.Option(help="for --mistakes, such as 05_training; all, if none is named")] = "",
    since: Annotated[
        str, typer.Option(metavar="DAY", help="for --mistakes: only of what was handed in on this day or later")
    ] = "",
    exercise: Annotated[
        str, typer.Option(help="make a page with everybody's answer to this exercise or question, OUT/EXERCISE.html")
    ] = "",
) -> None:
    """Make a page about a class: who falls behind, scores, pass rates, common mistakes, time-outs, similar answers."""
    from autograde.files import write_atomically
    from autograde.report.class_report import report as report_page
    from autograde.report.exercise_page import exercise_page
    from autograde.report.mistakes_notebook import mistakes_notebook
    from autograde.results.grades_table import BadTableError, read_table
    from torchcourse.model.catalogue import UnknownExerciseError
    from torchcourse.workspace.notebook_trust import trust

    if since and not mistakes:
        stop("--since goes with --mistakes.")
    if mistakes and exercise:
        stop("--mistakes and --exercise make two pages: give one of them.")
    if mistakes and mistakes.exists():
        stop(f"{mistakes} exists, and may hold what a class wrote into it: choose another name, or delete it.")
    target = mistakes or html or out / f"{exercise or 'report'}.html"
    try:
        rows, roster = read_table(out / "grades.csv").rows, _roster(out)
        _warn_of_unknown_lessons(rows)
        if exercise:
            made = exercise_page(out, exercise, roster)
        elif mistakes:
            day = _day(since) if since else None
            made = mistakes_notebook(out, split_lessons(lessons), day, _recent(out, rows, day) if day else (), roster)
        else:
            made = report_page(out, target, *_times_and_scores(out), roster)
    except (BadTableError, UnknownExerciseError) as error:
        stop(str(error))
    with write_errors(target):
        write_atomically(target, made)
    if mistakes:
        trust(mistakes)
        console.print(f"The mistakes are in {target}; it names nobody, but read the answers first.")
    else:
        console.print(f"The {'answers are' if exercise else 'report is'} in {target}; it names learners.")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        stop("--since wants a day, such as 2026-11-20.")


def _recent(out: Path, rows: Sequence[Row], day: date) -> set[tuple[str, str]]:
    """Return the submissions, by student and lesson, that were handed in on a day or later; stop if there is none.
    Print how many are left out because their time is not known."""
    try:
        times = _handed_in(out)
    except RefusedError as error:
        stop(str(error))
    if not times:
        stop(f"No submission in {out.resolve()} has a time. A class folder keeps times, from timestamp.txt beside the "
             "notebooks; without them leave out --since.")  # fmt: skip
    recent = {(one.student, one.lesson) for one in times if one.time.date() >= day}
    if not recent:
        stop(f"Nothing was handed in since {day}; the latest is of {times[-1].time.date()}.")
    timed = {(one.student, one.lesson) for one in times}
    unknown = {(row.student, row.lesson) for row in rows if row.status != "missing"} - timed
    if unknown:
        have = "has no time and is" if len(unknown) == 1 else "have no time and are"
        console.print(f"{pluralized(len(unknown), 'submission')} {have} left out.")
    return recent


def _roster(out: Path) -> dict[str, Enrolled]:
    """Return the students on the roster of a class folder, if it has one; print why not if it is damaged."""
    from autograde.classroom.class_folder import roster_of
    from autograde.classroom.roster import RosterError
    from autograde.report.enrolled import Enrolled

    try:
        members = roster_of(out) or ()
    except RosterError as error:
        stderr.print(f"WARNING: names, and members who handed nothing in, are left out. {error}")
        return {}
    return {m.id: Enrolled(", ".join(filter(None, (m.last_name, m.first_name))), m.group) for m in members}


def _times_and_scores(out: Path) -> tuple[list[HandedIn], FinalScores]:
    """Return when submissions were handed in, and the scores that count; print what the page lacks if the gradebook
    cannot be read."""
    from autograde.results.final_scores import final_scores

    try:
        return _handed_in(out), _read_gradebook(out, final_scores)
    except RefusedError as error:
        stderr.print("WARNING: the page has the automatic scores, and does not show when lessons were handed in. "
                     f"{error}")  # fmt: skip
        return [], {}


def _handed_in(out: Path) -> list[HandedIn]:
    """Return when submissions were handed in, earliest first.

    Raises:
        RefusedError: when the gradebook cannot be read.
    """
    from autograde.results.submission_times import handed_in

    return _read_gradebook(out, handed_in)


def _read_gradebook(out: Path, read: Callable[[str], Found]) -> Found:
    """Return what `read` finds in the gradebook of a folder, given its URL.

    Raises:
        RefusedError: when the gradebook cannot be read.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from autograde.batch.preflight import check_gradebook, reason_of
    from autograde.classroom.class_config import class_gradebook

    try:
        url = class_gradebook(out)
        check_gradebook(url)
        return read(url)
    except ClassError as error:
        raise RefusedError(str(error)) from error
    except (SQLAlchemyError, ValueError) as error:
        raise RefusedError(f"The gradebook of {out} cannot be read ({reason_of(error)}).") from error


def _warn_of_unknown_lessons(rows: Sequence[Row]) -> None:
    """Print which lessons in a table of grades are not known here, and so lack their answers in what is made."""
    from torchcourse.model.catalogue import LESSONS, in_order

    for name in in_order(row.lesson for row in rows):
        if name not in LESSONS:
            stderr.print(f"WARNING: {name} is not known here, so its answers are left out: a lesson of your own "
                         "needs `torchcourse --course DIR report`.")  # fmt: skip


def diff(
    old: Annotated[Path, typer.Argument(help="a grades.csv, or the folder it lies in")],
    new: Annotated[Path, typer.Argument(help="the other one")],
) -> None:
    """Show which scores differ between two gradings."""
    from autograde.classroom.compare import changes, read_grades

    try:
        found = changes(read_grades(old), read_grades(new))
    except ValueError as error:
        stop(str(error))
    show_changes(found)


def export(
    form: Annotated[str, typer.Option("--format", help="csv, canvas, moodle or json")] = "csv",
    folder: Annotated[Path, typer.Option("--class", help="a class folder, or the folder of `grade --out`")] = Path(),
    out: Annotated[Path | None, typer.Option(help="the file to write; printed, if none is named")] = None,
    lessons: Annotated[str, typer.Option(help="such as 01_tensors,02_autograd; all, if none is named")] = "",
    column: Annotated[
        list[str] | None, typer.Option(help='LESSON="what it is called there", as Canvas wants: "Tensors (123)"')
    ] = None,
) -> None:
    """Write scores for Canvas, Moodle, spreadsheets or programs, with manual points and late penalties."""
    from autograde.files import write_atomically

    with quick_imports():
        from autograde.classroom.class_config import class_gradebook
        from autograde.classroom.export import FORMATS, scores_of
        from autograde.classroom.export import export as as_text

    if form not in FORMATS:
        stop(f"There is no format {form}: --format is one of {', '.join(FORMATS)}.")
    titles = dict(part.split("=", 1) for part in column or [] if "=" in part)
    if len(titles) < len(column or []):
        stop('--column is LESSON="title", once for a lesson.')
    titles = {one_lesson(name): title for name, title in titles.items()}
    if out and out.name in CLASS_FILES and out.absolute().parent == folder.absolute():
        stop(f"{out} is a file that the class keeps: choose another --out.")
    names = split_lessons(lessons) if lessons else []
    check_lessons_of_class(folder, names)
    try:
        with gradebook_errors(folder):
            scores = scores_of(class_gradebook(folder), names)
    except FileNotFoundError as error:
        stop(str(error))
    text = as_text(scores, form, titles)
    if out is None:
        sys.stdout.buffer.write(text.encode())
        return
    with write_errors(out):
        write_atomically(out, text)
    ungraded = sum(score.raw is None for score in scores)
    graded = pluralized(len(scores) - ungraded, "score")
    console.print(f"{graded}, {pluralized(ungraded, 'empty cell')}: {out}")
