"""Folders that somebody put among submissions: nbgrader sees those of students, and of each only what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde
from nbgrader.converters.base import BaseConverter

from autograde.batch.student_names import is_plain, student_names
from autograde.classroom.class_config import class_config
from autograde.classroom.class_folder import make_class
from autograde.classroom.synthetic_class import write_notebook
from autograde.source import paths

LESSON = "01_tensors"
ODD = ["<img src=x onerror=alert(1)>", "%2e%2e?path=%2Ftmp#", "a\nb", "*", "..\\..", "\x1b[31m", "[ab]?"]


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """Return a class folder with submissions of ada and of folders with odd names."""
    make_class(tmp_path / "room", [LESSON])
    for name in ["ada", "Lovelace, Ada", *ODD]:
        released = paths.notebook(LESSON).read_bytes()
        write_notebook(tmp_path / "room" / "submitted", name, LESSON, released)
    return tmp_path / "room"


def converter(room: Path) -> Autograde:
    config = class_config(room)
    config.CourseDirectory.assignment_id = LESSON
    made = Autograde(coursedir=NbGraderAPI(config=config).coursedir, config=config)
    made.init_notebooks()
    return made


def test_folders_with_odd_names_are_no_students_and_stop_nobody(room: Path) -> None:
    assert NbGraderAPI(config=class_config(room)).get_submitted_students(LESSON) == {"ada", "Lovelace, Ada"}
    assert {Path(folder).parts[-2] for folder in converter(room).assignments} == {"ada", "Lovelace, Ada"}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_becomes_one_that_is_no_pattern_and_no_address(name: str) -> None:
    assert not is_plain(name)
    assert not set(student_names([name])[name]) & set('<>&"%?#*\n\x1b')


def test_nothing_beside_a_notebook_is_copied_but_its_time_and_secret(room: Path, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("the answers")
    beside = room / "submitted" / "ada" / LESSON
    (beside / "timestamp.txt").write_text("2026-12-01 10:00:00 UTC")
    (beside / "submission_secret.txt").symlink_to(tmp_path / "private")
    (beside / "leak.html").symlink_to(tmp_path / "private")
    (beside / "large.bin").write_bytes(b"0" * 10)
    made = converter(room)  # loads the configuration, which changes what is called next
    BaseConverter.init_assignment(made, LESSON, "ada")
    assert [path.name for path in (room / "autograded" / "ada" / LESSON).iterdir()] == ["timestamp.txt"]
