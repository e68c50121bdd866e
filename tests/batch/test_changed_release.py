"""A lesson that is changed after it was released: other points, an exercise more or less."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograde.batch.grading import grade
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.errors import RefusedError
from autograde.source.release import load_release
from tests.support.commands import run_instructors
from tests.support.doors import scores
from tests.support.editions import edition
from tests.support.results import grade_rows, tree
from tests.support.stand_ins import LESSON, SOLVED, submit, use_stand_in

CHANGES = {"row_softmax": 7, "describe": 3}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A class that was graded before `CHANGES`, and before the exercise one_hot was added."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        use_stand_in(patch, folder)
        with edition(folder / "before", CHANGES, without="one_hot"):
            submit(folder / "class", "ada", SOLVED)
            write_notebook(folder / "class", "bo", LESSON, answered_notebook(LESSON, {}))
            tampered = answered_notebook(LESSON, {"row_softmax": SOLVED})
            check = next(c for c in tampered["cells"] if c["id"] == "check-describe")
            check["metadata"]["nbgrader"]["points"] = 50
            write_notebook(folder / "class", "cy", LESSON, tampered)
            grade([LESSON], folder / "class", folder / "out")
            (folder / "before.csv").write_bytes((folder / "out" / "grades.csv").read_bytes())
        submit(folder / "class", "zoe", SOLVED)
        grade([LESSON], folder / "class", folder / "out")
    yield folder


def rows(table: Path) -> dict[tuple[str, str], tuple[str, str, str]]:
    return {(row["student"], row["exercise"]): (row["score"], row["max_score"], row["status"])
            for row in grade_rows(table)}  # fmt: skip


def test_old_submissions_are_measured_against_their_own_release_and_get_the_points_of_now(graded: Path) -> None:
    before, after = rows(graded / "before.csv"), rows(graded / "out" / "grades.csv")
    assert before["ada", "row_softmax"] == ("7", "7", "passed")
    assert ("ada", "one_hot") not in before
    for student in ("ada", "zoe"):
        assert after[student, "row_softmax"] == ("2", "2", "passed")
        assert after[student, "describe"] == ("0", "1", "unattempted")
        assert after[student, "one_hot"] == ("0", "2", "unattempted")
    assert {status for (student, _), (_, _, status) in after.items() if student == "bo"} == {"unattempted"}


def test_what_was_tampered_with_before_still_is(graded: Path) -> None:
    for table in ("before.csv", "out/grades.csv"):
        found = rows(graded / table)
        assert {name: found["cy", name][2] for name in ("describe", "row_softmax", "masked_mean")} == {
            "describe": "tampered", "row_softmax": "passed", "masked_mean": "unattempted",
        }  # fmt: skip


def test_the_gradebook_follows(graded: Path) -> None:
    url = f"sqlite:///{graded / 'out' / 'gradebook.db'}"
    book = scores(url, LESSON)
    assert book["ada", "row_softmax"] == 2
    assert (book["ada", "one_hot"], book["zoe", "one_hot"]) == (0, 0)
    with Gradebook(url) as opened:
        assignment = opened.find_assignment(LESSON)
        assert assignment.max_score == sum(load_release(LESSON).all_points.values())
        notebook = opened.find_notebook(LESSON, LESSON)
        assert {cell.name for cell in notebook.source_cells} == set(load_release(LESSON).cells)
        assert all(len(each.comments) == len(notebook.solution_cells) for each in notebook.submissions)


def test_an_exercise_that_is_taken_away_goes_from_table_and_gradebook(graded: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(graded / "out", out)
    with pytest.MonkeyPatch.context() as patch, edition(tmp_path / "after", {}, without="describe"):
        use_stand_in(patch, tmp_path)
        grade([LESSON], graded / "class", out)
        found = rows(out / "grades.csv")
        assert "describe" not in {exercise for _, exercise in found}
        assert found["zoe", "row_softmax"] == ("2", "2", "passed")
        assert {exercise for _, exercise in scores(f"sqlite:///{out / 'gradebook.db'}", LESSON)} == {
            exercise for _, exercise in found
        }


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A class folder with a graded submission, made before `CHANGES` and one_hot."""
    use_stand_in(monkeypatch, tmp_path)
    with edition(tmp_path / "before", CHANGES, without="one_hot"):
        for student in ("ada", "bo"):
            submit(tmp_path / "room" / "submitted", student, SOLVED if student == "ada" else "def row_softmax")
        assert run_instructors("class", "init", tmp_path / "room", "--lessons", LESSON)[0] == 0
        assert run_instructors(*grading_of(tmp_path / "room"))[0] == 0
    return tmp_path / "room"


def grading_of(room: Path) -> tuple[object, ...]:
    return "grade", LESSON, "--submitted", room / "submitted", "--out", room


def test_a_class_is_told_what_changes_for_whom_and_everything_follows(room: Path) -> None:
    before = tree(room)
    status, said = run_instructors(*grading_of(room))
    assert status == 2
    assert "01_tensors has changed since it was released to the class (new: one_hot; describe 3 -> 1 points" in said
    assert f"`torchcourse class init {room} --diff` shows what that changes for whom" in said
    status, said = run_instructors("class", "init", room, "--diff")
    assert status == 0, said
    assert "ada 01_tensors row_softmax: 7 of 7 (passed) -> 2 of 2 (passed)" in said
    assert "ada 01_tensors one_hot: nothing -> 0 of 2 (unattempted)" in said
    assert "Nothing was written" in said
    assert tree(room) == before

    status, said = run_instructors("class", "init", room)
    assert status == 0, said
    assert "Now grade 01_tensors again." in said
    for step, has in (("source", "BEGIN SOLUTION"), ("release", 'Unattempted(\\"one_hot\\")')):
        assert has in (room / step / LESSON / f"{LESSON}.ipynb").read_text()
    book = scores(f"sqlite:///{room / 'gradebook.db'}", LESSON)
    assert (book["ada", "row_softmax"], book["ada", "one_hot"]) == (2, 0)
    assert run_instructors(*grading_of(room))[0] == 0
    assert rows(room / "grades.csv")["ada", "row_softmax"] == ("2", "2", "passed")


def test_where_one_part_of_a_class_cannot_follow_none_does(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(room)

    def fail(*_: object) -> None:
        raise RefusedError("the gradebook cannot follow")

    monkeypatch.setattr("autograde.results.changed_release._renew_sources", fail)
    status, said = run_instructors("class", "init", room)
    assert (status, "the gradebook cannot follow" in said) == (2, True)
    after = {path: content for path, content in tree(room).items() if not path.startswith(".replaced/")}
    assert after == before
    assert scores(f"sqlite:///{room / 'gradebook.db'}", LESSON)["ada", "row_softmax"] == 7


def test_a_class_whose_change_was_killed_in_the_middle_follows_when_asked_again(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = os.fork()
    if not pid:
        monkeypatch.setattr("autograde.results.changed_release._renew_sources", lambda *_: os.kill(os.getpid(), 9))
        try:
            run_instructors("class", "init", room)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    assert scores(f"sqlite:///{room / 'gradebook.db'}", LESSON)["ada", "row_softmax"] == 7
    assert run_instructors("class", "init", room)[0] == 0
    book = scores(f"sqlite:///{room / 'gradebook.db'}", LESSON)
    assert (book["ada", "row_softmax"], book["ada", "one_hot"]) == (2, 0)
    assert run_instructors(*grading_of(room))[0] == 0
    assert rows(room / "grades.csv")["ada", "row_softmax"] == ("2", "2", "passed")
