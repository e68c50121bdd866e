"""Collect from nbgrader's exchange, in whose inbox learners can write: links, other people's names, broken entries."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import collect
from traitlets.config import Config

from autograde.classroom.class_config import class_config
from autograde.classroom.exchange import CollectOwned
from autograde.settings import LIMITS
from autograde.source import paths

EARLY, LATER = "2026-12-01 10:00:00.000000 UTC", "2026-12-01 11:00:00.000000 UTC"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "exchange" / "torchcourse" / "inbound").mkdir(parents=True)
    (tmp_path / "source.ipynb").write_text("the answers")
    return tmp_path


def enter(room: Path, student: str, time: str = EARLY, notebook: str = "mine") -> Path:
    """Make an entry in the inbox, as `nbgrader submit` does."""
    entry = room / "exchange" / "torchcourse" / "inbound" / f"{student}+01_tensors+{time}+random"
    entry.mkdir()
    (entry / "01_tensors.ipynb").write_text(notebook)
    (entry / "timestamp.txt").write_text(time)
    return entry


def collected(room: Path, update: bool = False) -> dict[str, str]:
    """Collect, and return the notebook of each student from whom there is one."""
    config = Config()
    config.CourseDirectory.update(course_id="torchcourse", assignment_id="01_tensors", root=str(room / "class"))
    config.Exchange.root = str(room / "exchange")
    config.ExchangeCollect.update = update
    with mock.patch.object(collect, "Gradebook"):  # asked for the due date, which decides nothing here
        CollectOwned(coursedir=CourseDirectory(config=config), config=config).start()
    found = sorted((room / "class" / "submitted").glob("*/01_tensors/01_tensors.ipynb"))
    return {path.parts[-3]: path.read_text() for path in found}


def test_classes_collect_so() -> None:
    assert class_config(paths.AUTOGRADE).ExchangeFactory.collect == "autograde.classroom.exchange.CollectOwned"


def test_the_latest_of_each_student_is_collected_with_its_time(room: Path) -> None:
    enter(room, "tc-ada", EARLY, "first")
    enter(room, "tc-ada", LATER, "second")
    enter(room, "tc-ben")
    assert collected(room) == {"tc-ada": "second", "tc-ben": "mine"}
    assert (room / "class" / "submitted" / "tc-ada" / "01_tensors" / "timestamp.txt").read_text() == LATER


@pytest.mark.parametrize("place", ["notebook", "entry"])
def test_a_link_is_not_followed(room: Path, place: str) -> None:
    enter(room, "tc-ben")
    entry = enter(room, "tc-ada")
    (entry / "01_tensors.ipynb").unlink()
    if place == "notebook":
        (entry / "01_tensors.ipynb").symlink_to(room / "source.ipynb")
    else:
        (room / "source.ipynb").rename(room / "01_tensors.ipynb")
        entry.rename(room / "elsewhere")
        entry.symlink_to(room)
    assert collected(room) == {"tc-ben": "mine"}


def test_an_entry_without_a_time_does_not_stop_the_others(room: Path) -> None:
    enter(room, "tc-ada", "soon")
    enter(room, "tc-ben")
    assert collected(room) == {"tc-ben": "mine"}


@pytest.mark.parametrize("name", ["", "x" * 150, "01_tensors", "*", "ada,ben", "<img src=x>", "%2e%2e?path=x#", "a\nb"])
def test_an_entry_of_nobody_makes_no_student(room: Path, name: str) -> None:
    enter(room, name)
    enter(room, "tc-ben")
    assert collected(room) == {"tc-ben": "mine"}
    assert [path.name for path in (room / "class" / "submitted").iterdir()] == ["tc-ben"]


def test_where_there_is_a_roster_only_those_on_it_and_accounts_of_this_machine_count(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (room / "class").mkdir()
    (room / "class" / "roster.csv").write_text("id\ntc-ada\n")
    for name in ("tc-ada", "Tc-Ada", "tc-ben", "tc-here"):
        enter(room, name)
    accounts = {"tc-here": SimpleNamespace(pw_uid=os.getuid())}
    monkeypatch.setattr(pwd, "getpwnam", accounts.__getitem__)
    assert set(collected(room)) == {"tc-ada", "tc-here"}


def test_a_later_entry_that_cannot_count_costs_no_earlier_one(room: Path) -> None:
    enter(room, "tc-ada", EARLY, "first")
    assert collected(room) == {"tc-ada": "first"}
    enter(room, "tc-ada", LATER, "x" * (LIMITS.notebook_bytes + 1))
    assert collected(room, update=True) == {"tc-ada": "first"}


def test_an_entry_without_time_and_secret_is_released_with_the_others(room: Path) -> None:
    (enter(room, "tc-ada") / "timestamp.txt").unlink()
    assert collected(room) == {"tc-ada": "mine"}
    beside = room / "class" / "submitted" / "tc-ada" / "01_tensors"
    assert (beside / "timestamp.txt").read_text() == EARLY
    assert len((beside / "submission_secret.txt").read_text()) >= 32


def test_an_entry_of_another_account_replaces_nobodys_work(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(room, "tc-ada", EARLY)
    forged = enter(room, "tc-ada", LATER, "forged")
    uid, lstat = os.getuid(), Path.lstat
    accounts = {"tc-ada": SimpleNamespace(pw_uid=uid + 1)}
    monkeypatch.setattr(pwd, "getpwnam", accounts.__getitem__)
    owned = lambda path: SimpleNamespace(st_uid=uid) if path == forged else SimpleNamespace(st_uid=uid + 1)  # noqa: E731
    monkeypatch.setattr(Path, "lstat", lambda path: owned(path) if path.parent == forged.parent else lstat(path))
    assert collected(room) == {"tc-ada": "mine"}
