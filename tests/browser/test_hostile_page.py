"""A submission that attacks whoever grades it by hand, on its page in the formgrader: nothing comes of any click."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from autograde.classroom.export import scores_of
from autograde.source.release import load_release
from tests.browser.conftest import class_server
from tests.support.classes import adas_class
from torchcourse.model.notebook_file import find_cell

pytestmark = [pytest.mark.browser, pytest.mark.sandbox]

LESSON = "01_tensors"
EXERCISES = load_release(LESSON).exercises
CHECKS = "".join(f'<span id="check_{name}"></span>' for name in EXERCISES)
HOSTILE = f"""<div class="nbgrader_cell">

{CHECKS}<a class="full-credit modal-backdrop fade" style="position: fixed; top: 0" href="/formgrader/api/x">steal</a>
<button class="full-credit" data-link="x" onclick="fetch('/steal')">steal</button></div>

<script>fetch("/steal")</script><img src="/steal" onerror="fetch('/steal')"><iframe src="/steal"></iframe>

[steal](/formgrader/api/x) [steal](steal.html) [steal](http://127.0.0.1:9/formgrader?path=submitted/ada/01_tensors) <http://localhost/steal>
![steal](http://hub.example.org/steal) [steal](javascript:fetch('/steal'))
"""
MATHJAX = "window.MathJax = {Hub: {Config() {}, Queue() {}, Startup: {signal: {Interest() {}}}}}"
CLICK = """() => document.querySelectorAll("#notebook-container *").forEach(
    tag => tag.closest(".panel-heading, .panel-footer") || tag.dispatchEvent(new MouseEvent("click", {bubbles: true})))
"""
OWN = re.compile(r"/formgrader/(static/|submissions/\w+/?$|api/(grades|comments)\?)")
"""What the page of a submission asks its server for."""


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """Return a class folder with the graded submission."""
    return adas_class(tmp_path, LESSON, hostile)


def hostile(notebook: dict[str, Any]) -> None:
    answer = find_cell(notebook, "row_softmax")
    assert answer is not None
    answer["source"] = f"def row_softmax(x):\n    raise ValueError({HOSTILE!r})"
    code = {"execution_count": None, "outputs": [{"output_type": "display_data", "metadata": {}, "data": {
        "text/html": HOSTILE}}]}  # fmt: skip
    for kind, more in (("markdown", {}), ("raw", {"metadata": {"raw_mimetype": "text/html"}}), ("code", code)):
        cell = {"cell_type": kind, "metadata": {}, "source": f'"""{HOSTILE}"""' if kind == "code" else HOSTILE, **more}
        notebook["cells"].insert(0, cell)


@pytest.fixture
def lab(room: Path, tmp_path: Path) -> Iterator[str]:
    with class_server(room, tmp_path / "home") as address:
        yield address


def test_no_click_on_a_hostile_submission_sends_a_request_or_changes_a_score(page: Page, lab: str, room: Path) -> None:
    scores = scores_of(room / "gradebook.db")
    page.route(re.compile("/mathjax/"), lambda route: route.fulfill(body=MATHJAX, content_type="text/javascript"))
    page.goto(lab.format("lab"))  # which lets the browser in
    page.goto(lab.format(f"formgrader/manage_students/ada/{LESSON}"))
    link = page.locator("td a", has_text=LESSON)
    expect(link).to_be_visible()
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request))
    with page.expect_response(re.compile("/api/comments")), page.expect_response(re.compile("/api/grades")):
        link.click()
    page.wait_for_load_state("networkidle")
    expect(page.locator("body")).to_contain_text("steal")
    where = page.url
    for x, y in ((700, 500), (300, 800), (1200, 300), (50, 900)):
        page.mouse.click(x, y)
    page.evaluate(CLICK)
    page.wait_for_timeout(1000)
    foreign = [f"{request.method} {request.url}" for request in sent if request.method != "GET" or not own(request)]
    assert not foreign
    expect(page.locator("input#check_row_softmax")).to_have_attribute("placeholder", "0")
    assert page.url == where
    assert page.context.pages == [page]
    assert scores_of(room / "gradebook.db") == scores


def own(request: Request) -> bool:
    return "/mathjax/" in request.url or bool(OWN.match(re.sub(r"^http://127\.0\.0\.1:\d+", "", request.url)))
