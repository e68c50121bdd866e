"""A learner's progress: a small file in the working copy, written by checks and read by `torchcourse status`.

The file has a line of JSON for each step forward: at most two for an exercise, unless it is reset. Lines are appended
under a lock, so two tabs may check at once. Readers skip a line that a crash cut short. One more line records that a
learner asked for an answer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO

from torchcourse.model.files import check_target
from torchcourse.workspace import session

__all__ = ["ATTEMPTED", "OPEN", "PASSED", "Step", "answers_shown", "read", "record", "record_check",
           "record_reference_shown", "steps", "working_copy_of"]  # fmt: skip

STATE = ".torchcourse"
"""The folder that makes a folder of notebooks a working copy."""
FILE = "progress.jsonl"
OPEN, ATTEMPTED, PASSED = "open", "attempted", "passed"
RANK = {OPEN: 0, ATTEMPTED: 1, PASSED: 2}
NO_ATTEMPT = ("unattempted", "unknown", "interrupted")
MAX_BYTES = 1 << 20
"""How many bytes of the file are read: a hundred times what the whole course writes."""
LOCK_SECONDS = 1.0
"""Seconds to wait for another tab's lock; after that the line is appended without it."""


def working_copy_of(path: Path) -> Path | None:
    """Return the working copy that `path` is in, if any."""
    folder = path.absolute()
    return next((f for f in (folder, *folder.parents) if (f / STATE).is_dir()), None)


_warned = False


def record_check(exercise: str, status: str) -> None:
    """Record the status of a check in a notebook of a working copy; elsewhere, and under nbgrader, do nothing.

    Never raises. If the file cannot be written, print so once per kernel.
    """
    _in_working_copy(lambda folder: record(folder, exercise, status))


def record_reference_shown(exercise: str) -> None:
    """Record that the answer of an exercise was shown, as `record_check` records a check."""

    def once(folder: Path) -> None:
        if exercise not in answers_shown(folder):
            _append(folder / STATE / FILE, json.dumps({"answer_shown": exercise, "time": _now()}))

    _in_working_copy(once)


def _in_working_copy(write: Callable[[Path], None]) -> None:
    """Call `write` with the working copy of the running notebook, if there is one; print what goes wrong once."""
    global _warned
    try:
        graded = "NBGRADER_EXECUTION" in os.environ
        folder = working_copy_of(session.notebook_folder()) if session.in_notebook() and not graded else None
        if folder:
            write(folder)
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        if not _warned:
            print(
                f"Your progress is not recorded in {STATE}/{FILE}: {reason}. The result of the check is not affected."
            )
        _warned = True


def record(folder: Path, exercise: str, status: str) -> None:
    """Record the status of a check, or `OPEN`, in the working copy `folder` if it is a step forward.

    Raises:
        OSError: if the file cannot be written.
    """
    state = PASSED if status == PASSED else OPEN if status == OPEN else ATTEMPTED
    if status in NO_ATTEMPT:
        return
    before = read(folder).get(exercise, OPEN)
    if state == before or (state != OPEN and RANK[state] < RANK[before]):
        return
    line = {"exercise": exercise, "state": state, "time": _now()}
    _append(folder / STATE / FILE, json.dumps(line))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _append(path: Path, line: str) -> None:
    check_target(path)
    with path.open("a+b", buffering=0) as file, _locked(file):
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        cut_short = end and file.read(1) != b"\n"
        data = (f"\n{line}\n" if cut_short else f"{line}\n").encode()
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())


@contextlib.contextmanager
def _locked(file: IO[bytes]) -> Iterator[None]:
    """Lock the file in this block if the system has locks; closing the file unlocks it."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl  # not on Windows

        deadline = time.monotonic() + LOCK_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
    yield


@dataclass(frozen=True)
class Step:
    """A recorded step: an exercise became `OPEN`, `ATTEMPTED` or `PASSED` on a day, by the clock of that machine."""

    exercise: str
    state: str
    day: date


def _entries(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the recorded lines that are steps; the file may be damaged.

    Raises:
        OSError: if the file exists and cannot be read.
    """
    states: dict[str, str] = {}
    for entry in _lines(folder):
        with contextlib.suppress(KeyError, TypeError):
            exercise, state = entry["exercise"], entry["state"]
            # The slower of two tabs may record less than is known already; only `OPEN` takes a step back
            if state == OPEN or RANK[state] > RANK[states.get(exercise, OPEN)]:
                states[exercise] = state
                yield entry


def _lines(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the recorded lines that are JSON objects."""
    path = folder / STATE / FILE
    check_target(path)  # reading a pipe would wait for ever
    try:
        with path.open("rb") as file:
            lines = file.read(MAX_BYTES).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                yield entry


def answers_shown(folder: Path) -> set[str]:
    """Return the exercises whose answer the learner has asked for in `folder`.

    Raises:
        OSError: if the file exists and cannot be read.
    """
    return {name for entry in _lines(folder) if isinstance(name := entry.get("answer_shown"), str)}


def steps(folder: Path) -> list[Step]:
    """Return the steps recorded in `folder`, oldest first; those without a valid time are skipped.

    Raises:
        OSError: if the file exists and cannot be read.
    """
    found = []
    for entry in _entries(folder):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            day = date.fromisoformat(entry["time"][:10])
            found.append(Step(entry["exercise"], entry["state"], day))
    return found


def read(folder: Path) -> dict[str, str]:
    """Return `ATTEMPTED` or `PASSED` for each exercise recorded in `folder`; damaged lines are skipped.

    Raises:
        OSError: if the file exists and cannot be read.
    """
    states = {entry["exercise"]: entry["state"] for entry in _entries(folder)}
    return {exercise: state for exercise, state in states.items() if state != OPEN}
