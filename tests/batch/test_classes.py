"""A class for each lesson, graded by our command and by nbgrader's: answers are right, or make mistakes with names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autograde.batch import grading_log
from autograde.batch.grading import grade
from autograde.judge.lesson_grader import lesson_grader
from autograde.source.release import load_release
from tests.support.classes import Student, halves, students, write_class
from tests.support.doors import stock_scores
from tests.support.results import grade_rows
from torchcourse.model.catalogue import LESSONS, exercises
from torchcourse.model.observations import agree

pytestmark = pytest.mark.sandbox

SIZE = int(os.environ.get("TORCHCOURSE_CLASS", 0))
"""How many students a class has; by default two, of whom one is graded by nbgrader as well, in some lessons. `make
test-all` takes 20, and grades all of them by both doors."""
OTHER_DOOR = ("08_compile", "12_distributed", "13_efficiency")
"""Those whose answers need most of whatever runs them: compilers, processes, rules on all calls. The usual one goes
through both doors in test_grading.py, the one with a question in test_questions.py."""


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_student_gets_the_deserved_scores_and_in_some_lessons_from_nbgrader_too(
    lesson: str, tmp_path: Path
) -> None:
    members = students(lesson, SIZE) if SIZE else halves(lesson)
    write_class(tmp_path / "submitted", lesson, members)
    grade([lesson], tmp_path / "submitted", tmp_path / "out")
    rows = {(row["student"], row["exercise"]): row for row in grade_rows(tmp_path / "out" / "grades.csv")}
    seen = {key: (row["misconception"], float(row["score"])) for key, row in rows.items()}
    wanted = {(s.name, name): deserved(lesson, s, name) for s in members for name in exercises(lesson)}
    faults = [f"{key}: {rows[key]['status']} {seen[key]}, not {wanted[key]}: {rows[key]['message']}"
              for key in wanted if seen[key] != wanted[key]]  # fmt: skip
    assert not faults, "\n".join(faults)
    if SIZE or lesson in OTHER_DOOR:
        check_other_door(lesson, members if SIZE else members[:1], tmp_path / "other door")


def check_other_door(lesson: str, members: list[Student], folder: Path) -> None:
    """Check that nbgrader's own command gives these students the scores that they deserve, and logs each of them."""
    write_class(folder / "submitted", lesson, members)
    scores = {(s.name, name): deserved(lesson, s, name)[1] for s in members for name in exercises(lesson)}
    assert stock_scores(lesson, folder) == scores
    log = [json.loads(line) for line in (folder / grading_log.FILE).read_text().splitlines()]
    assert sorted((*line["lessons"], line["student"], line["by"]) for line in log) == sorted(
        (lesson, student.name, "nbgrader") for student in members
    )


def deserved(lesson: str, student: Student, name: str) -> tuple[str, float]:
    """The misconception to be named, and the points: half of them where only the second device shows the mistake."""
    points = load_release(lesson).points(name)
    if name not in student.wrong:
        return "", points
    place = student.wrong[name]
    judged = lesson_grader(lesson).oracles[name]
    known = judged.known[place]
    on_cpu = all(
        agree(known.seen("cpu", n), judged.wanted("cpu", n), case.tolerance) for n, case in enumerate(judged.cases)
    )
    return known.name, points / 2 if on_cpu else 0
