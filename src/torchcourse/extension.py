"""`%load_ext torchcourse`: under torch's errors of shape, device, dtype and in-place writing, a paragraph on them.

The traceback stays as it is; the paragraph is a note on the exception, which IPython prints below the message.
"""

from __future__ import annotations

import textwrap
from types import TracebackType
from typing import Any

from torchcourse.remarks import remark

__all__ = ["load", "unload"]

KNOWN = (RuntimeError, IndexError, ValueError, TypeError)
"""Where IPython hands an exception to the extension; it says something about few of them."""
WIDTH = 100
_before: list[tuple[Any, Any]] = []
"""What handled exceptions before the extension was loaded."""


def load(shell: Any) -> None:
    """Begin to remark on errors in this shell; loading twice changes nothing."""
    if not _before:
        _before.append((shell.custom_exceptions, shell.CustomTB))
        shell.set_custom_exc(KNOWN, _show)


def unload(shell: Any) -> None:
    """Leave the shell's errors to what handled them before."""
    if _before:
        shell.custom_exceptions, shell.CustomTB = _before.pop()


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, traceback: TracebackType, tb_offset: int | None = None
) -> None:
    """IPython's custom handler: note, then show as IPython does."""
    text = remark(error, traceback)
    note = "\n" + textwrap.fill(f"torchcourse: {text}", WIDTH, break_long_words=False, break_on_hyphens=False)
    if text and note not in getattr(error, "__notes__", ()):  # raised again, it has its note already
        error.add_note(note)
    shell.showtraceback((kind, error, traceback), tb_offset=tb_offset, running_compiled_code=True)
