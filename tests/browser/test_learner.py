"""A learner's first evening: open lesson 01, run an unsolved check, be wrong, be right."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import SCREENSHOTS, Lab

pytestmark = pytest.mark.browser

WRONG = """def row_softmax(x):
    e = torch.exp(x - x.amax(dim=0, keepdim=True))
    return e / e.sum(dim=0, keepdim=True)"""
RIGHT = """def row_softmax(x):
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)"""


def open_lesson(page: Page, lab: Lab) -> None:
    page.goto(lab.address("01_tensors.ipynb"))
    expect(page.locator(".jp-Notebook .jp-Cell").first).to_be_visible()
    expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached()


def code_cell(page: Page, text: str) -> Locator:
    """The code cell whose source has this text."""
    return page.locator(".jp-CodeCell", has=page.locator(".jp-InputArea-editor", has_text=text)).first


def run(page: Page, cell: Locator) -> None:
    """Run a cell. JupyterLab may still be settling when the first key comes, and lose it."""
    prompt = cell.locator(".jp-InputPrompt")
    for _ in range(4):
        cell.scroll_into_view_if_needed()
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        with contextlib.suppress(AssertionError):
            expect(prompt).not_to_have_text("[ ]:", timeout=6000)
            break
    expect(prompt).to_have_text(re.compile(r"\[\d+\]:"))


def write(page: Page, cell: Locator, source: str) -> None:
    cell.scroll_into_view_if_needed()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)


def card(cell: Locator) -> Locator:
    return cell.locator(".tc-card").last


def shoot(page: Page, cell: Locator, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    cell.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def shoot_card(cell: Locator, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    card(cell).screenshot(path=SCREENSHOTS / f"card-{name}.png")


def test_a_learner_is_told_not_attempted_then_wrong_then_right(page: Page, lab: Lab) -> None:
    open_lesson(page, lab)
    run(page, code_cell(page, "import torch"))
    check = code_cell(page, 'check("row_softmax")')
    answer = code_cell(page, "def row_softmax")

    run(page, answer)
    run(page, check)
    expect(card(check)).to_contain_text("Not attempted")
    shoot_card(check, "not-attempted")

    write(page, answer, WRONG)
    run(page, answer)
    run(page, check)
    expect(card(check)).to_contain_text("Not right yet")
    expect(card(check)).to_contain_text("wrong-dim")
    expect(card(check)).to_contain_text("sums to")
    expect(card(check).locator("svg").first).to_be_visible()
    shoot(page, check, "wrong")
    shoot_card(check, "wrong")

    card(check).locator("a", has_text="Reductions").click()
    expect(page.locator("h2", has_text="Reductions").first).to_be_in_viewport()

    write(page, answer, RIGHT)
    run(page, answer)
    run(page, check)
    expect(card(check)).to_contain_text("Right")
    expect(card(check)).to_contain_text("second device")
    shoot_card(check, "right")


def test_no_question_is_asked_on_the_first_start(page: Page, lab: Lab) -> None:
    open_lesson(page, lab)
    page.wait_for_timeout(1500)
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    assert page.locator(".Toastify__toast").all_inner_texts() == []


def test_run_all_of_the_untouched_lesson_ends_without_an_error(page: Page, lab: Lab) -> None:
    open_lesson(page, lab)
    page.locator(".jp-Cell").first.click()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    last = code_cell(page, 'check("attention_scores")')
    expect(last.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"), timeout=90_000)
    expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached(timeout=90_000)
    assert page.locator("[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
    assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    shoot(page, page.locator(".jp-Cell").first, "lesson")


@pytest.mark.sandbox
def test_a_feedback_page_reads_well(page: Page, tmp_path: Path) -> None:
    from autograde.grading import grade
    from autograde.sample import LESSON, make_sample_class

    make_sample_class(tmp_path / "class")
    for folder in (tmp_path / "class").iterdir():
        if folder.name != "cleo":
            shutil.rmtree(folder)
    grade([LESSON], tmp_path / "class", tmp_path / "out")
    page.set_viewport_size({"width": 900, "height": 700})
    page.goto((tmp_path / "out" / "feedback" / "cleo" / f"{LESSON}.html").as_uri())
    section = page.locator("section.failed", has_text="row_softmax")
    expect(section).to_contain_text("global-maximum")
    expect(section.locator(".score")).to_have_text("0 of 2")
    expect(section.locator("pre")).to_contain_text("def row_softmax")
    expect(section.locator("pre")).to_be_visible()
    section.locator("a", has_text="Reductions").click()
    expect(page.locator("section.section", has_text="numerator and denominator")).to_be_in_viewport()
    section.scroll_into_view_if_needed()
    page.screenshot(path=SCREENSHOTS / "feedback.png")
