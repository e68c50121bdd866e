"""Show what learners write as text on nbgrader's pages: formgrader's, where grades are given, and its feedback.

On a page of the formgrader a request can change any grade, its own scripts bind to `id` and `class`, and a click on a
link goes to a server where the grader is logged in. So nothing of a learner's is left there but text in plain tags.
"""

from __future__ import annotations

import html
from typing import Any

import nh3
from nbconvert.filters.markdown import markdown2html
from nbgrader.server_extensions.formgrader.base import BaseHandler

__all__ = ["FILTERS", "plain_text", "protect_formgrader", "safe_markdown"]

TAGS = {
    "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5",
    "h6", "hr", "i", "kbd", "li", "ol", "p", "pre", "s", "span", "strong", "sub", "sup", "table", "tbody", "td", "th",
    "thead", "tr", "ul",
}  # fmt: skip
"""The tags allowed in learners' HTML. No pictures: loading one would tell its server who reads it, and when."""


def safe_markdown(source: str) -> str:
    """Return Markdown as HTML without scripts.

    No attribute is left but the address of a link, on another server: the page's own scripts bind to `id` and `class`.
    """
    return nh3.clean(
        markdown2html(source),
        tags=TAGS,
        attributes={"a": {"href"}},
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
    )


def plain_text(source: str) -> str:
    """Return a raw cell as HTML that shows it as it was written."""
    return f"<pre>{html.escape(source)}</pre>"


FILTERS = {"markdown2html": safe_markdown, "clean_html": plain_text}
"""Filters of nbconvert's templates: for cells of Markdown, and for raw cells."""


def protect_formgrader() -> None:
    """Have the formgrader use `FILTERS` also where Jupyter was started outside the class folder: its exporter is made
    before it reads the class's configuration."""

    def exporter(handler: Any) -> Any:
        handler.settings["nbgrader_exporter"].filters = FILTERS
        return handler.settings["nbgrader_exporter"]

    BaseHandler.exporter = property(exporter)
