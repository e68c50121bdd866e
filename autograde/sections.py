"""The sections of a lesson that learners are sent back to, as HTML to read beside a verdict."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from markdown_it import MarkdownIt

from autograde.submission import release

__all__ = ["section", "title"]

HEADING = re.compile(r"(#{1,6}) +(.+)")
STATEMENT = "Exercise: "


@cache
def title(lesson: str) -> str:
    """The lesson's first heading, or its name where it has none."""
    return next((heading for _, heading, _ in _pieces(lesson) if heading), lesson)


@cache
def section(lesson: str, heading: str) -> str:
    """The prose and the demonstrations under a heading of the released notebook, without exercises; "" where the
    lesson has no such heading.

    Raw HTML in prose is shown as text, so that nothing in it can act.
    """
    inside, parts = 0, []
    for level, said, content in _pieces(lesson):
        if inside and level and level <= inside:
            break
        if not inside and said == heading:
            inside = level
        if inside and not said.startswith(STATEMENT):
            parts.append(content)
    return "\n".join(filter(None, parts))


def _pieces(lesson: str) -> Iterator[tuple[int, str, str]]:
    """For each heading or cell its level (0 for none), the heading, and the content that follows, as HTML."""
    for cell in release(lesson).notebook["cells"]:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            yield from _prose(source)
        elif "nbgrader" not in cell["metadata"]:
            yield 0, "", f"<pre>{html.escape(source)}</pre>"


def _prose(source: str) -> Iterator[tuple[int, str, str]]:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    level, said, lines, fenced = 0, "", list[str](), False
    for line in source.splitlines():
        fenced ^= line.lstrip().startswith("```")
        found = None if fenced else HEADING.fullmatch(line.rstrip())
        if found:
            if said or lines:
                yield level, said, markdown.render("\n".join(lines))
            level, said, lines = len(found[1]), found[2].strip(), []
        else:
            lines.append(line)
    yield level, said, markdown.render("\n".join(lines))


def _text(source: Any) -> str:
    return "".join(source) if isinstance(source, list) else str(source)
