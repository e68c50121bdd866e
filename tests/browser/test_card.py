"""The card in JupyterLab: hints at a button, the reference after passing, both by keyboard and in either theme."""

from __future__ import annotations

import json
import re
import urllib.request

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import SCREENSHOTS, TOKEN, Lab
from tests.browser.test_learner import card, code_cell, run, write

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


def ask(lab: Lab, path: str, method: str, body: object = None) -> object:
    """Talk to the server as JupyterLab's own pages do."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{lab.port}/{path}", data, method=method)
    request.add_header("Authorization", f"token {TOKEN}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def choose_theme(lab: Lab, theme: str) -> None:
    name = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}[theme]
    ask(lab, "lab/api/settings/@jupyterlab/apputils-extension:themes", "PUT", {"raw": json.dumps({"theme": name})})


def open_lesson(page: Page, lab: Lab) -> Locator:
    """Open the lesson; the cell of the check."""
    page.goto(lab.address(NOTEBOOK))
    expect(page.locator(".jp-Notebook .jp-Cell").first).to_be_visible()
    expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached()
    return code_cell(page, f'check("{NAME}")')


def reads_well(page: Page, cell: Locator, theme: str) -> None:
    """Whether the theme is on, and words stand out from what is behind them."""
    assert page.locator("body").get_attribute("data-jp-theme-light") == str(theme == "light").lower()
    for part in (".tc-title", "summary >> nth=0", "td >> nth=2", ".tc-answers p", "pre >> nth=0"):
        for found in card(cell).locator(part).all():
            assert found.evaluate(CONTRAST) >= 4.5, (theme, part)


def shoot(cell: Locator, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    cell.locator(".jp-OutputArea").last.screenshot(path=SCREENSHOTS / f"{name}.png")


def save(page: Page, lab: Lab, text: str) -> None:
    """Save the notebook, until its file has this text."""
    for _ in range(40):
        page.keyboard.press("Control+s")
        page.wait_for_timeout(500)
        if text in (lab.folder / NOTEBOOK).read_text():
            return
    pytest.fail(f"the notebook was not saved with {text!r}")


def test_hints_and_the_reference_by_keyboard_in_light_and_dark(page: Page, lab: Lab) -> None:
    check = open_lesson(page, lab)
    answer = code_cell(page, f"def {NAME}")
    run(page, code_cell(page, "from torchcourse import"))
    write(page, answer, ANSWER.format(factor=1))
    run(page, answer)
    run(page, check)
    expect(check.get_by_role("region", name=f"Check of {NAME}: Not right yet")).to_be_visible()
    expect(check.get_by_role("img", name=re.compile("^where they differ: "))).to_be_visible()
    expect(check.get_by_role("columnheader", name="what was wanted")).to_be_visible()
    expect(card(check)).to_contain_text("Stuck?")

    button = check.get_by_role("button", name=re.compile("hint"))
    button.focus()
    for level in (1, 2):
        page.keyboard.press("Enter")
        expect(card(check)).to_contain_text(f"Hints so far: {level} of 3")
        expect(check.get_by_role("alert")).to_be_visible()
        expect(button).to_be_focused()
    expect(button).to_have_accessible_name("Next hint (3 of 3)")
    reads_well(page, check, "light")
    shoot(check, "card-hint")

    choose_theme(lab, "dark")
    try:
        save(page, lab, "Hints so far: 2 of 3")
        check = open_lesson(page, lab)
        expect(card(check)).to_contain_text("Hints so far: 2 of 3")
        reads_well(page, check, "dark")
        shoot(check, "card-hint-dark")

        answer = code_cell(page, f"def {NAME}")
        write(page, answer, ANSWER.format(factor=2))
        run(page, answer)
        run(page, check)
        expect(check.get_by_role("region", name=f"Check of {NAME}: Right")).to_be_visible()
        expect(check.get_by_role("button", name=re.compile("hint"))).to_have_count(0)
        unlocked = card(check).locator(".tc-answers")
        unlocked.locator("summary").focus()
        page.keyboard.press("Enter")
        expect(unlocked.get_by_label("yours")).to_contain_text("slope = 2 * difference")
        expect(unlocked.get_by_label("the reference")).to_contain_text("of the mean of squares")
        expect(unlocked.locator("p")).to_contain_text("chain rule")
        page.keyboard.press("Tab")
        expect(unlocked.get_by_label("yours")).to_be_focused()
        reads_well(page, check, "dark")
        shoot(check, "card-reference-dark")
    finally:
        choose_theme(lab, "light")
    save(page, lab, "Your answer beside the reference")
    check = open_lesson(page, lab)
    card(check).locator(".tc-answers summary").click()
    reads_well(page, check, "light")
    shoot(check, "card-reference")


def test_a_hint_button_of_yesterday_leaves_no_error_behind(page: Page, lab: Lab) -> None:
    open_lesson(page, lab)
    run(page, code_cell(page, "from torchcourse import"))
    other = code_cell(page, 'check("td_loss")')
    run(page, code_cell(page, "def td_loss"))
    run(page, other)
    expect(other.get_by_role("button", name=re.compile("hint"))).to_be_visible()
    save(page, lab, '`td_loss` is not written yet')
    page.goto("about:blank")
    for session in ask(lab, "api/sessions", "GET"):  # type: ignore[attr-defined]
        if session["path"] == NOTEBOOK:
            ask(lab, f"api/sessions/{session['id']}", "DELETE")
    open_lesson(page, lab)
    other = code_cell(page, 'check("td_loss")')
    expect(card(other)).to_contain_text("Stuck?")
    expect(other.get_by_text("Error displaying widget")).to_have_count(1)
    expect(other.get_by_text("Error displaying widget")).to_be_hidden()
