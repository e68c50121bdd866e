"""What nbgrader sees of folders with submissions: those of students, and of each the files that it needs.

nbgrader takes a folder's name for a part of a pattern, an address or a page, and one that it cannot take for a
student's ends the batch. What else lies beside a notebook it copies, through links too, up to the exchange.
"""

from __future__ import annotations

import os
from pathlib import Path

from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters.base import BaseConverter
from nbgrader.coursedir import CourseDirectory

from autograde.batch.student_names import is_plain, printable_name
from autograde.files import regular_file, write_atomically
from autograde.results.exchange_files import MAX_BYTES, SECRET_FILE, TIME_FILE, read_time

__all__ = ["protect_batches"]

SOURCE = "."
"""nbgrader's name for the student whose folder is the source of an assignment."""

_submitted_students = NbGraderAPI.get_submitted_students
_init_notebooks = BaseConverter.init_notebooks
_init_assignment = BaseConverter.init_assignment


def protect_batches() -> None:
    """Have nbgrader leave out folders whose name is no student's and what else lies beside a notebook, and ignore a
    `timestamp.txt` without a valid time, which would end the whole batch."""
    NbGraderAPI.get_submitted_students = _students
    BaseConverter.init_notebooks = _find_notebooks
    BaseConverter.init_assignment = _copy_time_and_secret
    CourseDirectory.get_existing_timestamp = lambda self, folder: read_time(Path(folder))


def _students(api: NbGraderAPI, assignment: str) -> set[str]:
    return set(filter(is_plain, _submitted_students(api, assignment)))


def _find_notebooks(converter: BaseConverter) -> None:
    _init_notebooks(converter)
    for folder in list(converter.assignments):
        if not is_plain(student := _student(converter, folder)):
            converter.log.error("Left out: %s is no name that nbgrader can use", printable_name(student))
            del converter.assignments[folder]


def _student(converter: BaseConverter, folder: str) -> str:
    """Return the student whose folder this is."""
    pattern = converter._format_source(converter.coursedir.assignment_id, "*")
    before, _, after = os.path.normpath(pattern).partition("*")
    return os.path.normpath(folder).removeprefix(before).removesuffix(after)


def _copy_time_and_secret(converter: BaseConverter, assignment: str, student: str) -> None:
    if student == SOURCE:
        _init_assignment(converter, assignment, student)
        return
    source, into = (Path(place(assignment, student)) for place in (converter._format_source, converter._format_dest))
    for name in (TIME_FILE, SECRET_FILE):
        try:
            with regular_file(source / name) as file:
                content = file.read(MAX_BYTES)
        except (OSError, ValueError):
            continue
        into.mkdir(parents=True, exist_ok=True)
        write_atomically(into / name, content)
