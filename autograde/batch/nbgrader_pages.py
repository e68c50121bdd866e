"""Show what learners write as text on nbgrader's pages: formgrader's, where grades are given, and its feedback.

On a page of the formgrader a request can change any grade, its own scripts bind to `id` and `class`, and a click on a
link goes to a server where the grader is logged in. So nothing of a learner's is left there but text in plain tags.
"""

from __future__ import annotations

import html
from typing import Any

import nh3
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbgrader.server_extensions.formgrader.base import BaseHandler

from autograde.batch.student_names import MARKUP

__all__ = ["FILTERS", "plain_text", "protect_formgrader", "safe_markdown"]

TAGS = {
    "abbr", "b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6",
    "hr", "i", "kbd", "li", "ol", "p", "pre", "s", "span", "strong", "sub", "sup", "table", "tbody", "td", "th",
    "thead", "tr", "ul",
}  # fmt: skip
"""The tags allowed in learners' HTML. No pictures: loading one would tell its server who reads it, and when. No links:
nobody can see which address is one of the grader's own server."""


class WrittenLinks(IPythonRenderer):  # type: ignore[misc]
    """Renders a link or a picture as its text, with the address behind it."""

    def link(self, text: str, url: str, title: str | None = None) -> str:
        address = html.escape(url)
        return text if text == address else f"{text} ({address})"

    image = link


def safe_markdown(source: str) -> str:
    """Return Markdown as HTML of plain tags without attributes.

    MathJax makes a link of `\\href` in a formula: the address is shown as text there, too.
    """
    renderer = WrittenLinks(escape=False, exclude_anchor_links=True)
    cleaned = nh3.clean(MarkdownWithMath(renderer=renderer).render(source), tags=TAGS, attributes={})
    return cleaned.replace("\\href", "\\text")


def plain_text(source: str) -> str:
    """Return a raw cell as HTML that shows it as it was written."""
    return f"<pre>{html.escape(source)}</pre>"


FILTERS = {"markdown2html": safe_markdown, "clean_html": plain_text}
"""Filters of nbconvert's templates: for cells of Markdown, and for raw cells."""


def protect_formgrader() -> None:
    """Have the formgrader use `FILTERS`, and escape what stands in the addresses of its other pages.

    Its exporter is made before it reads the configuration of a class whose folder is not where Jupyter was started.
    """
    BaseHandler.exporter = property(_exporter)
    BaseHandler.render = _render


def _exporter(handler: BaseHandler) -> Any:
    handler.settings["nbgrader_exporter"].filters = FILTERS
    return handler.settings["nbgrader_exporter"]


def _render(handler: BaseHandler, name: str, **values: Any) -> str:
    """Render a template, where a student's or an assignment's name is what the address says."""
    entities = {ord(character): f"&#{ord(character)};" for character in MARKUP}
    escaped = {key: value.translate(entities) if isinstance(value, str) else value for key, value in values.items()}
    page: str = handler.settings["nbgrader_jinja2_env"].get_template(name).render(**escaped)
    return page
