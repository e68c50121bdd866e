"""The instructor's commands on graded work: report, diff, export."""

from __future__ import annotations

import contextlib
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograde.cli.console import (
    check_lessons_of_class,
    console,
    gradebook_errors,
    lesson_names,
    pluralized,
    show_changes,
    split_lessons,
    stderr,
    stop,
    write_errors,
)
from autograde.cli.quick_imports import quick_imports

if TYPE_CHECKING:
    from autograde.results.handing_in import HandedIn

__all__ = ["diff", "export", "report"]


def report(
    out: Annotated[Path, typer.Argument(help="the folder that `torchcourse grade --out` wrote")],
    html: Annotated[Path | None, typer.Option("--html", help="the page; OUT/report.html if not given")] = None,
    mistakes: Annotated[
        Path | None, typer.Option(help="make this notebook of the ten most frequent mistakes, to show, and no page")
    ] = None,
    lessons: Annotated[str, typer.Option(help="for --mistakes, such as 05_training; all, if none is named")] = "",
    since: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="for --mistakes: only what was handed in on this day (UTC) or later"),
    ] = None,
    exercise: Annotated[
        str, typer.Option(help="make a page with everybody's answer to this exercise or question, OUT/EXERCISE.html")
    ] = "",
) -> None:
    """Make a page about a class: who falls behind, scores, pass rates, common mistakes, time-outs, similar answers."""
    from autograde.files import write_atomically
    from autograde.report.class_report import report as report_page
    from autograde.report.exercise_page import exercise_page
    from autograde.report.mistakes_notebook import mistakes_notebook
    from autograde.results.grades_table import BadTableError
    from torchcourse.model.catalogue import UnknownExerciseError

    if since and not mistakes:
        stop("--since goes with --mistakes.")
    if mistakes and exercise:
        stop("--mistakes and --exercise make two pages: give one of them.")
    _warn_of_unknown_lessons(out)
    times = _times(out)
    if since and not times:
        stop(f"It is not known when anything in {out} was handed in: leave out --since.")
    target = mistakes or html or out / f"{exercise or 'report'}.html"
    try:
        if exercise:
            made = exercise_page(out, exercise)
        else:
            day = since and since.date()
            made = (mistakes_notebook(out, split_lessons(lessons), day, times) if mistakes
                    else report_page(out, target, times))  # fmt: skip
    except (BadTableError, UnknownExerciseError) as error:
        stop(str(error))
    with write_errors(target):
        write_atomically(target, made)
    if mistakes:
        console.print(f"The mistakes are in {target}; it names nobody, but read the answers first.", markup=False)
    else:
        console.print(f"The {'answers are' if exercise else 'report is'} in {target}; it names learners.", markup=False)


def _times(out: Path) -> list[HandedIn]:
    """Return when submissions were handed in; nothing where the gradebook cannot be read: a page needs no times."""
    from sqlalchemy.exc import SQLAlchemyError

    from autograde.classroom.class_config import class_gradebook
    from autograde.results.handing_in import handed_in

    try:
        return handed_in(class_gradebook(out))
    except SQLAlchemyError:
        return []


def _warn_of_unknown_lessons(out: Path) -> None:
    """Print which lessons in a folder's results are not known here, and so lack their answers in what is made."""
    from autograde.results.grades_table import BadTableError, read_table
    from torchcourse.model.catalogue import LESSONS, in_order

    with contextlib.suppress(BadTableError):  # which is said later
        for name in in_order(row.lesson for row in read_table(out / "grades.csv").rows):
            if name not in LESSONS:
                stderr.print(f"WARNING: {name} is not known here, so its answers are left out: a lesson of your own "
                             "needs `torchcourse --course DIR report`.", markup=False)  # fmt: skip


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
    lesson_names(list(titles))
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
    console.print(f"{graded}, {pluralized(ungraded, 'empty cell')}: {out}", markup=False)
