"""Self-contained HTML pages: one file each, that loads nothing and runs nothing."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["page", "printable"]


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("autograde", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


def page(template: str, **fields: object) -> str:
    """The page that a template makes of `fields`; what is not `Markup` in them is escaped."""
    return _environment().get_template(template).render(**fields)


def printable(text: str) -> str:
    """A text of several lines with a replacement character for all that would act on a page or a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text.replace("\r\n", "\n"))
