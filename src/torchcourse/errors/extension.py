"""`%load_ext torchcourse`: explain torch's typical errors.

The traceback is unchanged; the explanation is a note on the exception, which IPython prints below the message.
"""

from __future__ import annotations

import logging
import textwrap
from types import TracebackType
from typing import Any

from torchcourse.errors.explanations import EXPLAINED, explain_error

__all__ = ["load", "unload"]

WIDTH = 100
COMPILER_LOGGER = logging.getLogger("torch.utils.cpp_extension")
_before: list[tuple[Any, Any, int]] = []
"""The shell's exception handler and the level of `COMPILER_LOGGER` from before the extension was loaded."""


def load(shell: Any) -> None:
    """Start explaining errors in this shell; loading twice changes nothing.

    Where the CUDA toolkit is installed and there is no GPU, torch warns when it first looks for a compiler. Learners
    would take that for a fault of their machine, so it is not shown.
    """
    if not _before:
        _before.append((shell.custom_exceptions, shell.CustomTB, COMPILER_LOGGER.level))
        COMPILER_LOGGER.setLevel(logging.ERROR)
        shell.set_custom_exc(EXPLAINED, _show)


def unload(shell: Any) -> None:
    """Restore the shell's former exception handler, and show torch's warning about a missing compiler again."""
    if _before:
        shell.custom_exceptions, shell.CustomTB, level = _before.pop()
        COMPILER_LOGGER.setLevel(level)


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, traceback: TracebackType, tb_offset: int | None = None
) -> None:
    """Handle an exception for IPython: add a note to it, then show it as IPython does."""
    text = explain_error(error, traceback)
    note = "\n" + textwrap.fill(f"torchcourse: {text}", WIDTH, break_long_words=False, break_on_hyphens=False)
    if text and note not in getattr(error, "__notes__", ()):  # an exception that is raised again has its note already
        error.add_note(note)
    shell.showtraceback((kind, error, traceback), tb_offset=tb_offset, running_compiled_code=True)
