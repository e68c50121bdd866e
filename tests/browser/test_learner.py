"""A learner's first evening: open lesson 01, run an unsolved check, be wrong, be right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from autograde.judge.submission import Submission, SubmittedCell
from autograde.judge.verdict import Verdict
from autograde.results.feedback import feedback
from autograde.source.release import load_release
from tests.browser.conftest import SCREENSHOTS, Lab
from tests.browser.notebooks import (
    IDLE,
    TALLEST_CARD,
    card,
    code_cell,
    open_notebook,
    run,
    run_all,
    shoot,
    shoot_page,
    use_settings,
    wait_until_saved,
    write,
)
from tests.support.working_copies import WRONG
from torchcourse.workspace.start_page import renew

pytestmark = pytest.mark.browser

LESSON = "01_tensors.ipynb"

MIN_TRACK = 200
"""Pixels of a slider between its ends."""


def test_a_learner_is_told_not_attempted_then_wrong_then_right(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, LESSON)
    run(page, code_cell(page, "import torch"))
    check = code_cell(page, 'check("row_softmax")')
    answer = code_cell(page, "def row_softmax")
    for source, name, words in (
        ("", "not-attempted", ["Not attempted"]),
        (WRONG, "wrong", ["Not right yet", "wrong-dim", "sums to"]),
        (WRONG.replace("dim=0", "dim=-1"), "right", ["Right", "second device"]),
    ):
        if source:
            write(page, answer, source)
        run(page, answer)
        run(page, check)
        for word in words:
            expect(card(check)).to_contain_text(word)
        shoot(card(check), f"card-{name}")
        if name == "right":
            write(page, answer, WRONG)
            title = card(check).locator(".tc-title")
            assert title.text_content() == "Checked an earlier version · row_softmax"  # long before a save
            expect(card(check).locator(".tc-changed")).to_be_visible()
            shoot(card(check), "card-edited")
            page.keyboard.press("Control+z")
            assert title.text_content() == "Right · row_softmax"
            expect(card(check).locator(".tc-changed")).to_be_hidden()
            write(page, answer, WRONG)
            wait_until_saved(page, lab, LESSON, WRONG.splitlines()[-1])  # the card follows the file, too
            saved = card(check).and_(page.locator(".stale"))  # the kernel has read the file
            expect(saved.locator(".tc-changed")).to_be_visible()
            expect(title).to_have_text(re.compile("^Checked an earlier version"))
            page.keyboard.press("Control+z")
            assert title.text_content() == "Right · row_softmax"  # without another save
            expect(card(check).locator(".tc-changed")).to_be_hidden()
        if name == "wrong":
            card(check).locator("summary", has_text="cases pass").click()
            expect(card(check).locator("svg").first).to_be_visible()
            shoot_page(page, check, name)
            card(check).locator("a", has_text="Reductions").click()
            expect(page.locator("h2", has_text="Reductions").first).to_be_in_viewport()
    check_that_the_verdict_is_in_view_after_shift_enter(page, answer, check)


def check_that_the_verdict_is_in_view_after_shift_enter(page: Page, answer: Locator, check: Locator) -> None:
    """Shift+Enter goes on to the next cell, so a card has to be small enough to stay."""
    page.set_viewport_size({"width": 1366, "height": 768})
    write(page, answer, WRONG)
    run(page, answer)
    check.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    expect(card(check)).to_contain_text("Not right yet")
    page.wait_for_timeout(500)
    expect(card(check).locator(".tc-title")).to_be_in_viewport()
    expect(card(check).locator(".tc-first")).to_be_in_viewport()
    box = card(check).bounding_box()
    assert box is not None and box["height"] <= TALLEST_CARD, box
    shoot(page, "verdict")


def test_a_link_on_the_start_page_opens_the_exercise_though_jupyterlab_has_not_drawn_it(
    page: Page, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(lab.data))
    page.set_viewport_size({"width": 1366, "height": 768})
    chosen = use_settings(page, lab, "@jupyterlab/notebook-extension:tracker", {})
    renew(lab.folder)  # as `torchcourse lab` does; what another test left there may have been saved without its table
    try:
        open_notebook(page, lab, "START.ipynb")
        page.locator("[title^='freeze:']").first.click()
        expect(code_cell(page, "def freeze")).to_be_in_viewport()
        expect(page.locator("h3", has_text="Exercise: freeze")).to_be_in_viewport(ratio=1)
        shoot(page, "start-link")
        page.mouse.move(800, 400)
        page.mouse.wheel(0, 2000)
        page.wait_for_timeout(1000)
        expect(page.locator("h3", has_text="Exercise: freeze")).not_to_be_in_viewport()
        for notebook in ("05_training.ipynb", "START.ipynb"):
            page.goto(lab.address(notebook).removesuffix("&reset"))  # which keeps the tabs
            expect(page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").first).to_be_visible()
        page.locator("[title^='AdamW:']").first.click()
        expect(code_cell(page, "class AdamW")).to_be_in_viewport()
        expect(page.locator("h3", has_text="Exercise: AdamW")).to_be_in_viewport(ratio=1)
        expect(page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell.jp-mod-active h3")).to_be_visible()
    finally:
        use_settings(page, lab, "@jupyterlab/notebook-extension:tracker", chosen)


def test_a_card_follows_its_cell_wherever_that_goes_and_in_each_view(page: Page, lab: Lab) -> None:
    right = WRONG.replace("dim=0", "dim=-1")
    open_notebook(page, lab, LESSON)
    run(page, code_cell(page, "import torch"))
    check, answer = code_cell(page, 'check("row_softmax")'), code_cell(page, "def row_softmax")
    write(page, answer, right)
    run(page, answer)
    run(page, check)
    title = card(check).locator(".tc-title")
    expect(title).to_have_text("Right · row_softmax")
    answer.locator(".cm-content").click()
    for keys in (["Escape", "Control+Shift+ArrowDown"], ["Escape", "m", "y"]):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_timeout(300)
        write(page, answer, right + "  # edited")
        assert title.text_content() == "Checked an earlier version · row_softmax"
        write(page, answer, right)
        expect(title).to_have_text("Right · row_softmax", timeout=10_000)
    page.evaluate("window.jupyterapp.commands.execute('docmanager:clone')")
    titles = page.locator(".tc-title", has_text="row_softmax")
    expect(titles).to_have_count(2)
    expect(page.locator(".tc-card", has_text="row_softmax").locator(".tc-changed")).to_have_count(2)  # both follow
    write(page, code_cell(page, "def row_softmax"), right + "  # again")
    assert titles.all_text_contents() == ["Checked an earlier version · row_softmax"] * 2  # long before a save


def test_reset_shows_the_stub_at_once_and_keeps_everything_else(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, LESSON)
    run(page, code_cell(page, "import torch"))
    answer, check = code_cell(page, "def row_softmax"), code_cell(page, 'check("row_softmax")')
    write(page, answer, "def row_softmax(x):\n    return x")
    run(page, answer)
    run(page, check)
    wait_until_saved(page, lab, LESSON, "Check of row_softmax: Not right yet")
    write(page, code_cell(page, "def describe"), "def describe(t):\n    return {'typed': 'just now'}")
    check.get_by_role("button", name="Reset this exercise").click()
    expect(check).to_contain_text(re.compile(r"is in aside/\S+py. The cell is as it was released."))
    expect(answer).to_contain_text("raise Unattempted")
    expect(answer).to_be_in_viewport()
    shoot(check, "reset")
    write(page, answer, "def row_softmax(x):\n    return -x")
    wait_until_saved(page, lab, LESSON, "return -x")
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    open_notebook(page, lab, LESSON)  # which draws the button's answer again
    page.wait_for_timeout(2000)
    expect(answer).to_contain_text("return -x")
    expect(code_cell(page, "def describe")).to_contain_text("just now")


def test_a_slider_is_long_enough_to_set(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, "02_autograd.ipynb")
    run(page, code_cell(page, "import torch"))
    demo = code_cell(page, "descent.explore()")
    run(page, demo)
    track = demo.locator(".noUi-target").first
    expect(track).to_be_visible()
    box = track.bounding_box()
    assert box is not None and box["width"] >= MIN_TRACK, box
    shoot(demo, "slider")


def test_run_all_of_the_untouched_lesson_asks_nothing_and_ends_without_an_error(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, LESSON)
    page.wait_for_timeout(1500)
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    assert page.locator(".Toastify__toast").all_inner_texts() == []
    run_all(page)
    last = code_cell(page, 'check("attention_scores")')
    expect(last.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"), timeout=90_000)
    expect(page.locator(IDLE)).to_be_attached(timeout=90_000)
    for kind in ("stderr", "error"):
        expect(page.locator(f"[data-mime-type='application/vnd.jupyter.{kind}']")).to_have_count(0)
    shoot_page(page, page.locator(".jp-Cell").first, "lesson")


def test_a_feedback_page_reads_well(page: Page, tmp_path: Path) -> None:
    written = tmp_path / "feedback.html"
    submission = Submission("cleo", load_release("01_tensors"), (SubmittedCell("code", WRONG, "row_softmax"),))
    message = 'In the case "a matrix" row 3 sums to 2.447 and not to 1: softmax ran over another dimension.'
    failed = Verdict("cleo", "01_tensors", "row_softmax", 0, 2, "failed", "wrong-dim", message, "Reductions")
    written.write_text(feedback(submission, [failed]), encoding="utf-8")
    page.set_viewport_size({"width": 900, "height": 700})
    page.goto(written.as_uri())
    section = page.locator("section.failed", has_text="row_softmax")
    expect(section).to_contain_text("wrong-dim")
    expect(section.locator(".score")).to_have_text("0 of 2")
    expect(section.locator("pre")).to_contain_text("def row_softmax")
    expect(section.locator("pre")).to_be_visible()
    section.locator("a", has_text="Reductions").click()
    expect(page.locator("section.section", has_text="numerator and denominator")).to_be_in_viewport()
    section.scroll_into_view_if_needed()
    page.screenshot(path=SCREENSHOTS / "feedback.png")
