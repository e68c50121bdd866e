"""Make class folders, which both nbgrader and `torchcourse grade` work in.

DIR/nbgrader_config.py   loads autograde/nbgrader_config.py; the class's name, exchange and late penalty
DIR/gradebook.db         assignments with points and due dates, students
DIR/roster.csv           the students
DIR/source, release      nbgrader's folders: the lessons, with and without answers
DIR/submitted            submissions, as STUDENT/LESSON/LESSON.ipynb
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry, Student

from autograde.batch.journal import Journal
from autograde.batch.preflight import check_gradebook
from autograde.classroom.class_config import class_gradebook, is_class
from autograde.classroom.collect import NAMES
from autograde.classroom.due_dates import write_extensions
from autograde.classroom.roster import Member, merged, read_whole_roster, write_roster
from autograde.course.build import write_source
from autograde.errors import RefusedError
from autograde.files import write_atomically
from autograde.results.gradebook import Writer
from autograde.results.gradebook_url import gradebook_url
from autograde.source import paths
from autograde.source.release import check_built, load_release, released_to
from torchcourse.model.own_course import VARIABLE, own_course, own_home

__all__ = ["make_class", "roster_of"]

CONFIG = '''"""nbgrader's configuration of this class. `torchcourse class init` wrote it once."""

import sys
from pathlib import Path

course = {autograde!r}  # torchcourse's reader and engine
if not Path(course, "nbgrader_config.py").is_file() and "autograde" not in sys.modules:
    # nbgrader would take its own engine, which runs submissions without a sandbox; torchcourse's commands have ours
    raise SystemExit(f"{{course}} is gone: correct the path in {{__file__}}.")

c = get_config()
load_subconfig("nbgrader_config.py", path=course)

here = Path(__file__).resolve().parent
c.CourseDirectory.course_id = {name!r}
c.CourseDirectory.root = str(here)
c.CourseDirectory.db_url = {gradebook}
c.GradeSubmission.seed = {seed}  # secret: hidden cases are drawn from it
'''
CONFIG_START = "c = get_config()\n"
OWN_GRADEBOOK = """f"sqlite:///{here / 'gradebook.db'}\""""
SEEDS = 1 << 31
"""A class's seed is drawn from this many."""
EXCHANGE = "c.Exchange.root = {exchange!r}\n"
LATE = """
# points that late submissions lose; nbgrader finds lateness from the due date and timestamp.txt beside the notebook
c.AssignLatePenalties.plugin_class = "autograde.classroom.late.PerDay"
c.PerDay.share = {late!r}  # of the score, for each day begun; c.PerDay.most and c.PerDay.grace_minutes too
"""


PARTS = {"nbgrader_config.py", "gradebook.db", "grades.csv", "journal"}
"""Entries by which a class folder is recognised, or one that `torchcourse grade` has written to."""
COLLECTED = {"submitted", NAMES}
"""What `torchcourse collect` writes: a folder with nothing else may become that of a class."""


def make_class(
    folder: Path, lessons: Sequence[str], *, due: Mapping[str, datetime] | None = None, members: Sequence[Member] = (),
    name: str = "torchcourse", late: float = 0.0, exchange: Path | None = None,
    extended: Mapping[tuple[str, str], datetime] | None = None, gradebook: str = "",
) -> None:  # fmt: skip
    """Make a class folder, or add lessons, due dates and students to an existing one; nothing is removed.

    Changed lessons are updated: source, release and gradebook together, or none of them.

    Args:
        due: due dates in UTC, by lesson.
        members: students to enrol.
        name: nbgrader's course_id, by which the exchange finds the course.
        late: the share of its score, from 0 to 1, that a submission loses for each day begun after its due date.
        exchange: nbgrader's exchange, a folder that instructor and learners share; its default if not given.
        extended: due dates of single students, by student and lesson.
        gradebook: the URL of a new class's gradebook; by default a file in the folder.

    Raises:
        BusyError: when a grader is writing to the folder.
        CourseError: when a lesson has not been built since its script was changed.
        RefusedError: when there is a file in its place, or a folder of something else.
        RosterError: when two students would share an e-mail address or a number, or the roster there is damaged.
    """
    _check_place(folder)
    check_built(*lessons)
    url = class_gradebook(folder) if is_class(folder) else gradebook_url(folder, gradebook)
    check_gradebook(url)
    enrolled = merged(roster_of(folder) or (), members)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # it holds the answers
    with Journal(folder / "journal") as journal, tempfile.TemporaryDirectory() as scratch:
        if not is_class(folder):
            _write_config(folder, name, gradebook, exchange, late)
        _note_own_course(folder, lessons)
        for step in ("source", "release", "submitted"):
            (folder / step).mkdir(exist_ok=True)
        made = {folder / "source" / name / f"{name}.ipynb": write_source(name, Path(scratch)) for name in lessons}
        made |= {folder / "release" / name / f"{name}.ipynb": paths.notebook(name) for name in lessons}
        with _undone_on_error([*made, folder / "roster.csv"]):
            for release in filter(None, (released_to(folder, lesson) for lesson in lessons)):
                journal.keep_release(release)
            for path, notebook in made.items():
                _renew(folder, path, notebook.read_bytes())
            write_roster(folder / "roster.csv", enrolled)
            write_extensions(folder, extended or {})
            with Writer(url, list(lessons), Path(scratch)) as writer:
                _fill(writer.book, due or {}, enrolled)
        for lesson in lessons:
            journal.keep_release(load_release(lesson))


def _write_config(folder: Path, name: str, gradebook: str, exchange: Path | None, late: float) -> None:
    place = repr(gradebook) if gradebook else OWN_GRADEBOOK
    seed = secrets.randbelow(SEEDS)
    config = CONFIG.format(autograde=str(paths.AUTOGRADE), name=name, gradebook=place, seed=seed)
    config += EXCHANGE.format(exchange=str(exchange.resolve())) if exchange else ""
    write_atomically(folder / "nbgrader_config.py", config + (LATE.format(late=late) if late else ""))


def _note_own_course(folder: Path, lessons: Iterable[str]) -> None:
    """Note the folder of the instructor's own course in a class's configuration, if one of its lessons lies there."""
    if not any(map(own_home, lessons)):
        return
    noted = f"os.environ[{VARIABLE!r}] = {str(own_course())!r}  # the course of your own that `--course` named\n"
    path = folder / "nbgrader_config.py"
    config = path.read_text(encoding="utf-8")
    if noted not in config:
        kept = "".join(line for line in config.splitlines(keepends=True) if VARIABLE not in line)
        imported = "" if "import os\n" in config else "import os\n\n"
        write_atomically(path, kept.replace(CONFIG_START, f"{imported}{noted}{CONFIG_START}", 1))


@contextmanager
def _undone_on_error(files: Sequence[Path]) -> Iterator[None]:
    """Give files their earlier content again, or remove them, if the block raises."""
    before = {path: path.read_bytes() if path.is_file() else None for path in files}
    try:
        yield
    except BaseException:
        for path, content in before.items():
            if content is not None:
                write_atomically(path, content)
            elif path.is_file():
                path.unlink()
        raise


def _check_place(folder: Path) -> None:
    """Check that `folder` may become a class folder: it is missing, empty, or holds parts of one.

    Raises:
        RefusedError: when it may not.
    """
    if folder.exists() and not folder.is_dir():
        raise RefusedError(f"{folder} is not a folder: name a new one.")
    here = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if not here <= COLLECTED and not here & PARTS:
        raise RefusedError(f"{folder} holds {', '.join(sorted(here)[:3])} and is no class folder: name a new one.")


def _renew(folder: Path, path: Path, content: bytes) -> None:
    """Write a notebook to its place; an earlier one that differs is copied to `.replaced`."""
    earlier = path.read_bytes() if path.is_file() else content
    if earlier != content:
        replaced = folder / ".replaced" / path.relative_to(folder).parent
        count = sum(1 for _ in replaced.iterdir()) if replaced.is_dir() else 0
        write_atomically(replaced / f"{1 + count}.ipynb", earlier)
    write_atomically(path, content)


def _fill(book: Gradebook, due: Mapping[str, datetime], members: Sequence[Member]) -> None:
    """Write due dates and students into a gradebook."""
    for lesson, when in due.items():
        book.update_or_create_assignment(lesson, duedate=when)
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


def roster_of(folder: Path) -> tuple[Member, ...] | None:
    """Return the students on the roster of a class folder; None if it has no roster.

    Raises:
        RosterError: when it is damaged.
    """
    path = folder / "roster.csv"
    return read_whole_roster(path) if path.is_file() else None
