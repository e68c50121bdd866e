"""One exercise across a class: who wrote what, outcome by outcome, and nothing on the page that acts."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.report.exercise_page import exercise_page
from autograde.source import paths
from autograde.source.release import load_release
from autograde.source.script import rubrics
from tests.support.commands import run_instructors
from tests.support.pages import HOSTILE, Page
from tests.support.reports import EXERCISES, LESSON, write_answer, write_table

QUIZZES = "15_quizzes"


def verdict(student: str, status: str, misconception: str = "", score: float = 0) -> list[object]:
    return [student, LESSON, "row_softmax", score, 2, status, misconception, f"what {status} means"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    rows = [
        verdict("ada", "passed", score=2), verdict("dan", "error"), verdict("eve", "unattempted"),
        *(verdict(name, "failed", "wrong-dim") for name in ("ben", "cleo")),
    ]  # fmt: skip
    write_table(tmp_path / "out", rows)
    for student in ("ada", "ben", "cleo", "dan"):
        write_answer(tmp_path / "out", student, f"def row_softmax(x):\n    return '{student} wrote this'")
    return tmp_path / "out"


def test_answers_with_the_same_outcome_stand_together_the_most_frequent_mistake_first(out: Path) -> None:
    words = exercise_page(out, "row_softmax")
    headings = [words.index(f"<h2>{title} ") for title in ("wrong-dim", "error", "passed", "No answer")]
    assert headings == sorted(headings)
    places = [words.index(f"{student} wrote this") for student in ("ben", "cleo", "dan", "ada")]
    assert headings[0] < places[0] < places[1] < headings[1] < places[2] < headings[2] < places[3] < headings[3]
    assert "what failed means" in words and "what passed means" not in words
    assert words.index("eve") > headings[3]
    assert "Rubric" not in words


def test_a_question_is_shown_with_its_rubric_and_all_answers(tmp_path: Path) -> None:
    (question,) = load_release(QUIZZES).questions
    first = load_release(QUIZZES).exercises[0]
    write_table(tmp_path, [[name, QUIZZES, first, 0, 1, "unattempted", "", ""] for name in ("ada", "ben")])
    for student, text in (
        ("ada", "I would *shard* the optimizer."),
        ("ben", load_release(QUIZZES).cells[question].source),
    ):
        notebook = answered_notebook(QUIZZES, {question: text})
        write_notebook(tmp_path / "autograded", student, QUIZZES, notebook)
    words = exercise_page(tmp_path, question)
    rubric = rubrics(paths.SOLUTIONS / f"{QUIZZES}.py")[question]
    assert rubric.split("\n")[0].split("`")[0].split("'")[0] in words
    assert "I would *shard* the optimizer." in words
    assert words.index("No answer") < words.index("ben")


def test_what_learners_write_is_text(tmp_path: Path) -> None:
    rows = [[f"s{n}", LESSON, "row_softmax", 0, 2, text, text, text] for n, text in enumerate(HOSTILE)]
    write_table(tmp_path, [*rows, [HOSTILE[0], LESSON, "row_softmax", 0, 2, "missing", "", ""]])
    for n, text in enumerate(HOSTILE):
        write_answer(tmp_path, f"s{n}", text)
    seen = Page(exercise_page(tmp_path, "row_softmax"))
    assert not seen.tags & {"script", "img", "iframe", "svg", "a"}
    assert not {name for name in seen.attribute_names if name.startswith("on")}


def test_the_command_names_the_page_and_refuses_what_nobody_knows(out: Path) -> None:
    status, said = run_instructors("report", out, "--exercise", "row_softmax")
    assert status == 0 and f"{out}/row_softmax.html; it names learners" in said.replace("\n", " ").replace("  ", " ")
    assert "ada wrote this" in (out / "row_softmax.html").read_text(encoding="utf-8")
    status, said = run_instructors("report", out, "--exercise", "row_sofmax")
    assert status == 2 and "row_softmax" in said
    assert run_instructors("report", out, "--exercise", EXERCISES[0], "--mistakes", out / "m.ipynb")[0] == 2
