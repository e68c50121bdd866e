"""Make answers anonymous, to be shown to others: without comments, docstrings and names of people."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import warnings
from collections.abc import Iterable

import torch

__all__ = ["anonymous"]

MAX_SOURCE_LENGTH = 20_000
"""Characters of a program that is parsed: a few megabytes take half a minute and a gigabyte."""
MIN_NAME_LENGTH = 3
WORDS = {*keyword.kwlist, *dir(builtins), *dir(torch), *dir(torch.Tensor)}
"""Words that stay even if they are part of a name: a learner may be called Max."""


def anonymous(source: str, people: Iterable[str]) -> str:
    """Return a reformatted program without comments and docstrings, with `someone` for each part of a person's name.

    Nicknames and names that the program computes stay: read an example before showing it. "" if the text is not Python,
    or longer than an example could be.
    """
    if len(source) > MAX_SOURCE_LENGTH:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        for node in ast.walk(tree):
            _without_docstring(node)
        text = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    parts = {part for person in people for part in re.findall(r"[^\W\d_]+", person) if len(part) >= MIN_NAME_LENGTH}
    names = "|".join(sorted(map(re.escape, parts - WORDS), key=len, reverse=True))
    letter = r"[^\W\d_]"
    return re.sub(rf"(?<!{letter})(?:{names})(?!{letter})", "someone", text, flags=re.IGNORECASE) if names else text


def _without_docstring(node: ast.AST) -> None:
    if not isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    statements = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    node.body = statements or [ast.Pass()]
