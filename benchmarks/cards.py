"""Time cards in JupyterLab: `python -m benchmarks.cards [LESSON…]`, by default lessons 01, 02 and 03.

From the press of Shift+Enter on a check to the frame in which its card is painted, on a notebook whose cells have run:
once with right answers, once with a known mistake of each exercise. Prints the median and the 95th percentile of both.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import CALM, TOKEN, Lab, free_port, served
from tests.browser.notebooks import IDLE, open_notebook, shut_kernel_down
from tests.support import programs
from torchcourse.model.catalogue import exercises

LESSONS = ("01_tensors", "02_autograd", "03_modules")
KINDS = {"right-00": "right", "mistake-00": "wrong"}
"""Names of the notebooks that `_answers_as_notebooks.py` writes, and what their answers are."""
GIVE_UP = 300_000
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


def timed_cards(page: Page, lab: Lab, lesson: str) -> Iterator[float]:
    """Run all cells of a notebook, then yield the seconds that the card of each of its checks takes."""
    open_notebook(page, lab, f"{lesson}.ipynb")
    page.locator(".jp-Notebook").first.click()
    page.get_by_text("Run", exact=True).first.click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    checks = [f'check("{name}")' for name in exercises(lesson)]
    cells = page.locator(".jp-CodeCell")
    last = cells.filter(has_text=checks[-1]).last
    expect(last.locator(".tc-card")).to_be_visible(timeout=GIVE_UP)
    expect(page.locator(IDLE)).to_be_attached(timeout=GIVE_UP)
    for check in checks:
        cell = cells.filter(has=page.locator(".jp-InputArea-editor", has_text=check)).first
        cell.scroll_into_view_if_needed()
        cell.locator(".cm-content").click()
        page.evaluate(NEXT_CARD, cell.element_handle())
        page.keyboard.press("Shift+Enter")
        yield page.evaluate("window.card") / 1000


def measure(browser: Any, lesson: str, root: Path) -> dict[str, list[float]]:
    """Return the seconds of all cards of a lesson, for right and for wrong answers."""
    lab = Lab(free_port(), root / "work")
    answers = root / "answers"
    script = Path(__file__).with_name("_answers_as_notebooks.py")
    subprocess.run([sys.executable, "-P", script, answers, lesson], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "PYTHONPATH": "."})  # fmt: skip
    torchcourse = Path(sys.executable).with_name("torchcourse")
    subprocess.run([torchcourse, "start", lab.folder], check=True, stdout=subprocess.DEVNULL)
    command = [torchcourse, "lab", lab.folder, "--no-browser", "--port", str(lab.port)]
    env = {**os.environ, "HOME": str(root), "JUPYTER_TOKEN": TOKEN}
    found = {}
    with served(command, env, root / "log", lab.port, lab.folder):
        for student, kind in KINDS.items():
            shutil.copyfile(answers / student / lesson / f"{lesson}.ipynb", lab.folder / f"{lesson}.ipynb")
            page = browser.new_page(viewport={"width": 1366, "height": 768})
            page.set_default_timeout(GIVE_UP)
            found[kind] = list(timed_cards(page, lab, lesson))
            shut_kernel_down(page, lab, f"{lesson}.ipynb")
            page.close()
    return found


def summary(seconds: list[float]) -> str:
    """Return the median and the 95th percentile in words."""
    last = statistics.quantiles(seconds, n=20)[-1]
    return f"median {statistics.median(seconds):.2f} s, 95 % within {last:.2f} s, {len(seconds)} cards"


def main() -> None:
    """Print a line for each lesson and kind of answer, and one for all cards."""
    every: list[float] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=programs.chromium_path(), args=CALM)
        for lesson in sys.argv[1:] or LESSONS:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
                for kind, seconds in measure(browser, lesson, Path(root)).items():
                    print(f"{lesson:20} {kind:6} {summary(seconds)}", flush=True)
                    every += seconds
        browser.close()
    print(f"{'all':27} {summary(every)}")
    print(f"load of this machine: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
