"""Submissions that were graded before, by whomever and whenever: which are graded again, and what they say."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograde.batch import grading, journal
from autograde.batch.grading import Graded, grade
from autograde.source.release import load_release
from tests.support.results import recorded, tree
from tests.support.stand_ins import LESSON, SOLVED, Quick, examined, submit

pytestmark = pytest.mark.usefixtures("quick")


def messages(done: list[Graded], student: str) -> dict[str, str]:
    return {v.exercise: v.message for g in done if g.submission.student == student for v in g.verdicts}


def find_all(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stand-in give all that is attempted this status."""
    verdict = Quick.verdict
    changed = lambda self, *of: dataclasses.replace(verdict(self, *of), status=status, score=0.0)  # noqa: E731
    monkeypatch.setattr(Quick, "verdict", changed)


@pytest.mark.parametrize("how", ["broken", "missing"])
def test_a_broken_resubmission_names_the_last_good_score(submitted: Path, out: Path, how: str) -> None:
    grade([LESSON], submitted, out)
    path = submit(submitted, "ada", None)
    if how == "missing":
        path.unlink()
    with Gradebook(url := f"sqlite:///{out / 'gradebook.db'}") as book:
        book.find_grade("check_describe", LESSON, LESSON, "ada").manual_score = 0.5
        book.db.commit()
    done = grade([LESSON], submitted, out)
    said = messages(done, "ada")
    assert said["row_softmax"].endswith(" An earlier submission that could be read scored 2 of 2 here.")
    assert said["describe"].endswith(" An earlier submission that could be read scored 0 of 1 here.")
    assert {score for (student, _), score in recorded(out, LESSON).items() if student == "ada"} == {0}
    with Gradebook(url) as book:
        assert book.find_grade("check_describe", LESSON, LESSON, "ada").manual_score == 0.5
    page = (out / "feedback" / "ada" / f"{LESSON}.html").read_text()
    assert "scored 2 of 2 here" in page
    once = tree(out)
    for again in ({}, {"regrade": True}):
        grade([LESSON], submitted, out, **again)
        assert tree(out) == once
    path.write_text("broken in another way")
    assert "scored 2 of 2 here" in messages(grade([LESSON], submitted, out), "ada")["row_softmax"]


def test_a_worse_submission_replaces_the_score_and_what_was_good(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    stub = load_release(LESSON).cells["row_softmax"].source
    submit(submitted, "ada", stub)
    grade([LESSON], submitted, out)
    assert recorded(out, LESSON)["ada", "row_softmax"] == 0
    submit(submitted, "ada", None)
    assert "earlier" not in messages(grade([LESSON], submitted, out), "ada")["row_softmax"]  # it scored nothing


def test_without_a_journal_the_gradebook_tells_the_last_good_score(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    shutil.rmtree(out / "journal")
    submit(submitted, "ada", None)
    for _ in range(2):  # also when the gradebook no longer has it
        assert "scored 2 of 2 here" in messages(grade([LESSON], submitted, out), "ada")["row_softmax"]


def test_who_never_submitted_anything_sound_is_told_of_no_earlier_score(submitted: Path, out: Path) -> None:
    for _ in range(2):
        assert "earlier" not in messages(grade([LESSON], submitted, out), "dan")["row_softmax"]


def test_the_same_cells_are_examined_once_and_everybody_gets_the_verdicts(submitted: Path, out: Path) -> None:
    for student in ("fay", "gus", "hal"):
        submit(submitted, student, SOLVED)
    done = {g.submission.student: g.verdicts for g in grade([LESSON], submitted, out, workers=2)}
    seen = examined()
    assert [name for name in seen if name in ("ada", "ben", "cleo", "dan")] == ["ada", "ben", "cleo", "dan"]
    assert len(seen) == 5
    for student in ("fay", "gus", "hal"):
        assert {v.student for v in done[student]} == {student}
        assert recorded(out, LESSON)[student, "row_softmax"] == 2
        assert student in (out / "feedback" / student / f"{LESSON}.html").read_text()


def test_what_was_submitted_before_by_anybody_is_not_examined_again(submitted: Path, out: Path) -> None:
    path = submit(submitted, "ada", SOLVED)
    grade([LESSON], submitted, out)
    first, examined_first = path.read_text(), examined()
    submit(submitted, "ada", SOLVED + "  # again")
    submit(submitted, "eve", SOLVED)
    grade([LESSON], submitted, out)
    assert (examined_first, examined()) == (["ada", "ben", "cleo", "dan"], ["ada"])
    path.write_text(first)
    grade([LESSON], submitted, out)
    assert examined() == []
    assert recorded(out, LESSON)["eve", "row_softmax"] == 2


@pytest.mark.parametrize("status", sorted(grading.LOAD_DEPENDENT))
def test_what_a_busy_machine_may_have_caused_is_not_handed_on(
    submitted: Path, out: Path, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_all(status, monkeypatch)
    grade([LESSON], submitted, out)
    examined()
    submit(submitted, "eve", f"{SOLVED}  # ada")
    grade([LESSON], submitted, out)
    assert examined() == ["eve"]


def test_regrading_examines_the_same_cells_once_more_and_once_only(submitted: Path, out: Path) -> None:
    submit(submitted, "eve", f"{SOLVED}  # ada")
    grade([LESSON], submitted, out)
    examined()
    grade([LESSON], submitted, out, regrade=True)
    assert len(examined()) == 4


def test_regrading_never_falls_back_on_an_older_result(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker, so the second of the same cells comes when the first is done."""
    grade([LESSON], submitted, out)
    submit(submitted, "zoe", f"{SOLVED}  # ada")
    examined()
    find_all("timeout", monkeypatch)
    grade([LESSON], submitted, out, regrade=True)
    assert examined() == ["ada", "ben", "cleo", "dan", "zoe"]


def test_a_torn_result_is_no_result(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    wanted = tree(out)
    examined()
    for torn in ("", "[]", "null", "[[1, 2]]", '{"a": 1}'):
        for path in (out / "journal" / journal.RESULTS).rglob("*.json"):
            path.write_text(torn)
        shutil.rmtree(out / "journal" / "ada")
        grade([LESSON], submitted, out)
        assert examined() == ["ada"], torn
        assert tree(out)["grades.csv"] == wanted["grades.csv"], torn
