"""A question that is answered in words: graded by hand in nbgrader, with its rubric, and outside of grades.csv."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograde.batch.grading import grade
from autograde.classroom.synthetic_class import write_notebook
from autograde.source import paths
from autograde.source.release import load_release
from autograde.source.script import MalformedScriptError, read_script, rubrics
from tests.support.classes import halves, write_class
from tests.support.doors import grades, stock_scores
from tests.support.results import grade_rows
from torchcourse.model.notebook_file import cells, exercises_of, find_cell, grade_id, read
from torchcourse.workspace.reset import reset

LESSON, QUESTION = "15_quizzes", "larger_than_memory"
ANSWER = "I store the images in shards <script>alert(1)</script>, because opening files costs time."
RUBRIC = rubrics(paths.SOLUTIONS / f"{LESSON}.py")[QUESTION]


def submission(answer: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(json.dumps(load_release(LESSON).notebook))
    cell = find_cell(notebook, QUESTION)
    assert cell is not None
    if answer:
        cell["source"] = answer
    return notebook


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("class")
    write_notebook(folder / "submitted", "ann", LESSON, submission(ANSWER))
    write_notebook(folder / "submitted", "ben", LESSON, submission(""))
    write_class(folder / "submitted", LESSON, halves(LESSON)[:1])
    grade([LESSON], folder / "submitted", folder / "out")
    yield folder


def page(folder: Path, student: str) -> str:
    return (folder / "out" / "feedback" / student / f"{LESSON}.html").read_text()


@pytest.mark.sandbox
def test_both_doors_leave_an_answer_to_a_person_and_give_nothing_for_an_untouched_cell(graded: Path) -> None:
    ours = grades(f"sqlite:///{graded / 'out' / 'gradebook.db'}", LESSON)
    assert ours["ann", QUESTION] == (None, True)
    assert ours["ben", QUESTION] == (0.0, False)
    stock_scores(LESSON, graded)
    assert grades(f"sqlite:///{graded / 'gradebook.db'}", LESSON) == ours
    for root in (graded, graded / "out"):
        notebook = read(root / "autograded" / "ann" / LESSON / f"{LESSON}.ipynb")
        shown = list(cells(notebook))
        place = [grade_id(cell) for cell in shown].index(QUESTION)
        answer, rubric = ("".join(shown[place + n]["source"]) for n in (0, 1))
        assert answer == ANSWER
        assert rubric == f"**Rubric**\n\n{RUBRIC}"


@pytest.mark.sandbox
def test_grades_csv_has_the_exercises_and_the_page_has_the_question_too(graded: Path) -> None:
    graded_exercises = {row["exercise"] for row in grade_rows(graded / "out" / "grades.csv")}
    assert graded_exercises == set(load_release(LESSON).exercises)
    assert f"{QUESTION}: waits for your instructor" in page(graded, "ann")
    assert "I store the images in shards &lt;script&gt;" in page(graded, "ann")
    assert f"{QUESTION}: not answered" in page(graded, "ben")
    assert "Throughput" not in page(graded, "ann")


@pytest.mark.sandbox
def test_a_score_given_by_hand_counts_on_the_page_and_stays(graded: Path) -> None:
    from nbgrader.api import Gradebook

    url = f"sqlite:///{graded / 'out' / 'gradebook.db'}"
    total = sum(load_release(LESSON).points(name) for name in load_release(LESSON).exercises)
    assert f"<b>0</b> of {total:g} points" in page(graded, "ann")
    with Gradebook(url) as book:
        given = book.find_grade(QUESTION, LESSON, LESSON, "ann")
        given.manual_score, given.needs_manual_grade = 4.5, False
        book.find_comment(QUESTION, LESSON, LESSON, "ann").manual_comment = "Say how you would resume."
        book.db.commit()
    grade([LESSON], graded / "submitted", graded / "out")
    shown = page(graded, "ann")
    assert f"<b>4.5</b> of {total + 6:g} points" in shown
    assert f"{QUESTION}: graded by your instructor" in shown
    assert "Say how you would resume." in shown
    assert grades(url, LESSON)["ann", QUESTION] == (None, False)
    with Gradebook(url) as book:
        assert book.find_grade(QUESTION, LESSON, LESSON, "ann").score == 4.5


def test_learners_get_the_question_and_a_place_for_the_answer() -> None:
    notebook = read(paths.NOTEBOOKS / f"{LESSON}.ipynb")
    cell = find_cell(notebook, QUESTION)
    assert cell is not None
    assert "Write your answer here" in "".join(cell["source"])
    assert QUESTION not in exercises_of(notebook), "no check and no progress knows it"


def test_an_answer_in_words_can_be_set_back(tmp_path: Path) -> None:
    path = tmp_path / f"{LESSON}.ipynb"
    path.write_text(json.dumps(submission(ANSWER)))
    kept = reset(path, QUESTION)
    assert kept is not None
    assert (kept.file.suffix, ANSWER in kept.file.read_text()) == (".md", True)
    cell = find_cell(read(path), QUESTION)
    assert cell is not None
    assert "Write your answer here" in "".join(cell["source"])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (" points=6", "", "question larger_than_memory needs points"),
        ("# ### END SOLUTION\n\n# %% [markdown]\n# ## PyTorch, T", "\n# %% [markdown]\n# ## PyTorch, T", "the rubric"),
        (f'question="{QUESTION}"', 'question="ddp_gradient"', "has to be a Markdown cell, with a name that nothing"),
        (f'[markdown] question="{QUESTION}"', f'question="{QUESTION}"', "has to be a Markdown cell"),
    ],
)
def test_a_malformed_question_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    script = (paths.SOLUTIONS / f"{LESSON}.py").read_text()
    assert script.count(old) == 1
    path = tmp_path / f"{LESSON}.py"
    path.write_text(script.replace(old, new))
    with pytest.raises(MalformedScriptError, match=says):
        read_script(path)
