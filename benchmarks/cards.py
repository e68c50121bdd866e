"""Time cards in JupyterLab: `python -m benchmarks.cards [LESSON…]`, by default lessons 01 to 07.

From the press of Shift+Enter on a check to the frame in which its card is painted, in notebooks of invented students
whose cells have run. Prints the median and the 95th percentile for each outcome.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, expect, sync_playwright

from autograde.classroom.synthetic_class import invented_members, write_submissions
from tests.browser.conftest import CALM, TOKEN, Lab, free_port, served
from tests.browser.notebooks import IDLE, card, code_cell, open_notebook, run_all, shut_kernel_down
from tests.support import programs
from torchcourse.model.catalogue import LESSONS, exercises

STUDENTS = 2
GIVE_UP = 120_000
"""Milliseconds to wait for a page."""
NEXT_CARD = """cell => {
  window.card = new Promise(resolve => {
    let pressed = 0;
    addEventListener("keydown", () => { pressed = performance.now(); }, {capture: true, once: true});
    const isCard = node => node instanceof Element && (node.matches(".tc-card") || node.querySelector(".tc-card"));
    const observer = new MutationObserver(changes => {
      if (pressed && changes.some(change => [...change.addedNodes].some(isCard))) {
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - pressed)));
      }
    });
    observer.observe(cell, {childList: true, subtree: true});
  });
}"""
"""Makes `window.card` the milliseconds from the next key to the painted card of a cell."""


def timed_cards(page: Page, lab: Lab, lesson: str) -> Iterator[tuple[str, float]]:
    """Run all cells of a notebook, then yield the outcome on the card of each of its checks, and its seconds."""
    open_notebook(page, lab, f"{lesson}.ipynb")
    run_all(page)
    checks = [code_cell(page, f'check("{name}")') for name in exercises(lesson)]
    expect(card(checks[-1])).to_be_attached()
    expect(page.locator(IDLE)).to_be_attached()
    for cell in checks:
        cell.scroll_into_view_if_needed()
        cell.locator(".cm-content").click()
        page.evaluate(NEXT_CARD, cell.element_handle())
        page.keyboard.press("Shift+Enter")
        seconds = page.evaluate("window.card") / 1000
        yield card(cell).locator(".tc-title").inner_text().partition("·")[0].strip(), seconds


def running_on(path: Path) -> Any:
    """Return a notebook whose cells run on after one that raises."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        cell["metadata"].setdefault("tags", []).append("raises-exception")
    return notebook


def measure(browser: Any, lesson: str, root: Path) -> Iterator[tuple[str, float]]:
    """Yield outcome and seconds of each card of a lesson, in the notebooks of some invented students."""
    lab = Lab(free_port(), root / "work", root / ".local" / "share" / "jupyter")
    torchcourse = Path(sys.executable).with_name("torchcourse")
    subprocess.run([torchcourse, "start", lab.folder], check=True, stdout=subprocess.DEVNULL)
    command: list[str | Path] = [torchcourse, "lab", lab.folder, "--no-browser", "--port", str(lab.port)]
    env = {**os.environ, "HOME": str(root), "JUPYTER_TOKEN": TOKEN}
    with served(command, env, root / "log", lab.port, lab.folder):
        for notebook in write_submissions(root / "students", [lesson], invented_members(STUDENTS), {}):
            (lab.folder / notebook.name).write_text(json.dumps(running_on(notebook)))
            page = browser.new_page(viewport={"width": 1366, "height": 768})
            page.set_default_timeout(GIVE_UP)
            yield from timed_cards(page, lab, lesson)
            shut_kernel_down(page, lab, notebook.name)
            page.close()


def summary(seconds: list[float]) -> str:
    """Return the median and the 95th percentile in words."""
    median, last = np.percentile(seconds, [50, 95])
    return f"median {median:.2f} s, 95 % within {last:.2f} s, {len(seconds)} cards"


def main() -> None:
    """Print a line for each outcome, and one for all cards."""
    expect.set_options(timeout=GIVE_UP)
    found: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=programs.chromium_path(), args=CALM)
        for lesson in sys.argv[1:] or [*LESSONS][:7]:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
                for outcome, seconds in measure(browser, lesson, Path(root)):
                    found.setdefault(outcome, []).append(seconds)
        browser.close()
    for outcome, times in {**found, "all": [*chain(*found.values())]}.items():
        print(f"{outcome:16} {summary(times)}")
    print(f"load of this machine: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
