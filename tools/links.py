"""Links in the documentation and the lessons: `python -m tools.links` names broken ones and lists those to other sites.

Files and headings that a link points to have to be there. Addresses of other sites are never fetched, here or in tests;
whoever wants to try them has the list.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["Link", "broken", "links", "pages"]

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Link:
    """A link in `page`, and the folder that relative targets are counted from."""

    page: Path
    target: str
    base: Path

    @property
    def external(self) -> bool:
        return bool(urlsplit(self.target).scheme or urlsplit(self.target).netloc)


def pages(root: Path = ROOT) -> list[Path]:
    """The files with prose: README and its like, docs/, and the lessons' scripts."""
    return [path for pattern in ("*.md", "docs/**/*.md", "solutions/*.py") for path in sorted(root.glob(pattern))]


def links(page: Path) -> Iterator[Link]:
    """The links and pictures of a page. Those of a lesson are counted from where its notebook lies."""
    base = page.parent.parent / "notebooks" if page.suffix == ".py" else page.parent
    for token in _tokens(_prose(page)):
        target = token.attrGet("href") if token.type == "link_open" else token.attrGet("src")
        if target and token.type in ("link_open", "image"):
            yield Link(page, str(target), base)


def broken(link: Link) -> str:
    """What is wrong with a link, or ""; those to other sites are believed."""
    if link.external:
        return ""
    parts = urlsplit(link.target)
    path = link.base / unquote(parts.path) if parts.path else link.page
    if not path.exists():
        return f"there is no {unquote(parts.path)}"
    if parts.fragment and unquote(parts.fragment) not in anchors(path):
        return f"{path.name} has no heading #{unquote(parts.fragment)}"
    return ""


def anchors(page: Path) -> set[str]:
    """What a page's headings are called in links: as GitHub does in Markdown, and as JupyterLab does in notebooks."""
    tokens = MarkdownIt("commonmark").parse(_prose(page))
    found = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    if page.suffix in (".py", ".ipynb"):
        return {heading.replace(" ", "-") for heading in found}
    names, seen = set(), Counter[str]()
    for heading in found:
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return names


def _prose(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".py":
        return text
    cells = re.split(r"^# %%", text, flags=re.MULTILINE)
    prose = [cell.partition("\n")[2] for cell in cells if cell.startswith(" [markdown]")]
    return "\n\n".join(re.sub(r"^# ?", "", cell, flags=re.MULTILINE) for cell in prose)


def _tokens(text: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield from token.children or ()


def main() -> int:
    """Print what is broken, and where links lead outside."""
    found = [link for page in pages() for link in links(page)]
    faults = [(link, fault) for link in found if (fault := broken(link))]
    for link, fault in faults:
        print(f"{link.page.relative_to(ROOT)}: [{link.target}]: {fault}")
    for target in sorted({link.target for link in found if link.external}):
        print(f"not fetched: {target}")
    print(f"{len(found)} links, {len(faults)} of them broken.")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
