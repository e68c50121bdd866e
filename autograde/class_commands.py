"""The instructor's commands around a class: its folder, the learners' archive, collecting, exporting, comparing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograde.commands import _lessons, _stop, console

if TYPE_CHECKING:
    from sqlalchemy.exc import OperationalError

    from autograde.differences import Change

__all__ = ["after_grading", "agreed", "before_grading", "join", "locked"]

SHOWN = 40
"""How many changes are shown one by one."""


def join(app: typer.Typer) -> None:
    """Add the commands to the `torchcourse` command."""
    rooms = typer.Typer(help="Make and keep a class folder.", no_args_is_help=True)
    rooms.callback()(about)
    rooms.command()(init)
    app.add_typer(rooms, name="class")
    for command in (bundle, collect, diff, export):
        app.command()(command)


def locked(folder: Path, error: OperationalError) -> str:
    """What to say where a gradebook cannot be read or written."""
    return (f"The gradebook {folder / 'gradebook.db'} cannot be used ({error.orig}): close what has it open. "
            "What was found out is kept, and the same command goes on from there.")  # fmt: skip


@contextmanager
def _free(folder: Path) -> Iterator[None]:
    """Stop with one message where another program holds the gradebook."""
    from sqlalchemy.exc import OperationalError

    try:
        yield
    except OperationalError as error:
        _stop(locked(folder, error))


def about() -> None:
    """Make and keep a class folder."""


def init(
    folder: Annotated[Path, typer.Argument(help="becomes the class folder; what is there already stays")],
    lessons: Annotated[str, typer.Option(help="such as 01_tensors,02_autograd; all, if none is named")] = "",
    due: Annotated[list[str] | None, typer.Option(help="LESSON=2026-12-01T18:00, or a date for all lessons")] = None,
    roster: Annotated[Path | None, typer.Option(help="a CSV file: id,first_name,last_name,email")] = None,
    sample: Annotated[int, typer.Option(min=0, max=10_000, help="make up this many submissions of each lesson")] = 0,
    name: Annotated[str, typer.Option(help="nbgrader's course_id")] = "torchcourse",
    late: Annotated[float, typer.Option(min=0, max=1, help="the share of a score lost for each day late")] = 0.0,
    exchange: Annotated[Path | None, typer.Option(help="nbgrader's exchange folder")] = None,
) -> None:
    """Make a class folder, for nbgrader and for `torchcourse grade`; or add lessons, due dates and students to one."""
    from autograde.classroom import DueError, due_dates, is_class, make_class, roster_of
    from autograde.cohort import invented_members, write_submissions
    from autograde.journal import BusyError
    from autograde.roster import Roster, RosterError, read_roster

    names = _listed(lessons)
    new = not is_class(folder)
    try:
        when = due_dates(due or [], names)
        enrolled = read_roster(roster) if roster else Roster()
        for fault in enrolled.faults:
            console.print(f"left out: {roster}, {fault}", markup=False)
        if roster and not enrolled.members:
            _stop(f"{roster} names no student that can be taken.")
        members = enrolled.members or (roster_of(folder) if not new else None) or tuple(invented_members(sample))
        with _free(folder):
            make_class(folder, names, due=when, members=members, name=name, late=late, exchange=exchange)
    except (BusyError, DueError, RosterError) as error:
        _stop(str(error))
    console.print(f"{folder} is a class of {len(members)} with {', '.join(names)}.", markup=False)
    if not new and (late or exchange or name != "torchcourse"):
        console.print(f"{folder / 'nbgrader_config.py'} was there already, and is as it was.", markup=False)
    if sample:
        written = write_submissions(folder / "submitted", names, members[:sample], when)
        console.print(f"{len(written)} notebooks were made up in {folder / 'submitted'}.", markup=False)
    if enrolled.faults:
        console.print(f"{len(enrolled.faults)} rows of {roster} were left out: correct them and say the same again.",
                      markup=False)  # fmt: skip


def bundle(
    out: Annotated[Path, typer.Argument(help="the zip file to write")],
    lessons: Annotated[str, typer.Option(help="such as 01_tensors,02_autograd; all, if none is named")] = "",
) -> None:
    """Make the learners' archive: notebooks, wheel, environment and README, with no answers and no hidden cases."""
    from autograde.bundle import BundleError, write_bundle

    try:
        files = write_bundle(out, _listed(lessons))
    except (BundleError, OSError) as error:
        _stop(str(error))
    console.print(f"{out} holds {len(files)} files, {out.stat().st_size / 1e6:.1f} MB.", markup=False)


def collect(
    archive: Annotated[Path, typer.Argument(help="the zip file with all submissions, from Moodle or Canvas")],
    lesson: Annotated[str, typer.Option(help="which lesson it was handed in for")],
    into: Annotated[Path, typer.Option(help="gets STUDENT/LESSON/LESSON.ipynb")] = Path("submitted"),
    roster: Annotated[Path | None, typer.Option(help="who is who; roster.csv beside --into, if not given")] = None,
) -> None:
    """Take submissions out of a learning platform's archive, the latest attempt of each student on the roster."""
    from autograde.collecting import CollectError
    from autograde.collecting import collect as take
    from autograde.roster import RosterError, read_roster

    (name,) = _lessons([lesson])
    try:
        members = read_roster(roster or into.absolute().parent / "roster.csv").members
        found = take(archive, name, into, members)
    except (CollectError, RosterError) as error:
        _stop(str(error))
    for sentence in (*found.notes, *(f"left out: {reason}" for reason in found.refused)):
        console.print(sentence, markup=False)
    for words, students in (("late, says Canvas", found.late), ("nothing from", found.absent)):
        if students:
            console.print(f"{words}: {', '.join(students)}", markup=False)
    console.print(f"{len(found.new)} new, {len(found.replaced)} replaced, {len(found.same)} as before, "
                  f"{len(found.refused)} left out: {into}", markup=False)  # fmt: skip


def export(
    form: Annotated[str, typer.Option("--format", help="csv, canvas, moodle or json")] = "csv",
    folder: Annotated[Path, typer.Option("--class", help="a class folder, or what `grade --out` was given")] = Path(),
    out: Annotated[Path | None, typer.Option(help="the file to write; printed, if none is named")] = None,
    lessons: Annotated[str, typer.Option(help="such as 01_tensors,02_autograd; all, if none is named")] = "",
    column: Annotated[
        list[str] | None, typer.Option(help='LESSON="what it is called there", as Canvas wants: "Tensors (123)"')
    ] = None,
) -> None:
    """Write scores for Canvas, Moodle, spreadsheets or programs, with manual points and late penalties."""
    from autograde.exporting import FORMATS, scores_of
    from autograde.exporting import export as written
    from autograde.files import write_atomically

    if form not in FORMATS:
        _stop(f"There is no format {form}: --format is one of {', '.join(FORMATS)}.")
    titles = dict(part.split("=", 1) for part in column or [] if "=" in part)
    if len(titles) < len(column or []):
        _stop('--column is LESSON="title", once for a lesson.')
    _lessons(list(titles))
    try:
        with _free(folder):
            scores = scores_of(folder / "gradebook.db", _listed(lessons) if lessons else ())
    except FileNotFoundError as error:
        _stop(str(error))
    text = written(scores, form, titles)
    if out is None:
        sys.stdout.buffer.write(text.encode())
        return
    write_atomically(out, text)
    ungraded = sum(score.raw is None for score in scores)
    console.print(f"{len(scores) - ungraded} scores, {ungraded} cells without one: {out}", markup=False)


def diff(
    old: Annotated[Path, typer.Argument(help="a grades.csv, or the folder it lies in")],
    new: Annotated[Path, typer.Argument(help="the other one")],
) -> None:
    """Show which scores differ between two gradings."""
    from autograde.differences import changes, read_grades

    try:
        found = changes(read_grades(old), read_grades(new))
    except ValueError as error:
        _stop(str(error))
    _show(found)


def agreed(out: Path, lessons: Sequence[str], grade: Callable[[Path], object]) -> bool:
    """Grade aside and show what would change in `out`; whether it shall be written, which is asked at a terminal."""
    from autograde.differences import adopt, preview
    from autograde.journal import BusyError

    try:
        with preview(out, lessons, grade) as (new, found):
            _show(found)
            if not _may_ask():
                console.print(f"Nothing was written to {out}: the same command without --diff does that.", markup=False)
                return False
            if not typer.confirm(f"Write this to {out}?", default=False):
                return False
            adopt(new, out)
            return True
    except (BusyError, ValueError) as error:
        _stop(str(error))


def _may_ask() -> bool:
    """Whether somebody sits at a terminal."""
    return sys.stdin.isatty()


def _show(found: Sequence[Change]) -> None:
    for change in found[:SHOWN]:
        console.print(str(change), markup=False)
    if len(found) > SHOWN:
        console.print(f"… and {len(found) - SHOWN} more")
    gained, lost = (sum(abs(c.points) for c in found if sign * c.points > 0) for sign in (1, -1))
    students = len({change.student for change in found})
    console.print(f"{len(found)} verdicts of {students} students differ: {gained:g} points gained, {lost:g} lost.")


def before_grading(names: list[str], submitted: Path, out: Path) -> list[str]:
    """In a class folder: name the lessons and the students that are not of the class. The lessons that are."""
    from autograde.classroom import class_lessons, is_class, roster_of
    from autograde.grading import identities, students

    if not is_class(out):
        return names
    with _free(out):
        mine = class_lessons(out)
    for name in names:
        if name not in mine:
            console.print(f"{name} is no lesson of the class in {out}, and is left out; "
                          f"`torchcourse class init {out} --lessons {name}` adds it.", markup=False)  # fmt: skip
    if not set(names) & set(mine):
        _stop("No lesson is left to grade.")
    known = {member.id for member in roster_of(out) or ()}
    strangers = [student for student in identities(students(submitted)).values() if student not in known]
    if known and strangers:
        console.print(f"Not on the roster, and graded all the same: {', '.join(sorted(strangers))}", markup=False)
    return [name for name in names if name in mine]


def after_grading(graded: Sequence[tuple[str, str]], submitted: Path, out: Path, gradebook: str = "") -> None:
    """In a class folder: record when submissions (student and lesson) were made, and what late ones lose.

    Args:
        gradebook: its URL, if it is not the class folder's own.
    """
    from autograde.classroom import is_class
    from autograde.gradebook import gradebook_url
    from autograde.late import settle

    if is_class(out):
        with _free(out):
            complaints = settle(out, gradebook_url(out, gradebook), submitted, graded)
        for complaint in complaints:
            console.print(complaint, markup=False)


def _listed(lessons: str) -> list[str]:
    return _lessons([part.strip() for part in lessons.split(",") if part.strip()])
