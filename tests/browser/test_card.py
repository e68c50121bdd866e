"""The card in JupyterLab: hints at a button, the reference after passing, both by keyboard and in either theme."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from autograde.source.private_half import private_half
from tests.browser.conftest import Lab
from tests.browser.notebooks import (
    TALLEST_CARD,
    card,
    choose_theme,
    code_cell,
    open_notebook,
    run,
    shoot,
    shut_kernel_down,
    wait_until_saved,
    write,
)
from torchcourse.checking.answer_cell import CHANGED
from torchcourse.checking.card import as_html
from torchcourse.checking.card_details import card_details
from torchcourse.checking.check import report_on
from torchcourse.checking.run_record import RunRecord

pytestmark = pytest.mark.browser

NOTEBOOK, NAME = "02_autograd.ipynb", "linear_mse_gradients"

ANSWER = """def linear_mse_gradients(x, w, b, y):
    difference = x @ w.T + b - y
    slope = {factor} * difference / difference.numel()
    return slope.T @ x, slope.sum(dim=0)"""
CONTRAST = """element => {
    const rgb = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    let ground = element;
    while (ground && (rgb(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
    const sides = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor].map(c => light(rgb(c)));
    return (Math.max(...sides) + 0.05) / (Math.min(...sides) + 0.05);
}"""


def open_check(page: Page, lab: Lab) -> Locator:
    """Open the lesson; return the cell of the check."""
    open_notebook(page, lab, NOTEBOOK)
    return code_cell(page, f'check("{NAME}")')


def answer(page: Page, check: Locator, factor: int) -> None:
    """Write the answer with this factor, which should be 2, and check it."""
    cell = code_cell(page, f"def {NAME}")
    write(page, cell, ANSWER.format(factor=factor))
    run(page, cell)
    run(page, check)


def reads_well(page: Page, cell: Locator, theme: str) -> None:
    """Whether the theme is on, and words stand out from what is behind them."""
    assert page.locator("body").get_attribute("data-jp-theme-light") == str(theme == "light").lower()
    for part in (".tc-title", "summary >> nth=0", "td >> nth=2", ".tc-answers p", "pre >> nth=0"):
        for found in card(cell).locator(part).all():
            assert found.evaluate(CONTRAST) >= 4.5, (theme, part)


def ask_for_two_hints(page: Page, check: Locator) -> None:
    button = check.get_by_role("button", name=re.compile("hint"))
    button.focus()
    for level in (1, 2):
        page.keyboard.press("Enter")
        expect(card(check)).to_contain_text(f"Hints so far: {level} of 3")
        expect(check.get_by_role("alert")).to_be_visible()
        expect(button).to_be_focused()
    expect(button).to_have_accessible_name("Next hint (3 of 3)")


def look_at_reference(page: Page, check: Locator) -> None:
    unlocked = card(check).locator(".tc-answers")
    unlocked.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(unlocked.get_by_label("yours")).to_contain_text("slope = 2 * difference")
    expect(unlocked.get_by_label("the reference")).to_contain_text("of the mean square")
    expect(unlocked.locator("p")).to_contain_text("chain rule")
    page.keyboard.press("Tab")
    expect(unlocked.get_by_label("yours")).to_be_focused()


def test_hints_and_the_reference_by_keyboard_in_light_and_dark(page: Page, lab: Lab) -> None:
    check = open_check(page, lab)
    run(page, code_cell(page, "from torchcourse import"))
    answer(page, check, factor=1)
    expect(check.get_by_role("region", name=f"Check of {NAME}: Not right yet")).to_be_visible()
    card(check).locator("summary", has_text="cases pass").click()
    expect(check.get_by_role("img", name=re.compile("^where they differ: "))).to_be_visible()
    expect(check.get_by_role("columnheader", name="what was wanted")).to_be_visible()
    expect(card(check)).to_contain_text("Stuck?")

    ask_for_two_hints(page, check)
    reads_well(page, check, "light")
    shoot(check.locator(".jp-Cell-outputArea"), "card-hint")

    choose_theme(page, lab, "Dark")
    try:
        wait_until_saved(page, lab, NOTEBOOK, "Hints so far: 2 of 3")
        check = open_check(page, lab)
        expect(card(check)).to_contain_text("Hints so far: 2 of 3")
        reads_well(page, check, "dark")

        answer(page, check, factor=2)
        expect(check.get_by_role("region", name=f"Check of {NAME}: Right")).to_be_visible()
        expect(check.get_by_role("button", name=re.compile("hint"))).to_have_count(0)
        look_at_reference(page, check)
        reads_well(page, check, "dark")
    finally:
        choose_theme(page, lab, "Light")
    wait_until_saved(page, lab, NOTEBOOK, "Your answer beside the reference")
    check = open_check(page, lab)
    card(check).locator(".tc-answers summary").click()
    reads_well(page, check, "light")


def test_a_hint_button_of_yesterday_leaves_no_error_behind(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, NOTEBOOK)
    run(page, code_cell(page, "from torchcourse import"))
    other = code_cell(page, 'check("td_loss")')
    run(page, code_cell(page, "def td_loss"))
    run(page, other)
    expect(other.get_by_role("button", name=re.compile("hint"))).to_be_visible()
    wait_until_saved(page, lab, NOTEBOOK, "`td_loss` is not written yet")
    page.goto("about:blank")
    shut_kernel_down(page, lab, NOTEBOOK)
    open_notebook(page, lab, NOTEBOOK)
    expect(card(other)).to_contain_text("Stuck?")
    expect(other.get_by_text("Error displaying widget")).to_have_count(1)
    expect(other.get_by_text("Error displaying widget")).to_be_hidden()


def test_the_first_screen_of_a_wrong_answers_card_is_small(page: Page) -> None:
    """A notebook's cell is about 900 pixels wide on a laptop."""
    cards = []
    for lesson, name in (
        ("01_tensors", "one_hot"), ("01_tensors", "to_numpy"), ("01_tensors", "pairwise_distances"),
        ("05_training", "overfit_one_batch"), ("11_architectures", "generate"), ("14_ticket_router", "build_vocab"),
    ):  # fmt: skip
        for mistake in private_half(lesson, name).mistakes[:3]:
            record = RunRecord()
            report = report_on(name, {name: mistake.program}, record)
            cards.append(as_html(report, replace(card_details(report, None, record), warning=CHANGED)))
    page.set_content(f'<div style="width:900px;font-family:sans-serif">{"".join(cards)}</div>')
    boxes = [found.bounding_box() for found in page.locator(".tc-card").all()]
    heights = [round(box["height"]) for box in boxes if box]
    assert len(heights) == 18
    assert max(heights) <= TALLEST_CARD, heights
