"""Render self-contained HTML pages: single files that load nothing and run no scripts."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["page"]


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("autograde", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


def page(template: str, **fields: object) -> str:
    """Return a page made from a template; fields are escaped unless they are `Markup`."""
    return _environment().get_template(template).render(**fields)
