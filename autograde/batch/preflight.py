"""Check, before anything is written, that the results can be written to the given folder and gradebook."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from alembic.script import ScriptDirectory
from nbgrader import dbutil
from nbgrader.api import Assignment, Base, InvalidEntry
from sqlalchemy import URL, Engine, create_engine, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError

from autograde.batch import grading_log
from autograde.course.build import table_version
from autograde.errors import RefusedError
from autograde.judge.verdict import clean
from torchcourse.model.catalogue import LESSONS
from torchcourse.model.files import check_target

__all__ = ["check_folder", "check_gradebook", "explain_write_errors", "reason_of"]

FULL = (errno.ENOSPC, errno.EDQUOT)
BYTES_EACH = 200_000
"""An upper bound for one submission: notebook, page, journal, rows of the gradebook; lesson 01 takes 120 kB."""
BYTES_AT_LEAST = 50_000_000
VERSION_TABLE = "alembic_version"


def check_folder(out: Path, submissions: int) -> None:
    """Check that the results of this many submissions can be written below `out`, without leaving anything there.

    Raises:
        RefusedError: when they cannot.
    """
    for path in (out, *(out / name for name in ("journal", "autograded", "feedback"))):
        if path.exists() and not path.is_dir():
            raise RefusedError(f"{path} is not a folder: choose another --out.")
    here = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=here) as file:
            file.write(b" " * 4096)
    except OSError as error:
        if error.errno in FULL:
            raise RefusedError(_full(here)) from None
        raise RefusedError(f"{out} cannot be written to ({error.strerror}): choose another --out.") from None
    try:
        for name in ("grades.csv", grading_log.FILE, "journal/.lock"):
            check_target(out / name)
    except FileExistsError as error:
        raise RefusedError(f"{error.filename} cannot be written: {error.strerror}. Choose another --out.") from None
    free, needed = shutil.disk_usage(here).free, submissions * BYTES_EACH + BYTES_AT_LEAST
    if free < needed:
        raise RefusedError(f"What is to be written to {out} takes up to {_mb(needed)}, and {_mb(free)} are free: make "
                           "room, or choose another --out.")  # fmt: skip


def check_gradebook(url: str) -> None:
    """Check, without changing anything, that there is a gradebook of this course and this nbgrader, or none yet.

    Raises:
        RefusedError: when there is anything else, or it cannot be read.
    """
    place = _parsed(url)
    shown = place.database if _is_file(place) else place.render_as_string(hide_password=True)
    path = Path(place.database or "")
    if _is_file(place) and not path.exists():
        return
    if _is_file(place) and not (path.is_file() and os.access(path, os.R_OK | os.W_OK)):
        raise RefusedError(f"{path} is not a writable file: choose another --out or --gradebook.")
    try:
        engine = create_engine(place)
    except ModuleNotFoundError as error:
        raise RefusedError(f"{shown} needs the module {error.name}: pip install 'psycopg[binary]'.") from None
    try:
        complaint = _complaint(engine)
    except DatabaseError as error:
        if "locked" in reason_of(error):
            raise RefusedError(f"{shown} cannot be used ({reason_of(error)}): close the program that has it "
                               "open.") from None  # fmt: skip
        server = "check that its server is running and accepts your login."
        remedy = "choose another --out or --gradebook." if _is_file(place) else server
        raise RefusedError(f"{shown} cannot be read as a gradebook ({reason_of(error)}): {remedy}") from None
    finally:
        engine.dispose()
    if complaint:
        raise RefusedError(f"{shown} {complaint}")


@contextlib.contextmanager
def explain_write_errors(out: Path) -> Iterator[None]:
    """Replace errors in this block that mean a full disk, or a result or a gradebook that cannot be written.

    Raises:
        RefusedError: with the reason and the remedy in one line.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise RefusedError(_full(out)) from error
        if not error.filename or not Path(error.filename).absolute().is_relative_to(out.absolute()):
            raise
        raise RefusedError(f"{error.filename} cannot be written: {error.strerror}. {_kept(out)}") from error
    except (SQLAlchemyError, InvalidEntry) as error:  # nbgrader turns some of the former into the latter
        if "disk is full" in str(error):
            raise RefusedError(_full(out)) from error
        raise RefusedError(f"The gradebook cannot be written to ({reason_of(error)}). {_kept(out)}") from error


def _parsed(url: str) -> URL:
    try:
        place = make_url(url)
        backend = place.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        backend = ""
    if backend not in ("sqlite", "postgresql") or not place.database:
        raise RefusedError("--gradebook wants a URL, sqlite:////PATH or postgresql://USER@HOST/DATABASE.")
    return place


def _is_file(place: URL) -> bool:
    return place.get_backend_name() == "sqlite"


def _complaint(engine: Engine) -> str:
    """Say what is wrong with a database, with the remedy; "" if it is empty or a gradebook of this course."""
    tables = inspect(engine).get_table_names()
    ours = set(Base.metadata.tables)
    if not tables:
        return ""
    if not ours.issuperset(set(tables) - {VERSION_TABLE}):
        return "holds tables that do not belong to a gradebook: choose another --out or --gradebook."
    with engine.connect() as connection:
        versions = text(f"select version_num from {VERSION_TABLE}")
        stamps = connection.execute(versions).scalars().all() if VERSION_TABLE in tables else []
        names = connection.execute(select(Assignment.name)).scalars().all() if "assignment" in tables else []
    return _wrong_version(stamps, names) or _wrong_course(names)


def _wrong_version(stamps: Collection[str], names: Collection[str]) -> str:
    if list(stamps) == [table_version()] or not (stamps or names):  # the latter: a gradebook that was never completed
        return ""
    known = {script.revision for script in ScriptDirectory(dbutil.ALEMBIC_DIR).walk_revisions()}
    if known.issuperset(stamps):
        return "was made by an older nbgrader: `nbgrader db upgrade` brings it up to date."
    return f"was made by a newer nbgrader (its tables are {', '.join(stamps)}): update nbgrader, or choose another."


def _wrong_course(names: Collection[str]) -> str:
    if not names or not LESSONS.keys().isdisjoint(names):
        return ""
    few = ", ".join(sorted(names)[:3])
    return (f"is the gradebook of another course (it has {few}): choose another --out or --gradebook, or name your own "
            "lessons' folder with --course.")  # fmt: skip


def _kept(out: Path) -> str:
    return f"Everything graded so far is recorded in {out}: fix this, then run the same command again to continue."


def _full(out: Path) -> str:
    return (
        f"The disk that holds {out} is full. No file is half written: free some space, then run the same command again."
    )


def reason_of(error: SQLAlchemyError | InvalidEntry) -> str:
    """Return the first line of what a database complains about, without SQLAlchemy's statements and parameters."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return clean(lines[0]) if lines else type(error).__name__


def _mb(count: int) -> str:
    return f"{count / 1e6:,.0f} MB".replace(",", " ")
