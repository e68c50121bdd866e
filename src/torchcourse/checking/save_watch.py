"""Watch for saves of the running notebook, so that a card follows the text of the cell that it is about."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from torchcourse.workspace import session

__all__ = ["after_each_save"]

SECONDS = 0.25
"""How often the file is looked at, while the kernel is idle."""

_renewals: dict[str, Callable[[], None]] = {}
"""What to call after a save, for each exercise with a card."""
_watching: list[asyncio.Task[None]] = []


def after_each_save(exercise: str, renew: Callable[[], None]) -> None:
    """Call `renew` whenever the notebook has been saved, until this is called for `exercise` again.

    Does nothing outside a kernel whose notebook is known.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if session.notebook_file() is None:
        return
    _renewals[exercise] = renew
    if not any(task.get_loop() is loop and not task.done() for task in _watching):
        _watching[:] = [loop.create_task(_watch())]


async def _watch() -> None:
    before = _saved_at()
    while True:
        await asyncio.sleep(SECONDS)
        now = _saved_at()
        if now != before:
            before = now
            for exercise, renew in list(_renewals.items()):
                try:
                    renew()
                except Exception:  # a front end that is gone, or an answer that cannot be inspected
                    _renewals.pop(exercise, None)


def _saved_at() -> float:
    """Return when the notebook was last saved; 0 while there is no such file."""
    path = session.notebook_file()
    with contextlib.suppress(OSError):
        return path.stat().st_mtime if path else 0.0
    return 0.0
