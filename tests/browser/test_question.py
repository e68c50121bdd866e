"""A question in words, graded by hand in the formgrader: answer and rubric, score and comment, and the feedback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from autograde.batch.grading import grade
from tests.browser.conftest import class_server
from tests.browser.formgrader import press, shoot
from tests.support.classes import adas_class
from tests.support.postgres import HAS_POSTGRES, database
from torchcourse.model.notebook_file import find_cell

pytestmark = [pytest.mark.browser, pytest.mark.sandbox]

LESSON, QUESTION = "15_quizzes", "larger_than_memory"
ANSWER = "I would store the images in **shards** of 500 MB, because opening many small files costs time."
COMMENT = "Say how you would resume in the middle of an epoch."


@pytest.fixture
def gradebook() -> Iterator[str]:
    """Yield the URL of a gradebook on a server, or "", for one in a file, where PostgreSQL is not installed."""
    with database() if HAS_POSTGRES else nullcontext("") as made:
        yield made


@pytest.fixture
def room(tmp_path: Path, gradebook: str) -> Path:
    """Return a class folder in which ada's answer in words has come back from autograding."""
    return adas_class(tmp_path, LESSON, answered, gradebook)


def answered(notebook: dict[str, Any]) -> None:
    cell = find_cell(notebook, QUESTION)
    assert cell is not None
    cell["source"] = ANSWER


@pytest.fixture
def lab(room: Path, tmp_path: Path) -> Iterator[str]:
    """Yield the address of a JupyterLab that runs in the class folder; `{}` stands for the page."""
    with class_server(room, tmp_path / "home") as address:
        yield address


def test_an_answer_in_words_gets_its_score_by_hand(page: Page, lab: str, room: Path, gradebook: str) -> None:
    page.goto(lab.format("lab"))  # which lets the browser in
    page.goto(lab.format(f"formgrader/manage_students/ada/{LESSON}"))
    with page.expect_response(re.compile("/api/comments")):
        page.locator("td a", has_text=LESSON).click()
    answer = page.locator(".nbgrader_cell", has=page.locator(f"#{QUESTION}"))
    expect(answer.locator("strong", has_text="shards")).to_be_visible()
    expect(page.locator("body")).to_contain_text("Rubric")
    expect(page.locator("body")).to_contain_text("Throughput.")
    score, comment = page.locator(f"input#{QUESTION}"), page.locator(f"#{QUESTION}-comment")
    expect(score).to_have_class(re.compile("needs_manual_grade"))
    expect(score).to_have_value("")
    for field, text, kind in ((score, "4.5", "grade"), (comment, COMMENT, "comment")):
        with page.expect_response(re.compile(f"/api/{kind}/")) as saved:
            field.fill(text)
            field.blur()
        assert saved.value.ok
    answer.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    shoot(page, "formgrader-question", 780)

    page.goto(lab.format("formgrader/manage_assignments"))
    press(page, page, page.locator("tr", has_text=LESSON).locator(".generate-feedback a"), "Successfully generated")
    grade([LESSON], room / "submitted", room, gradebook=gradebook)
    assert (room / "gradebook.db").exists() == (not gradebook)
    theirs, ours = (room / "feedback" / "ada" / f"{LESSON}{rest}.html" for rest in (f"/{LESSON}", ""))
    page.goto(theirs.as_uri())
    panel = page.locator(".nbgrader_cell", has=page.locator(f"a[name='{QUESTION}']"))
    expect(panel).to_contain_text("Score: 4.5 / 6.0")
    expect(panel).to_contain_text(COMMENT)
    page.goto(ours.as_uri())
    section = page.locator("section", has_text=f"{QUESTION}: graded by your instructor")
    expect(section.locator(".score")).to_have_text("4.5 of 6")
    expect(section).to_contain_text(COMMENT)
