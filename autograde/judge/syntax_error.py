"""Say where a cell has its first syntax error."""

from __future__ import annotations

import ast
import warnings

__all__ = ["syntax_error"]

MAX_PARSED_LENGTH = 20_000


def syntax_error(source: str) -> str:
    """Return the line and the reason of the first syntax error of a cell; "" if there is none, or it is very long.

    The cell is parsed here, because a process of the learner's could send any text.
    """
    if len(source) > MAX_PARSED_LENGTH:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError as error:
        return f"in line {error.lineno} ({error.msg})"
    except (ValueError, MemoryError, RecursionError):
        pass
    return ""
