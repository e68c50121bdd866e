"""Due dates, of a lesson and of single students, and what work costs that is handed in after them."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties

from autograde.classroom.class_config import class_config
from autograde.classroom.class_folder import make_class
from autograde.classroom.due_dates import DueError, due_dates, extensions, read_extensions, write_extensions
from autograde.classroom.export import scores_of
from autograde.classroom.late import PerDay, apply_lateness
from autograde.classroom.roster import Member
from autograde.judge.verdict import Verdict
from autograde.results.gradebook import Writer
from autograde.source.release import load_release
from tests.support.commands import run_instructors

LESSON = "01_tensors"
DUE = datetime(2026, 12, 1, 18)
MOST = sum(map(load_release(LESSON).points, load_release(LESSON).exercises))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class in which each day costs a quarter."""
    folder = tmp_path_factory.mktemp("course") / "spring"
    make_class(folder, [LESSON], due={LESSON: DUE}, members=[Member("ada"), Member("bo")], late=0.25)
    return folder


def test_the_last_day_of_the_calendar_is_refused_where_it_ends_after_the_calendar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import time

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        with pytest.raises(DueError, match="9999-12-31 is no date"):
            due_dates(["9999-12-31"], ["a"])
    finally:
        monkeypatch.undo()
        time.tzset()


def test_due_dates_are_in_the_local_time_zone_unless_they_have_an_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    import time

    time.tzset()
    try:
        assert due_dates(["a=2026-12-01", "2026-12-02T18:00", "c=2026-12-03T18:00+01:00"], ["a", "b", "c"]) == {
            "a": datetime(2026, 12, 1, 14, 59, 59), "b": datetime(2026, 12, 2, 9), "c": datetime(2026, 12, 3, 17),
        }  # fmt: skip
    finally:
        monkeypatch.undo()
        time.tzset()
    assert due_dates(["a=2026-12-01"], ["a", "b"]).keys() == {"a"}
    with pytest.raises(DueError):
        due_dates(["2026-13-01"], ["a"])


def test_each_day_that_has_begun_costs_a_share() -> None:
    hour, plugin = 3600, PerDay(share=0.1, most=0.5, grace_minutes=30)
    seen = [plugin.late_submission_penalty("bo", 10.0, late) for late in (60, 1800, 2 * hour, 25 * hour, 24000 * hour)]
    assert seen == [None, None, 1.0, 2.0, 5.0]


def test_one_student_may_hand_in_later_than_the_others(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [*extensions(["ada:1=2026-12-05"], [LESSON], ["ada"])] == [("ada", LESSON)]
    given = extensions(["ada:a=2026-12-05T18:00+00:00", "a=2026-12-01", "2026-12-02"], ["a", "b"], ["ada"])
    assert given == {("ada", "a"): datetime(2026, 12, 5, 18)}
    for text, why in (("bo:a=2026-12-05", "bo is not on the roster"), ("ada:c=2026-12-05", "none of the class's")):
        with pytest.raises(DueError, match=why):
            extensions([text], ["a", "b"], ["ada"])
    write_extensions(tmp_path, given)
    write_extensions(tmp_path, {("ada", "b"): datetime(2026, 12, 6)})
    assert read_extensions(tmp_path) == {**given, ("ada", "b"): datetime(2026, 12, 6)}
    assert run_instructors("class", "init", room, "--due", f"eve:{LESSON}=2026-12-05")[0] == 2


def apply_as_nbgrader(folder: Path, url: str) -> None:
    """Set the penalty of bo's submission as `nbgrader autograde` does with the configuration of a class."""
    with Gradebook(url) as book:
        book.update_or_create_submission(LESSON, "bo", timestamp=datetime(2026, 12, 2, 19))
    config = class_config(folder)
    (step,) = (s for s in config.Autograde.autograde_preprocessors if issubclass(s, AssignLatePenalties))
    where = {"notebook": LESSON, "assignment": LESSON, "student": "bo", "db_url": url}
    step(config=config).preprocess(nbformat.v4.new_notebook(), {"nbgrader": where})


@pytest.mark.parametrize("by_nbgrader", [False, True])
@pytest.mark.parametrize("later", [None, datetime(2026, 12, 2, 20), datetime(2026, 12, 4)])
def test_an_extension_moves_the_time_from_which_days_cost(
    room: Path, tmp_path: Path, later: datetime | None, by_nbgrader: bool
) -> None:
    for name in ("gradebook.db", "nbgrader_config.py"):
        shutil.copyfile(room / name, tmp_path / name)
    points = load_release(LESSON).points
    with Writer(tmp_path / "gradebook.db", [LESSON], tmp_path) as writer:
        writer.book.update_or_create_assignment(LESSON, duedate=DUE)
        writer.write("bo", LESSON, [Verdict("bo", LESSON, e, points(e), points(e), "passed")
                                    for e in load_release(LESSON).exercises])  # fmt: skip
    here = tmp_path / "submitted" / "bo" / LESSON
    here.mkdir(parents=True)
    (here / "timestamp.txt").write_text("2026-12-02 19:00:00 UTC")
    if later:
        write_extensions(tmp_path, {("bo", LESSON): later})
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    if by_nbgrader:
        apply_as_nbgrader(tmp_path, url)
    else:
        apply_lateness(tmp_path, url, tmp_path / "submitted", [("bo", LESSON)])
    (score,) = (s for s in scores_of(tmp_path / "gradebook.db") if s.student == "bo")
    assert score.penalty == pytest.approx(0 if later else 0.5 * MOST)


@pytest.mark.parametrize(
    ("beside", "says", "share"),
    [
        ({"timestamp.txt": "2026-12-02 19:00:00 UTC", "submission_secret.txt": "x" * 1000}, "no short text", 0.5),
        ({"timestamp.txt": "whenever"}, "counts as in time", 0),
        ({"timestamp.txt": "03.12.2026 19:00"}, "no time such as 2026-12-01 18:30:00 UTC", 0),
        ({}, "", 0),
    ],
)
def test_a_spoilt_file_beside_a_notebook_does_not_spoil_the_other(
    room: Path, tmp_path: Path, beside: dict[str, str], says: str, share: float
) -> None:
    for name in ("gradebook.db", "nbgrader_config.py"):
        shutil.copyfile(room / name, tmp_path / name)
    points = load_release(LESSON).points
    with Writer(tmp_path / "gradebook.db", [LESSON], tmp_path) as writer:
        writer.write("bo", LESSON, [Verdict("bo", LESSON, e, points(e), points(e), "passed")
                                    for e in load_release(LESSON).exercises])  # fmt: skip
        writer.book.find_submission(LESSON, "bo").timestamp = datetime(2026, 12, 3, 20)  # of an earlier one
        writer.book.db.commit()
    here = tmp_path / "submitted" / "bo" / LESSON
    here.mkdir(parents=True)
    for name, text in beside.items():
        (here / name).write_text(text)
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    complaints, changed = apply_lateness(tmp_path, url, tmp_path / "submitted", [("bo", LESSON)])
    assert [says in complaint for complaint in complaints] == [True] * bool(says)
    assert changed == ({("bo", LESSON)} if share else set())
    (score,) = (s for s in scores_of(tmp_path / "gradebook.db") if s.student == "bo")
    assert score.penalty == pytest.approx(share * MOST)
