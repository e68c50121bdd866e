"""How far a learner is: a small file in the working copy, written by checks, read by `torchcourse status`.

The file holds a line of JSON for each step forward: at most two for an exercise, unless it is reset. Lines are
appended under a lock, so that two tabs may check at once; a line that a crash cut short is skipped, and the next one
starts anew.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["ATTEMPTED", "OPEN", "PASSED", "desk_of", "note", "read", "remember"]

STATE = ".torchcourse"
"""The folder that makes a folder of notebooks a working copy."""
FILE = "progress.jsonl"
OPEN, ATTEMPTED, PASSED = "open", "attempted", "passed"
RANK = {OPEN: 0, ATTEMPTED: 1, PASSED: 2}
NO_ATTEMPT = ("unattempted", "unknown", "interrupted")
MOST = 1 << 20
"""Bytes of the file that are read: a hundred times what the whole course writes."""
PATIENCE = 1.0
"""Seconds to wait for another tab's turn; after them the line is appended all the same."""


def desk_of(place: Path) -> Path | None:
    """The working copy that `place` lies in."""
    folder = place.absolute()
    return next((f for f in (folder, *folder.parents) if (f / STATE).is_dir()), None)


_warned = False


def remember(exercise: str, status: str) -> None:
    """Note the outcome of a check that was run in a notebook of a working copy; elsewhere, and where nbgrader runs it,
    do nothing. Never raises.

    Where the file cannot be written, that is said once.
    """
    global _warned
    try:
        graded = "NBGRADER_EXECUTION" in os.environ
        desk = desk_of(_notebooks_folder()) if _in_notebook() and not graded else None
        if desk:
            note(desk, exercise, status)
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        if not _warned:
            print(f"Your progress is not noted: {reason}. The check is as good as ever.")
        _warned = True


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


def _notebooks_folder() -> Path:
    """Where the notebook of this kernel lies: Jupyter says so, others start its kernel there."""
    session = Path(os.environ.get("JPY_SESSION_NAME", ""))
    return session.parent if session.is_absolute() and session.parent.is_dir() else Path.cwd()


def note(desk: Path, exercise: str, status: str) -> None:
    """Note the outcome of a check, or `OPEN`, in the working copy `desk`, unless it is no step forward.

    Raises:
        OSError: when the file cannot be written.
    """
    state = PASSED if status == PASSED else OPEN if status == OPEN else ATTEMPTED
    if status in NO_ATTEMPT:
        return
    before = read(desk).get(exercise, OPEN)
    if state == before or (state != OPEN and RANK[state] < RANK[before]):
        return
    line = {"exercise": exercise, "state": state, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    _append(desk / STATE / FILE, json.dumps(line))


def _append(path: Path, line: str) -> None:
    with path.open("a+b", buffering=0) as file, _turn(file):
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        torn = end and file.read(1) != b"\n"
        data = (f"\n{line}\n" if torn else f"{line}\n").encode()
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())


@contextlib.contextmanager
def _turn(file: IO[bytes]) -> Iterator[None]:
    """Alone with the file, where the system has locks; closing it gives them back."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl  # not on Windows

        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
    yield


def read(desk: Path) -> dict[str, str]:
    """`ATTEMPTED` or `PASSED` for each exercise of which something is noted in `desk`; lines that are none are skipped.

    Raises:
        OSError: when the file is there and cannot be read.
    """
    try:
        with (desk / STATE / FILE).open("rb") as file:
            lines = file.read(MOST).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return {}
    noted: dict[str, str] = {}
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            entry = json.loads(line)
            exercise, state = entry["exercise"], entry["state"]
            # Of two tabs the slower one may note less than is known already; only `OPEN` leads back
            if state == OPEN or RANK[state] > RANK[noted.get(exercise, OPEN)]:
                noted[exercise] = state
    return {exercise: state for exercise, state in noted.items() if state != OPEN}
