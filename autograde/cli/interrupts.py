"""What Ctrl-C does to a command: it ends it at once, except where grades are being recorded."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

__all__ = ["ended_by_ctrl_c", "raising_at_ctrl_c"]


def ended_by_ctrl_c() -> AbstractContextManager[None]:
    """Let Ctrl-C end the process at once in a block, without a word.

    Python's own handler raises an exception wherever the program is. That is mostly in the middle of an import, where
    C++ loses it, or ends the process with a message of its own. All files are written in one step, so none is half
    written.
    """
    return _instead_of(signal.default_int_handler, signal.SIG_DFL)


def raising_at_ctrl_c() -> AbstractContextManager[None]:
    """Let Ctrl-C raise KeyboardInterrupt in a block, as it does in Python by default."""
    return _instead_of(signal.SIG_DFL, signal.default_int_handler)


@contextmanager
def _instead_of(usual: Callable[..., Any] | int, other: Callable[..., Any] | int) -> Iterator[None]:
    """Replace the handler `usual`; leave any other alone, such as that of a shell that has Ctrl-C ignored."""
    before = signal.getsignal(signal.SIGINT)
    if before is not usual:
        yield
        return
    signal.signal(signal.SIGINT, other)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
