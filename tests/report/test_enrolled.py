"""What roster and gradebook add to the pages about a class: names, absent members, groups, scores given by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.judge.verdict import Verdict
from autograde.report.class_report import report
from autograde.report.enrolled import Enrolled, sharing
from autograde.results.final_scores import final_scores
from autograde.results.gradebook import Writer
from autograde.source.release import load_release
from tests.support.commands import run_instructors
from tests.support.pages import Page
from tests.support.reports import EXERCISES, LESSON, noise, write_answer, write_table

ROSTER = """id,first_name,last_name,group
ada,Ada,Lovelace,red
ben,Ben,Bitdiddle,red
cleo,Cleo,Cobol,
zoe,Zoë,Absent,
u17,,,
"""
NAMES = re.compile(r'<span class="name">(.*?)</span><span class="alias">')


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Results of ada and ben, who handed in one notebook, and of cleo; zoe and u17 have no folder in submitted."""
    (tmp_path / "roster.csv").write_text(ROSTER, encoding="utf-8")
    write_table(tmp_path, [[name, LESSON, "row_softmax", 0, 2, "failed", "wrong-dim", ""] for name in ("ada", "ben")]
                + [["cleo", LESSON, "row_softmax", 2, 2, "passed", "", ""]])  # fmt: skip
    for student, start in (("ada", 0), ("ben", 0), ("cleo", 9)):
        answers = {exercise: noise(start + n) for n, exercise in enumerate(EXERCISES[:5])}
        write_notebook(tmp_path / "autograded", student, LESSON, answered_notebook(LESSON, answers))
    return tmp_path


def page_of(out: Path, *more: object, name: str = "report.html") -> str:
    status, said = run_instructors("report", out, *more)
    assert status == 0, said
    return (out / name).read_text(encoding="utf-8")


def test_who_handed_nothing_in_is_on_the_page_by_name_unless_names_are_hidden(out: Path) -> None:
    page = page_of(out)
    shown = set(NAMES.findall(page))
    assert shown == {"ada (Lovelace, Ada)", "ben (Bitdiddle, Ben)", "cleo (Cobol, Cleo)", "zoe (Absent, Zoë)", "u17"}
    text = re.sub(r"\s+", " ", Page(page).text)
    assert "5 learners, 1 lesson" in text
    assert "not handed in: 2 learners" in text
    assert text.count("nothing handed in for 01_tensors") == 2
    hidden = NAMES.sub("", page)
    assert not [name for name in ("Lovelace", "Bitdiddle", "Absent", "u17") if name in hidden]
    first = page.index('<table class="heat"')
    places = re.findall(r"--o0:(\d);.*?>(\w+)(?: \(|</span>)", page[first : page.index("</table>", first)])
    assert [who for _, who in sorted(places)] == ["zoe", "ben", "cleo", "ada", "u17"], "by name"


def test_the_page_about_an_exercise_has_names_and_who_handed_nothing_in(out: Path) -> None:
    page = page_of(out, "--exercise", "row_softmax", name="row_softmax.html")
    assert page.index("ben (Bitdiddle, Ben)") < page.index("No answer") < page.index("zoe (Absent, Zoë)")


def test_answers_in_the_notebook_of_mistakes_have_no_names_of_the_roster(out: Path) -> None:
    write_answer(out, "ada", "def row_softmax(x):\n    lovelace = x\n    return lovelace")
    assert run_instructors("report", out, "--mistakes", out / "week.ipynb")[0] == 0
    told = (out / "week.ipynb").read_text(encoding="utf-8")
    assert "return someone" in told and "lovelace" not in told


def test_a_damaged_roster_is_named_and_the_page_is_made_without_it(out: Path) -> None:
    (out / "roster.csv").write_text("id,email\nada,nowhere\n")
    status, said = run_instructors("report", out)
    assert status == 0 and "names, and members who handed nothing in, are left out." in said.replace("\n", " ")
    assert "ada" in NAMES.findall((out / "report.html").read_text())


def test_a_notebook_that_a_group_handed_in_together_counts_once_for_its_exercises(out: Path) -> None:
    page = page_of(out)
    text = re.sub(r"\s+", " ", Page(page).text)
    assert "row_softmax 1 of 2 right" in page
    assert "A notebook that members of a group handed in together counts once here and under similar answers." in text
    assert "No two learners stand out" in text
    (out / "roster.csv").write_text(ROSTER.replace(",red", ","), encoding="utf-8")
    page = page_of(out)
    assert "row_softmax 1 of 3 right" in page
    assert "handed in together" not in page and "No two learners stand out" not in page


def test_only_members_of_one_group_with_all_answers_alike_share_a_notebook() -> None:
    roster = {"a": Enrolled(group="1"), "b": Enrolled(group="1"), "c": Enrolled(group="1"), "d": Enrolled(group="2")}
    answers = {"e": dict.fromkeys("abcdx", "1"), "f": {"a": "2", "b": "2", "c": "3", "d": "2", "x": "2"}}
    assert sharing(answers, roster) == {"b"}
    assert sharing(answers, {}) == set()


def test_points_are_those_of_exports_and_exercises_have_the_graders_verdicts(tmp_path: Path) -> None:
    most = {name: load_release(LESSON).points(name) for name in EXERCISES}
    verdicts = [Verdict("ada", LESSON, name, 0, most[name], "failed") for name in EXERCISES]
    write_table(tmp_path, [["ada", LESSON, v.exercise, 0, v.max_score, "failed", "", ""] for v in verdicts])
    assert "100 %" not in report(tmp_path)
    with Writer(tmp_path / "gradebook.db", [LESSON], tmp_path / "scratch") as writer:
        writer.write("ada", LESSON, verdicts)
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    with Gradebook(url) as book:
        (notebook,) = book.find_submission(LESSON, "ada").notebooks
        for grade in notebook.grades:
            grade.manual_score = grade.cell.max_score
        notebook.late_submission_penalty = 1
        book.db.commit()
    total = sum(most.values())
    assert final_scores(url) == {("ada", LESSON): (total - 1, total)}
    text = re.sub(r"\s+", " ", Page(page_of(tmp_path)).text)
    assert f"{total - 1:g} of {total:g}points, median" in text
    assert "Points are as in exports and on feedback pages, with scores given by hand and late penalties" in text
    assert "✗" in text
    (tmp_path / "gradebook.db").write_bytes(b"no gradebook")
    status, said = run_instructors("report", tmp_path)
    assert status == 0 and "the page has the automatic scores" in said.replace("\n", " ")
    assert "Points are the automatic scores" in (tmp_path / "report.html").read_text()
