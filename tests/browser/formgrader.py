"""What an instructor does in formgrader."""

from __future__ import annotations

from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.browser.conftest import SCREENSHOTS

__all__ = ["press", "shoot"]

SLOW = 240_000
"""Milliseconds for what grades or converts, on a machine that does other things too."""


def press(page: Page, where: Page | FrameLocator, button: Locator, says: str) -> None:
    """Press a button of formgrader's, and close the window that says how it went."""
    button.click()
    window = where.locator(".modal.in")
    expect(window.locator(".modal-title")).to_have_text("Success", timeout=SLOW)
    expect(window).to_contain_text(says)
    window.locator(".modal-footer button").click()
    expect(where.locator(".modal")).to_have_count(0)


def shoot(page: Page, name: str, height: int = 1000) -> None:
    """Keep a picture of the upper part of the page."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", clip={"x": 0, "y": 0, "width": 1400, "height": height})
