"""Answers to show to others: without comments, docstrings, or the names of who wrote them."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable

import torch

__all__ = ["anonymous"]

SHORTEST_NAME = 3
WORDS = {*keyword.kwlist, *dir(builtins), *dir(torch), *dir(torch.Tensor)}
"""Parts of names that mean something in a program too, and so stay: a learner may be called Max."""


def anonymous(source: str, people: Iterable[str]) -> str:
    """A program without comments and docstrings, laid out anew, each part of a person's name replaced by `someone`;
    "" where it is none.

    A name may still hide in what the program computes or in a nickname: read an example before showing it.
    """
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            _without_docstring(node)
        text = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    parts = {part for person in people for part in re.findall(r"[^\W\d_]+", person) if len(part) >= SHORTEST_NAME}
    names = "|".join(sorted(map(re.escape, parts - WORDS), key=len, reverse=True))
    letter = r"[^\W\d_]"
    return re.sub(rf"(?<!{letter})(?:{names})(?!{letter})", "someone", text, flags=re.IGNORECASE) if names else text


def _without_docstring(node: ast.AST) -> None:
    if not isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    kept = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    node.body = kept or [ast.Pass()]
