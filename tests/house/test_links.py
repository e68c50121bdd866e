"""The links between the pages of the documentation: every file and heading that they point to is there."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for pattern in ("*.md", "docs/**/*.md") for page in sorted(ROOT.glob(pattern))]


def broken(page: Path) -> list[str]:
    """Return the relative links and pictures of a page that lead nowhere; those to other sites are believed."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
    inside = [token for block in tokens for token in block.children or ()]
    targets = [str(token.attrGet("href") or token.attrGet("src") or "") for token in inside]
    return [target for target in targets if not urlsplit(target).scheme and not leads_somewhere(page, urlsplit(target))]


def leads_somewhere(page: Path, target: SplitResult) -> bool:
    path = page.parent / unquote(target.path) if target.path else page
    return path.exists() and (not target.fragment or target.fragment in anchors(path))


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in links, as GitHub has it."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_is_broken_where_its_file_or_heading_is_missing(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `heading` of two\n\n```\n# no heading\n```\n")
    good = ["other.md", "other.md#a-heading-of-two", "#own", "https://example.org/nowhere"]
    bad = ["missing.md", "other.md#no-heading", "#other"]
    links = [f"![x]({target}) [y]({target})" for target in good + bad]
    (tmp_path / "page.md").write_text("\n".join(["# Own", "", "`[code](code.md)`", *links]))
    assert broken(tmp_path / "page.md") == [target for target in bad for _ in "xy"]
