"""What learners write, on the pages of formgrader, where grades are given, and of nbgrader's feedback."""

from __future__ import annotations

import html
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from jinja2 import Environment, FileSystemLoader
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import handlers
from nbgrader.server_extensions.formgrader.base import BaseHandler
from nbgrader.server_extensions.formgrader.handlers import FormgraderHandler
from tornado.web import HTTPError
from traitlets.config import Config, PyFileConfigLoader

from autograde.batch.nbgrader_pages import FILTERS, safe_markdown
from autograde.source import paths
from tests.support.pages import Page

LESSON = "01_tensors"
HOSTILE = """# Mine

<script>steal()</script><img src=x onerror=steal()> <a href="javascript:steal()">x</a> <svg onload=steal()>
[y](javascript:steal()) **bold** `code` <iframe src="http://127.0.0.1:9"></iframe>
<form action="/formgrader/api"></form>

<div class="nbgrader_cell" style="position: fixed"><span id="check_describe" data-link="x"></span>
<a class="full-credit modal-backdrop fade" href="/formgrader/api">z</a></div>
"""
MACROS = ("href", "mmlToken", "cssId", "class", "style", "bbox", "data")
"""The macros of MathJax that make a link, or what a page's scripts could take for a part of it."""
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


@pytest.mark.parametrize("template", ["formgrade", "feedback"])
def test_what_a_learner_wrote_acts_on_no_page_of_nbgrader(template: str) -> None:
    """On the formgrader's pages grades are given; on those of its feedback others are logged in."""
    page = shown(template, HOSTILE, configured())
    assert "<strong>bold</strong>" in page
    assert "<script>steal()" in shown(template, HOSTILE, Config())
    assert "<script>steal()" not in page
    assert Page(page).attributes == Page(shown(template, "A **plain** `text`", configured())).attributes


def test_the_formgrader_shows_text_where_it_was_started_outside_the_class_folder() -> None:
    configured()
    exporter = HTMLExporter()
    page = BaseHandler.exporter.fget(SimpleNamespace(settings={"nbgrader_exporter": exporter}))
    cell: Any = nbformat.v4.new_raw_cell(HOSTILE)
    assert "<script>steal()" not in page.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))[0]


@pytest.mark.parametrize("folder", ["submitted/ada/01_tensors", "/"])
def test_the_formgrader_opens_no_class_in_what_a_learner_made_or_in_somebody_elses_folder(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured()
    (tmp_path / "submitted" / "ada" / LESSON).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid if folder != "/" else -1)
    handler: Any = SimpleNamespace(get_argument=lambda name, _: folder)
    with pytest.raises(HTTPError, match="no class folder of yours"):
        FormgraderHandler.get(handler)


def test_a_pasted_picture_is_shown_as_its_name() -> None:
    assert safe_markdown("![a](attachment:x.png)") == "<p>a (attachment:x.png)</p>\n"


@pytest.mark.parametrize(
    "text", [r"\begin{a}", r"\\[", r"\\(", "[", "![a](", "[a](", "$$\n", "*a _b ", "<", "```matlab\n'%{(\n```\n"]
)
def test_no_text_of_a_learner_takes_long_to_show(text: str) -> None:
    """A notebook may hold 2,000 cells. 0.3 s is several times what the slowest of these texts takes."""
    before = time.process_time()
    for length in (5_000, 100_000):
        assert FILTERS["strip_files_prefix"](safe_markdown((text * length)[:length]))
    assert time.process_time() - before < 0.3


def test_a_long_text_is_shown_as_it_was_written() -> None:
    line = "*a* & b\n"
    assert safe_markdown(line) == "<p><em>a</em> &amp; b</p>\n"
    assert safe_markdown(line * 1000) == f"<pre>{html.escape(line * 1000)}</pre>"


@pytest.mark.parametrize(
    "link",
    [
        "[notes](http://localhost:8888/formgrader/manage_students/%3Cimg%20src=x%20onerror=steal()%3E)",
        "<http://127.0.0.1:8888/formgrader?path=submitted/ann/01_tensors>", "[a](//hub.example.org/user/grader/logout)",
        "<a href='HTTP://ann:secret@localhost/'>b</a>", "[c]: /formgrader/api\n\n[c]", "[d](https://pytorch.org)",
        "https://hub.example.org/user/grader/formgrader", "![e](http://example.org/x.png)", "[f](mailto:a@b.org)",
        r"$\href{http://localhost:8888}{g}$", r"\\(\h&#114;ef{/formgrader}{h}\\)", r"$$\h<!-- -->ref{/}{i}$$",
        r"$\mmlToken{mi}[href='http://localhost:8888']{j}$", r"$\cssId{check_describe}{k}$",
        r"$\class{full-credit}{l}$", r"$\bbox[background: url(http://example.org/x.png)]{m}$",
        "# Heading",
    ],
)  # fmt: skip
def test_nothing_that_a_learner_wrote_is_a_link(link: str) -> None:
    """A link to the grader's own server would do there what its address says."""
    shown = safe_markdown(link)
    assert not re.search("<[^>]*href", shown)
    assert not set(MACROS).intersection(re.findall(r"\\(\w+)", shown))
    assert "<a" not in shown
    assert "¶" not in shown


def test_an_address_is_shown_as_text() -> None:
    assert safe_markdown("See [the *docs*](https://pytorch.org/?a=1&b).") == (
        "<p>See the <em>docs</em> (https://pytorch.org/?a=1&amp;b).</p>\n"
    )
    assert safe_markdown("See https://pytorch.org/?a=1&b") == "<p>See https://pytorch.org/?a=1&amp;b</p>\n"
    assert safe_markdown(r"$\href{https://pytorch.org}{a_1}$") == "<p>$\\text{https://pytorch.org}{a_1}$</p>\n"


def test_the_formgrader_escapes_what_stands_in_the_address_of_a_page() -> None:
    configured()
    pages = SimpleNamespace(
        settings={"nbgrader_jinja2_env": Environment(loader=FileSystemLoader([handlers.template_path]))}
    )
    for name in ("manage_students_assignments.tpl", "manage_students_notebook_submissions.tpl"):
        page = BaseHandler.render(
            pages, name, student_id='<img src=x onerror=steal()>";steal()', assignment_id="o'neil"
        )
        assert "<img src=x" not in page
        assert '";steal()' not in page
        assert "o'neil" in BaseHandler.render(pages, name, student_id="o'neil", assignment_id="")
