"""What learners write, on the pages of formgrader, where grades are given, and of nbgrader's feedback."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import handlers
from nbgrader.server_extensions.formgrader.base import BaseHandler
from traitlets.config import Config, PyFileConfigLoader

from autograde.source import paths

LESSON = "01_tensors"
HOSTILE = """# Mine

<script>steal()</script><img src=x onerror=steal()> <a href="javascript:steal()">x</a> <svg onload=steal()>
[y](javascript:steal()) **bold** `code` <iframe src="http://127.0.0.1:9"></iframe>
<form action="/formgrader/api"></form>

<div class="nbgrader_cell" style="position: fixed"><span id="check_describe" data-link="x"></span>
<a class="full-credit modal-backdrop fade" href="/formgrader/api">z</a></div>
"""
SCORE = {"score": 0, "max_score": 0, "late_penalty": 0, "notebook": LESSON}


def configured() -> Config:
    """The configuration that nbgrader loads."""
    return PyFileConfigLoader("nbgrader_config.py", path=str(paths.AUTOGRADE)).load_config()


def shown(template: str, text: str, config: Config) -> str:
    """A page of nbgrader's that shows Markdown and a raw cell with this text, and hostile code."""
    config.HTMLExporter.template_name = template
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    styles = Path(handlers.template_path).with_name("static") / "node_modules" / "bootstrap" / "dist" / "css"
    config.HTMLExporter.extra_template_paths = [str(styles)]
    cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_raw_cell(text)]
    cells += [nbformat.v4.new_code_cell(HOSTILE, id="code")]
    resources = {"nbgrader": SCORE, "notebook_id": LESSON, "index": 0, "total": 1, "base_url": ""}
    page: str = HTMLExporter(config=config).from_notebook_node(nbformat.v4.new_notebook(cells=cells), resources)[0]
    return page


class Attributes(HTMLParser):
    """Collects the attributes of all tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, str | None]] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {(name, value) for name, value in attrs if name != "rel"}


@pytest.mark.parametrize("template", ["formgrade", "feedback"])
def test_what_a_learner_wrote_acts_on_no_page_of_nbgrader(template: str) -> None:
    """On the formgrader's pages grades are given; on those of its feedback others are logged in."""
    page = shown(template, HOSTILE, configured())
    assert "<strong>bold</strong>" in page
    assert "<script>steal()" in shown(template, HOSTILE, Config())
    assert "<script>steal()" not in page
    assert Attributes(page).found == Attributes(shown(template, "A **plain** `text`", configured())).found


def test_the_formgrader_shows_text_where_it_was_started_outside_the_class_folder() -> None:
    configured()
    exporter = HTMLExporter()
    page = BaseHandler.exporter.fget(SimpleNamespace(settings={"nbgrader_exporter": exporter}))
    cell: Any = nbformat.v4.new_raw_cell(HOSTILE)
    assert "<script>steal()" not in page.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))[0]
