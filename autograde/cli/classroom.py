"""The instructor's commands for classes: class folder, learners' archive, submissions from learning platforms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from autograde.cli.console import (
    check_lessons_of_class,
    console,
    gradebook_errors,
    is_interactive,
    one_lesson,
    place,
    pluralized,
    show_changes,
    split_lessons,
    stop,
    write_errors,
)

if TYPE_CHECKING:
    from autograde.classroom.roster import Member, Roster

__all__ = ["bundle", "class_commands", "collect", "release", "sample"]

class_commands = typer.Typer(help="Make and keep a class folder.", no_args_is_help=True)


@class_commands.callback()
def about() -> None:
    """Make and keep a class folder."""


def _share(text: str) -> float:
    """Return the share, from 0 to 1, that `--late` gives; stop if it is something else."""
    try:
        given = float(text)
    except ValueError:
        given = math.nan
    if not 0 <= given <= 1:
        stop(f"--late {text}: this is no share of a score; write 0.1 for a tenth of it, lost for each day late.")
    return given


@class_commands.command()
def init(
    folder: Annotated[Path, typer.Argument(help="the class folder; what is in it already stays")],
    lessons: Annotated[str, typer.Option(help="such as 01_tensors,02_autograd; all, if none is named")] = "",
    due: Annotated[list[str] | None, typer.Option(help="LESSON=2026-12-01T18:00, STUDENT:LESSON=…, or a date")] = None,
    roster: Annotated[Path | None, typer.Option(help="a CSV file: id,first_name,last_name,email,…")] = None,
    sample: Annotated[int, typer.Option(min=0, max=10_000, help="make up this many submissions of each lesson")] = 0,
    name: Annotated[str | None, typer.Option(help="nbgrader's course_id; torchcourse, if not given")] = None,
    late: Annotated[float | None, typer.Option(parser=_share, help="of a score lost for each day late, as 0.1")] = None,
    exchange: Annotated[Path | None, typer.Option(help="nbgrader's exchange folder")] = None,
    gradebook: Annotated[str | None, typer.Option(help="its URL, postgresql://…; a file in DIR, if not given")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="show how changed lessons change scores, and ask first")] = False,
) -> None:
    """Make a class folder, for nbgrader and for `torchcourse grade`; or add lessons, due dates and students to one.

    Lessons whose points or exercises have changed are updated in the class.
    """
    from autograde.classroom.class_config import class_lessons, is_class
    from autograde.classroom.class_folder import make_class, roster_of
    from autograde.classroom.due_dates import DueError, due_dates, extensions
    from autograde.classroom.synthetic_class import invented_members, write_submissions
    from autograde.errors import BusyError, RefusedError
    from autograde.results.grades_table import BadTableError

    new = not is_class(folder)
    if not new and (late, exchange, name, gradebook) != (None, None, None, None):
        _refuse_settings(folder)
    try:
        with gradebook_errors(folder):
            names = split_lessons(lessons) if lessons or new else _known_lessons(folder)
        when = due_dates(due or [], names)
        enrolled, before = _roster(roster), (None if new else roster_of(folder)) or ()
        members = enrolled.members or before or tuple(invented_members(sample))
        extended = extensions(due or [], names, {member.id for member in (*members, *before)})
        changed = _changed(folder, names, diff)
        with gradebook_errors(folder), write_errors(folder):
            make_class(folder, names, due=when, members=members, name=name or "torchcourse", late=late or 0.0,
                       exchange=exchange, extended=extended, gradebook=gradebook or "")  # fmt: skip
    except (BadTableError, BusyError, DueError, RefusedError) as error:
        stop(str(error))
    size = len({member.id for member in (*before, *members)})
    console.print(f"{folder} is a class of {size} with {', '.join(class_lessons(folder))}.")
    if sample:
        with write_errors(folder / "submitted"):
            written = write_submissions(folder / "submitted", names, members[:sample], when)
        console.print(f"{pluralized(len(written), 'notebook')} made up in {folder / 'submitted'}.")
    dated = {*when, *(lesson for _, lesson in extended)} if (folder / "grades.csv").is_file() else set()
    if again := [name for name in names if name in changed or name in dated]:
        console.print(f"Now grade {' '.join(again)} again. Until then, scores and pages are as before.")
    if enrolled.faults:
        console.print(f"{pluralized(len(enrolled.faults), 'row')} of {roster} left out: correct and run this again.")


def _known_lessons(folder: Path) -> list[str]:
    """Return the lessons of a class, without an instructor's own of which no folder is named."""
    from autograde.classroom.class_config import class_lessons
    from torchcourse.model.catalogue import LESSONS

    return [name for name in class_lessons(folder) if name in LESSONS]


def _refuse_settings(folder: Path) -> NoReturn:
    """Stop, since a class that exists has its settings in a file that its instructor may have changed."""
    config = folder / "nbgrader_config.py"
    stop(f"{folder} is a class already, and nothing was changed: its --name, --late, --exchange and --gradebook stand "
         f"in {config}, as docs/teaching.md says. Run this without them for the rest.")  # fmt: skip


def _roster(path: Path | None) -> Roster:
    """Return the roster at `path` (an empty one if none is named), and print the rows that were left out,
    and those whose names may have been read wrongly.

    Raises:
        RosterError: when it cannot be read.
    """
    from autograde.classroom.roster import Roster, read_roster

    enrolled = read_roster(path) if path else Roster()
    for fault in enrolled.faults:
        console.print(f"left out: {path}, {fault}")
    for doubt in enrolled.doubts:
        console.print(f"{path}, {doubt}")
    if path and not enrolled.members:
        stop(f"{path} has no valid row.")
    return enrolled


def _changed(folder: Path, lessons: list[str], ask: bool) -> list[str]:
    """Return the lessons that were changed since they were released to a class, and show what that changes for whom.

    If `ask`, the command stops unless somebody at a terminal agrees.
    """
    from autograde.classroom.changed_lesson import changed_lessons, consequences

    found = changed_lessons(folder, lessons)
    for lesson, difference in found.items():
        console.print(f"{lesson} has changed since it was released: {difference}.")
    if found and (folder / "grades.csv").is_file():
        show_changes(consequences(folder, list(found)))
    if found and ask and not (is_interactive() and typer.confirm(f"Apply this to {place(folder)}?", default=False)):
        console.print(f"Nothing was written to {place(folder)}: to do that, run it without --diff.")
        raise typer.Exit(0)
    return list(found)


def bundle(
    out: Annotated[Path, typer.Argument(help="the zip file to write")],
    lessons: Annotated[str, typer.Option(help="such as 01_tensors,02_autograd; all, if none is named")] = "",
) -> None:
    """Make the learners' archive: notebooks, wheel, environment and README, with no answers and no hidden cases."""
    from autograde.course.bundle import BundleError, write_bundle

    try:
        with write_errors(out):
            files = write_bundle(out, split_lessons(lessons))
    except BundleError as error:
        stop(str(error))
    console.print(f"{out} holds {len(files)} files, {out.stat().st_size / 1e6:.1f} MB.")


def collect(
    archive: Annotated[Path, typer.Argument(help="the zip file with all submissions, from Moodle or Canvas")],
    lesson: Annotated[str, typer.Option(help="which lesson it was handed in for")],
    into: Annotated[Path, typer.Option(help="gets STUDENT/LESSON/LESSON.ipynb")] = Path("submitted"),
    roster: Annotated[Path | None, typer.Option(help="who is who; roster.csv beside --into, if not given")] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="a notebook counts for all in its author's group, as the roster names them")
    ] = False,
    times: Annotated[
        Path | None, typer.Option(help="Moodle's grading worksheet, which says when each was handed in")
    ] = None,
) -> None:
    """Take submissions out of a learning platform's archive, the latest attempt of each student on the roster."""
    from autograde.classroom.collect import CollectError, write_names
    from autograde.classroom.collect import collect as take_out
    from autograde.classroom.worksheet import read_times, write_times

    name = one_lesson(lesson)
    folder = into.absolute().parent
    check_lessons_of_class(folder, [name])
    try:
        members = _whole_roster(roster, folder)
        known_times = read_times(times) if times else {}
        with write_errors(into):
            found = take_out(archive, name, into, members, groups)
            if found.names:
                write_names(into, name, found.names)
            unknown = write_times(into, name, found, known_times)
    except CollectError as error:
        stop(str(error))
    for sentence in (*found.notes, *(f"left out: {reason}" for reason in found.refused)):
        console.print(sentence)
    kept = f"replaced, and what was there is in {into / '.replaced'}"
    outcomes = ((kept, found.replaced), ("late, says Canvas", found.late), ("nothing from", found.absent))
    for words, students in outcomes:
        if students:
            console.print(f"{words}: {', '.join(students)}")
    if times and unknown:
        console.print(f"{times} has no time for {', '.join(unknown)}.")
    elif unknown and (found.new or found.replaced):
        console.print("The archive does not say when these were handed in, so none of them counts as late: for Moodle "
                      "name its grading worksheet with --times; else write the time to "
                      f"{into}/STUDENT/{name}/timestamp.txt, as 2026-12-01 18:30:00 UTC.")  # fmt: skip
    console.print(f"{len(found.new)} new, {len(found.replaced)} replaced, {len(found.same)} as before, "
                  f"{len(found.refused)} left out: {into}")  # fmt: skip
    if not found.names:
        stop(f"{archive} has no notebook of {name} by anybody on the roster.")


def _whole_roster(named: Path | None, folder: Path) -> tuple[Member, ...]:
    """Return the students on a roster, by default that of the class in `folder`; stop where there is none.

    Raises:
        RosterError: when a row of it is bad.
    """
    from autograde.classroom.roster import read_whole_roster

    path = named or folder / "roster.csv"
    if not named and not path.exists():
        stop(f"There is no {path}, which says who is who: run this in the class folder (`torchcourse class init` "
             "makes one), or name a roster with --roster.")  # fmt: skip
    return read_whole_roster(path)


def release(
    lesson: Annotated[str, typer.Argument(help="the lesson, graded before")],
    folder: Annotated[Path, typer.Option("--class", help="a class folder, or the folder of `grade --out`")] = Path(),
    archive: Annotated[
        Path | None, typer.Option("--zip", help="the archive to write, which Moodle or Canvas takes back")
    ] = None,
    submitted: Annotated[
        Path | None, typer.Option(help="the folder that `collect` wrote to; CLASS/submitted, if not given")
    ] = None,
) -> None:
    """Return feedback to learners: through nbgrader's exchange, or with --zip as an archive for Moodle or Canvas."""
    from autograde.classroom.class_config import is_class
    from autograde.classroom.give_back import feedback_archive, release_pages
    from autograde.errors import RefusedError

    name = one_lesson(lesson)
    if archive is None and not is_class(folder):
        stop(f"{folder} is no class folder, which has an exchange: name one with --class, or an archive with --zip.")
    try:
        with write_errors(archive or folder):
            if archive is None:
                given = release_pages(folder, name)
            else:
                given = feedback_archive(folder, name, submitted or folder / "submitted", archive)
    except RefusedError as error:
        stop(str(error))
    for student, reason in given.left_out.items():
        console.print(f"left out: {student}, {reason}")
    where = f"in {pluralized(given.files, 'file')}: {archive}" if archive else "in nbgrader's exchange"
    console.print(f"Results of {pluralized(len(given.students), 'student')} in {name}, {where}")


def sample(
    folder: Annotated[Path, typer.Argument(help="gets STUDENT/LESSON/LESSON.ipynb for ten students")],
) -> None:
    """Make a sample class of ten submissions of lesson 01: right, wrong in several ways, broken."""
    from autograde.classroom.synthetic_class import write_sample_class

    if folder.exists() and not folder.is_dir():
        stop(f"{folder} is not a folder: name a new one.")
    with write_errors(folder):
        names = write_sample_class(folder)
    console.print(f"{folder} holds the submissions of {', '.join(names)}.")
