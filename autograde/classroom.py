"""A class folder: what nbgrader and `torchcourse grade` need to work in one place.

    DIR/nbgrader_config.py   ours loaded, and what is the class's own: its name, its exchange, its late penalty
    DIR/gradebook.db         assignments with points and due dates, students
    DIR/roster.csv           the students as they were imported
    DIR/source, release      nbgrader's folders: the lessons with and without answers
    DIR/submitted            gets STUDENT/LESSON/LESSON.ipynb
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time
from pathlib import Path

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student

from autograde import course
from autograde.building import write_source
from autograde.files import write_atomically
from autograde.gradebook import Writer
from autograde.journal import Journal
from autograde.roster import Member, read_roster, write_roster
from torchcourse.exercise import LESSONS

__all__ = ["DueError", "class_lessons", "due_dates", "is_class", "make_class", "roster_of"]

CONFIG = '''"""nbgrader's configuration of this class. Written by `torchcourse class init`; it stays as it is."""

from pathlib import Path

c = get_config()
load_subconfig("nbgrader_config.py", path={autograde!r})  # torchcourse's reader and engine

here = Path(__file__).resolve().parent
c.CourseDirectory.course_id = {name!r}
c.CourseDirectory.root = str(here)
c.CourseDirectory.db_url = f"sqlite:///{{here / 'gradebook.db'}}"
'''
EXCHANGE = "c.Exchange.root = {exchange!r}\n"
LATE = '''
# points that late submissions lose; nbgrader knows lateness by the due date and timestamp.txt beside the notebook
c.AssignLatePenalties.plugin_class = "autograde.late.PerDay"
c.PerDay.share = {late!r}  # of the score, for each day begun; c.PerDay.most and c.PerDay.grace_minutes too
'''


class DueError(ValueError):
    """A due date that cannot be understood: says which, and how it is written."""


def due_dates(texts: Sequence[str], lessons: Sequence[str]) -> dict[str, datetime]:
    """Due dates as they are typed, LESSON=DATE or one DATE for all lessons that have none of their own, in UTC.

    A date without a time is its last minute, and one without an offset is meant where this machine is.

    Raises:
        DueError: for what is no date, or names a lesson that is not among `lessons`.
    """
    found: dict[str, datetime] = {}
    general: datetime | None = None
    for text in texts:
        lesson, _, date = text.rpartition("=")
        if lesson and lesson not in lessons:
            raise DueError(f"--due {text}: {lesson} is none of the class's lessons: {', '.join(lessons)}.")
        try:
            when = datetime.fromisoformat(date)
        except ValueError:
            raise DueError(f"--due {text}: {date} is no date; write 2026-12-01 or 2026-12-01T18:00.") from None
        if when.time() == time() and len(date) <= len("2026-12-01"):
            when = datetime.combine(when.date(), time(23, 59, 59))
        when = when.astimezone(UTC).replace(tzinfo=None)
        if lesson:
            found[lesson] = when
        else:
            general = when
    return {lesson: found.get(lesson, general) for lesson in lessons if lesson in found or general}  # type: ignore[misc]


def make_class(
    folder: Path, lessons: Sequence[str], *, due: Mapping[str, datetime] | None = None, members: Sequence[Member] = (),
    name: str = "torchcourse", late: float = 0.0, exchange: Path | None = None,
) -> None:  # fmt: skip
    """Make a class folder, or bring one up to date: lessons, due dates and students are added, nobody is removed.

    Args:
        due: when lessons are due, in UTC.
        name: nbgrader's course_id, which the exchange goes by.
        late: the share of its score that a submission loses for each day begun after it was due.
        exchange: nbgrader's exchange, a folder that instructor and learners share; nbgrader's own one if not given.

    Raises:
        BusyError: when a grader is writing to the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # it holds the answers
    with Journal(folder / "journal"), tempfile.TemporaryDirectory() as scratch:
        if not is_class(folder):
            config = CONFIG.format(autograde=str(course.AUTOGRADE), name=name)
            config += EXCHANGE.format(exchange=str(exchange.resolve())) if exchange else ""
            write_atomically(folder / "nbgrader_config.py", config + (LATE.format(late=late) if late else ""))
        for step in ("source", "release", "submitted"):
            (folder / step).mkdir(exist_ok=True)
        for lesson in lessons:
            _renew(folder, "source", lesson, write_source(lesson, Path(scratch)))
            _renew(folder, "release", lesson, course.NOTEBOOKS / f"{lesson}.ipynb")  # nbgrader makes this of the source
        known = roster_of(folder) or ()
        joined = {**{member.id: member for member in known}, **{member.id: member for member in members}}
        with Writer(folder / "gradebook.db", list(lessons), Path(scratch)) as writer:
            for lesson, when in (due or {}).items():
                writer.book.update_or_create_assignment(lesson, duedate=when)
            _enroll(writer.book, list(joined.values()))
        write_roster(folder / "roster.csv", joined.values())


def _renew(folder: Path, step: str, lesson: str, made: Path) -> None:
    """Put a notebook in its place; one that was there and differs is kept in `.replaced`."""
    path = folder / step / lesson / f"{lesson}.ipynb"
    if path.is_file() and path.read_bytes() != made.read_bytes():
        kept = folder / ".replaced" / step / lesson
        kept.mkdir(parents=True, exist_ok=True)
        path.replace(kept / f"{1 + sum(1 for _ in kept.iterdir())}.ipynb")
    path.parent.mkdir(exist_ok=True)
    shutil.copyfile(made, path)


def _enroll(book: Gradebook, members: Sequence[Member]) -> None:
    for member in members:
        facts = {"first_name": member.first_name, "last_name": member.last_name, "email": member.email,
                 "lms_user_id": member.lms_user_id or None}  # fmt: skip
        try:
            student = book.find_student(member.id)
        except MissingEntry:
            book.db.add(Student(id=member.id, **facts))
        else:
            for fact, value in facts.items():
                setattr(student, fact, value)
    book.db.commit()


def is_class(folder: Path) -> bool:
    """Whether `folder` is a class folder."""
    return (folder / "nbgrader_config.py").is_file()


def roster_of(folder: Path) -> tuple[Member, ...] | None:
    """The roster of a class folder; None where it has none."""
    path = folder / "roster.csv"
    return read_roster(path).members if path.is_file() else None


def class_lessons(folder: Path) -> list[str]:
    """The lessons that are assignments of a class folder, in order."""
    if not (folder / "gradebook.db").is_file():
        return []
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        names = {name for (name,) in book.db.query(Assignment.name)}
    return [lesson for lesson in LESSONS if lesson in names]
