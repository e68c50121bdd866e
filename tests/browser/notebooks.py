"""What a learner does with a notebook in JupyterLab."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import SCREENSHOTS, TOKEN, Lab

__all__ = [
    "IDLE",
    "TALLEST_CARD",
    "card",
    "choose_theme",
    "code_cell",
    "open_notebook",
    "run",
    "run_all",
    "shoot",
    "shoot_page",
    "shut_kernel_down",
    "use_settings",
    "wait_until_saved",
    "write",
]

IDLE = ".jp-Notebook-ExecutionIndicator[data-status=idle]"
UNSAVED = ".lm-TabBar-tab.jp-mod-dirty"
TALLEST_CARD = 160
"""Pixels, of a folded card whose answer failed: its title, a sentence, the first failed case, and what unfolds."""


def open_notebook(page: Page, lab: Lab, name: str) -> None:
    page.goto(lab.address(name))
    expect(page.locator(".jp-Notebook .jp-Cell").first).to_be_visible()
    expect(page.locator(IDLE)).to_be_attached()


def choose_theme(page: Page, lab: Lab, theme: str) -> None:
    """Choose "Light" or "Dark" for pages that are opened from now on."""
    use_settings(page, lab, "@jupyterlab/apputils-extension:themes", {"theme": f"JupyterLab {theme}"})


def use_settings(page: Page, lab: Lab, plugin: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Give a plugin of JupyterLab these settings, and return those that it had."""
    address = f"http://127.0.0.1:{lab.port}/lab/api/settings/{plugin}?token={TOKEN}"
    before: dict[str, Any] = page.request.get(address).json()["settings"]
    assert page.request.put(address, data={"raw": json.dumps(settings)}).ok
    return before


def code_cell(page: Page, text: str) -> Locator:
    """Return the code cell whose source has this text."""
    return page.locator(".jp-CodeCell", has=page.locator(".jp-InputArea-editor", has_text=text)).first


def card(cell: Locator) -> Locator:
    return cell.locator(".tc-card").last


def run(page: Page, cell: Locator) -> None:
    """Run a cell. JupyterLab may still be settling when the first key comes, and lose it.

    On a busy machine it may connect to a session twice, end one of them and say so in a dialog.
    """
    prompt = cell.locator(".jp-InputPrompt")
    for _ in range(4):
        cell.scroll_into_view_if_needed()
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        with contextlib.suppress(AssertionError):
            expect(prompt).not_to_have_text("[ ]:", timeout=6000)
            break
        if page.locator(".jp-Dialog", has_text="Kernel Terminating").count():
            page.keyboard.press("Enter")
    expect(prompt).to_have_text(re.compile(r"\[\d+\]:"))


def run_all(page: Page) -> None:
    """Choose "Run All Cells" in the menu, and do not wait for them."""
    page.locator(".jp-Cell").first.click()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def write(page: Page, cell: Locator, source: str) -> None:
    cell.scroll_into_view_if_needed()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)


def wait_until_saved(page: Page, lab: Lab, name: str, text: str) -> None:
    """Wait until the file of a notebook has this text: JupyterLab saves every few seconds.

    On a busy machine every few minutes: it waits ten times as long as the last save took. Pressing Ctrl-S meanwhile
    would make JupyterLab ask whether to overwrite what itself is writing. So would opening the notebook anew before
    JupyterLab knows that it has saved: the file has its text, but not yet the time that a save compares.

    What changes while a save is under way is not in that save, and yet JupyterLab 4.6 marks the notebook as saved when
    it ends (`Context._save` clears `dirty`). Nothing is being written then, and Ctrl-S saves the rest.
    """
    for _ in range(1200):
        expect(page.locator(".jp-Notebook").first).to_be_visible()
        marked_saved = page.locator(UNSAVED).count() == 0
        if json.dumps(text)[1:-1] in (lab.folder / name).read_text(encoding="utf-8"):
            expect(page.locator(UNSAVED)).to_have_count(0, timeout=60_000)
            return
        if marked_saved:
            with page.expect_response(lambda response: response.request.method == "PUT", timeout=60_000):
                page.keyboard.press("Control+s")
        page.wait_for_timeout(500)
    shoot(page, "not-saved")
    asked = page.locator(".jp-Dialog").all_inner_texts()
    pytest.fail(f"{name} was not saved with {text!r}; JupyterLab asks {asked}")


def shut_kernel_down(page: Page, lab: Lab, name: str) -> None:
    """End the kernel of a notebook, as on another day."""
    sessions, token = f"http://127.0.0.1:{lab.port}/api/sessions", {"Authorization": f"token {TOKEN}"}
    for session in page.request.get(sessions, headers=token).json():
        if session["path"] == name:
            assert page.request.delete(f"{sessions}/{session['id']}", headers=token).ok


def shoot(part: Locator | Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    try:
        part.screenshot(path=SCREENSHOTS / f"{name}.png")
    except PlaywrightError:  # the card was drawn anew while its picture was taken
        part.screenshot(path=SCREENSHOTS / f"{name}.png")


def shoot_page(page: Page, cell: Locator, name: str) -> None:
    """Keep a picture of the whole page, with this cell in view."""
    cell.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    shoot(page, name)
