"""What a page of HTML consists of, and texts that try to be more than text in it."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["HOSTILE", "Page"]

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></details></section><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "'><svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% for x in y %}",
    "<a href='javascript:alert(1)'>x</a>",
    "<!-- --><style>*{display:none}</style>",
    "&lt;script&gt;",
    "\u202e\x1b[31m\x00",
]
EMPTY = {"br", "hr", "img", "input", "link", "meta", "rect"}
"""Elements that have no end tag."""


class Page(HTMLParser):
    """A page as its parser sees it.

    Attributes:
        elements: its elements with their attributes.
        text: its text.
        unbalanced: the elements that were not closed, and end tags without an element, as "/p".
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.unbalanced: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(reversed(attrs))))  # of an attribute given twice the first counts
        if tag not in EMPTY:
            self.unbalanced.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.unbalanced[-1:] == [tag]:
            self.unbalanced.pop()
        elif tag not in EMPTY:
            self.unbalanced.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    @property
    def attributes(self) -> set[tuple[str, str | None]]:
        return {pair for _, attributes in self.elements for pair in attributes.items()}

    @property
    def attribute_names(self) -> set[str]:
        return {name for name, _ in self.attributes}

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements with this tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, name: str) -> list[str | None]:
        """Return the values of an attribute, such as "href", in the order of the elements."""
        return [attributes[name] for _, attributes in self.elements if name in attributes]
