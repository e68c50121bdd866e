"""The start page offers quizzes again that went wrong on an earlier day, and knows that from the record alone."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from torchcourse.model.lessons import lessons
from torchcourse.workspace import progress, start_page
from torchcourse.workspace.due_quizzes import DueQuiz, as_markdown, find_due
from torchcourse.workspace.progress import ATTEMPTED, OPEN, PASSED

TODAY = date(2026, 3, 20)
QUIZ, OTHER = "view_possible", "row_softmax"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / progress.STATE).mkdir()
    return tmp_path


def recorded(folder: Path, *steps: tuple[str, int], exercise: str = QUIZ) -> Path:
    """Record states of an exercise so many days ago."""
    with (folder / progress.STATE / progress.FILE).open("a") as file:
        for state, days in steps:
            time = f"{TODAY - timedelta(days=days)}T23:10:00+0100"
            file.write(json.dumps({"exercise": exercise, "state": state, "time": time}) + "\n")
    return folder


def due(folder: Path) -> list[DueQuiz]:
    return find_due(folder, lessons(), TODAY)


@pytest.mark.parametrize(
    ("steps", "offered"),
    [
        ([(ATTEMPTED, 0)], None),
        ([(ATTEMPTED, 1)], (1, False)),
        ([(PASSED, 9)], None),
        ([(ATTEMPTED, 9), (PASSED, 2)], None),
        ([(ATTEMPTED, 9), (PASSED, 3)], (3, True)),
        ([(ATTEMPTED, 9), (PASSED, 5), (OPEN, 1)], None),
        ([(ATTEMPTED, 9), (PASSED, 5), (OPEN, 4), (PASSED, 4)], None),
        ([(PASSED, 9), (OPEN, 8), (ATTEMPTED, 8), (PASSED, 7)], (7, True)),
    ],
    ids=["wrong today", "wrong yesterday", "right at once", "right after all, early", "right after all, days ago",
         "reset", "right at once after a reset", "wrong only after a reset"],
)  # fmt: skip
def test_a_quiz_is_offered_days_after_it_was_wrong(
    folder: Path, steps: list[tuple[str, int]], offered: tuple[int, bool] | None
) -> None:
    assert due(recorded(folder, *steps)) == ([DueQuiz(QUIZ, *offered)] if offered else [])


def test_only_quizzes_are_offered_the_longest_waiting_first(folder: Path) -> None:
    recorded(folder, (ATTEMPTED, 30), exercise=OTHER)
    recorded(folder, (ATTEMPTED, 2), exercise="registered")
    recorded(folder, (ATTEMPTED, 6), (PASSED, 4))
    assert [one.exercise for one in due(folder)] == [QUIZ, "registered"]
    said = as_markdown(due(folder))
    assert f"[{QUIZ}](15_quizzes.ipynb#cell-id=about-{QUIZ}), right at last 4 days ago" in said
    assert "registered), last wrong 2 days ago" in said
    assert f"`torchcourse reset 15_quizzes {QUIZ}`" in said
    assert as_markdown([]) == ""


def test_damaged_lines_and_times_are_passed_over(folder: Path) -> None:
    file = folder / progress.STATE / progress.FILE
    file.write_text('{"exercise": "registered", "state": "attempted", "time": "soon"}\n{"exer\n')
    recorded(folder, (ATTEMPTED, 3))
    assert [one.exercise for one in due(folder)] == [QUIZ]
    assert progress.read(folder) == {"registered": ATTEMPTED, QUIZ: ATTEMPTED}


def test_the_start_page_shows_the_offer_below_the_table(folder: Path) -> None:
    time = f"{date.today() - timedelta(days=5)}T10:00:00"
    line = {"exercise": QUIZ, "state": ATTEMPTED, "time": time}
    (folder / progress.STATE / progress.FILE).write_text(json.dumps(line) + "\n")
    start_page.renew(folder)
    page = json.loads((folder / start_page.NAME).read_text())
    shown = "".join(page["cells"][1]["outputs"][0]["data"]["text/markdown"])
    assert shown.index("| [15 · Quizzes]") < shown.index("**Quizzes to try again**") < shown.index("5 days ago")
