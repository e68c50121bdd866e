"""Show what learners write as text on nbgrader's pages: formgrader's, where grades are given, and its feedback.

On a page of the formgrader a request can change any grade, its own scripts bind to `id` and `class`, and a click on a
link goes to a server where the grader is logged in. So nothing of a learner's is left there but text in plain tags.
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Any

import nh3
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbgrader.server_extensions.formgrader.base import BaseHandler
from nbgrader.server_extensions.formgrader.handlers import FormgraderHandler
from tornado.web import HTTPError

from autograde.batch.student_names import MARKUP

__all__ = ["FILTERS", "plain_text", "protect_formgrader", "safe_markdown"]

TAGS = {
    "abbr", "b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6",
    "hr", "i", "kbd", "li", "ol", "p", "pre", "s", "span", "strong", "sub", "sup", "table", "tbody", "td", "th",
    "thead", "tr", "ul",
}  # fmt: skip
"""The tags allowed in learners' HTML. No pictures: loading one would tell its server who reads it, and when. No links:
nobody can see which address is one of the grader's own server."""
MAX_MARKDOWN_LENGTH = 5000
"""Characters of a cell that is read as Markdown: the longest one of the lessons has 2643."""
MAX_FORMULAS = 50
"""Openings of formulas in a cell that is read as Markdown: for the end of each, the rest of the text is searched."""
ATTRIBUTES = re.compile(r"\\(href|mmlToken|cssId|class|style|bbox|data)(?![a-zA-Z])")
"""The macros of MathJax that give what they make an address, an `id`, a `class` or a style."""
FROM_LEARNERS = {"submitted", "autograded", "feedback"}
"""The folders of a class that hold what learners made."""
OPENING = re.compile(r"\\begin\{|\\\\[\[(]")

_open_any_class = FormgraderHandler.get


class PlainRenderer(IPythonRenderer):  # type: ignore[misc]
    """Renders a link or a picture as its text, with the address behind it, and code without colours."""

    def link(self, text: str, url: str, title: str | None = None) -> str:
        address = html.escape(url)
        return text if text == address else f"{text} ({address})"

    image = link

    def block_code(self, code: str, info: str | None = None) -> str:
        return plain_text(code)


def safe_markdown(source: str) -> str:
    """Return Markdown as HTML of plain tags without attributes; what is too long to be read as Markdown stays as it is.

    MathJax makes a link of `\\href` in a formula, and of `\\mmlToken`: the address is shown as text there, too.
    """
    if len(source) > MAX_MARKDOWN_LENGTH or len(OPENING.findall(source)) > MAX_FORMULAS:
        return plain_text(source)
    renderer = PlainRenderer(escape=False, exclude_anchor_links=True)
    cleaned = nh3.clean(MarkdownWithMath(renderer=renderer).render(source), tags=TAGS, attributes={})
    return ATTRIBUTES.sub(r"\\text", cleaned)


def plain_text(source: str) -> str:
    """Return text as HTML that shows it as it was written."""
    return f"<pre>{html.escape(source)}</pre>"


def unchanged(source: str) -> str:
    """Return what nbconvert would search for links that start with `files/`: 20,000 brackets take it two seconds."""
    return source


FILTERS = {"markdown2html": safe_markdown, "strip_files_prefix": unchanged, "clean_html": plain_text}
"""Filters of nbconvert's templates: the first two for cells of Markdown, the last one for raw cells."""


def protect_formgrader() -> None:
    """Have the formgrader use `FILTERS`, escape what stands in the addresses of its other pages, and run no
    configuration of a folder that is not the grader's own.

    Its exporter is made before it reads the configuration of a class whose folder is not where Jupyter was started.
    """
    BaseHandler.exporter = property(_exporter)
    BaseHandler.render = _render
    FormgraderHandler.get = _open_class


def _open_class(handler: FormgraderHandler) -> None:
    """Open the class of a folder, whose `nbgrader_config.py` runs; any link to the formgrader may name the folder.

    Raises:
        HTTPError: when it belongs to somebody else, or to the submissions and results of a class.
    """
    folder = Path(handler.get_argument("path", "") or ".").resolve()
    if folder.stat().st_uid != os.getuid() or FROM_LEARNERS.intersection(folder.parts):
        raise HTTPError(403, f"{folder} is no class folder of yours.")
    _open_any_class(handler)


def _exporter(handler: BaseHandler) -> Any:
    handler.settings["nbgrader_exporter"].filters = FILTERS
    return handler.settings["nbgrader_exporter"]


def _render(handler: BaseHandler, name: str, **values: Any) -> str:
    """Render a template, where a student's or an assignment's name is what the address says."""
    entities = {ord(character): f"&#{ord(character)};" for character in MARKUP}
    escaped = {key: value.translate(entities) if isinstance(value, str) else value for key, value in values.items()}
    page: str = handler.settings["nbgrader_jinja2_env"].get_template(name).render(**escaped)
    return page
