"""Render as HTML the sections of a lesson that learners should read again."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache

from markdown_it import MarkdownIt

from autograde.source.release import Release, cell_text

__all__ = ["section", "title"]

HEADING = re.compile(r"(#{1,6}) +(.+)")
STATEMENT = "Exercise: "


@cache
def title(release: Release) -> str:
    """Return the lesson's first heading, or its name where it has none."""
    return next((heading for _, heading, _ in _pieces(release) if heading), release.lesson)


@cache
def section(release: Release, heading: str) -> str:
    """Return the prose and the example code below a heading of the released notebook, without exercises.

    HTML in prose is escaped, so that nothing in it can run. "" if the lesson does not have the heading.
    """
    inside, parts = 0, []
    for level, found, content in _pieces(release):
        if inside and level and level <= inside:
            break
        if not inside and found == heading:
            inside = level
        if inside and not found.startswith(STATEMENT):
            parts.append(content)
    return "\n".join(filter(None, parts))


def _pieces(release: Release) -> Iterator[tuple[int, str, str]]:
    """Yield for each heading or cell its level (0 for none), the heading, and the content that follows, as HTML."""
    for cell in release.notebook["cells"]:
        source = cell_text(cell["source"])
        if cell["cell_type"] == "markdown":
            yield from _prose(source)
        elif "nbgrader" not in cell["metadata"]:
            yield 0, "", f"<pre>{html.escape(source)}</pre>"


def _prose(source: str) -> Iterator[tuple[int, str, str]]:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    level, heading, lines, fenced = 0, "", list[str](), False
    for line in source.splitlines():
        fenced ^= line.lstrip().startswith("```")
        found = None if fenced else HEADING.fullmatch(line.rstrip())
        if found:
            if heading or lines:
                yield level, heading, markdown.render("\n".join(lines))
            level, heading, lines = len(found[1]), found[2].strip(), []
        else:
            lines.append(line)
    yield level, heading, markdown.render("\n".join(lines))
