"""The log of gradings, `grading-log.jsonl` in the results folder: who graded what, when, with which version.

One line of JSON for each run of `torchcourse grade`, also for one that was interrupted. It names the scores that the
run changed, and has what they depend on, so that the next run can say why scores differ. nbgrader's own commands and
formgrader leave a line for each submission, with the student and without changes: they record scores only later.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from autograde.batch.recording import ScoreChange
from autograde.judge.fingerprint import LIBRARIES, fingerprint, private_hashes
from torchcourse import __version__
from torchcourse.model.files import check_target

__all__ = ["FILE", "Run", "append", "by_student", "reasons"]

FILE = "grading-log.jsonl"
OURS = "torchcourse grade"


@dataclass(frozen=True)
class Run:
    """What is logged of a run.

    Attributes:
        submissions: the number that was graded or looked up.
        by: the program that graded.
        student: whose submission it was, where a run is of one.
    """

    lessons: Sequence[str]
    submissions: int
    seed: int
    finished: bool
    changes: Sequence[ScoreChange]
    by: str = OURS
    student: str = ""


def append(out: Path, run: Run) -> None:
    """Add a run to the log in a results folder.

    Raises:
        FileExistsError: when something that is no file is in the log's place.
    """
    line = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"), "who": _user(), "by": run.by, "version": __version__,
        "lessons": list(run.lessons), "submissions": run.submissions, "seed": run.seed, "finished": run.finished,
        "changes": [_change(change) for change in by_student(run.changes)],
        "conditions": _conditions(run.lessons, run.seed),
    }  # fmt: skip
    if run.student:
        line["student"] = run.student
    path = out / FILE
    check_target(path)  # writing to a pipe would wait for ever
    out.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as log:
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(log, fcntl.LOCK_EX)  # formgrader may be writing as well, and half a line looks like one cut off
        log.write(_start_of_line(log) + json.dumps(line).encode() + b"\n")


def _start_of_line(log: BinaryIO) -> bytes:
    """Return what has to be written before a line: a line end after a line that a full disk has cut off."""
    end = log.seek(0, os.SEEK_END)
    log.seek(max(0, end - 1))
    return b"" if log.read(1) in (b"", b"\n") else b"\n"


def reasons(out: Path, seed: int, changes: Sequence[ScoreChange]) -> list[str]:
    """Return why scores change against the last grading in `out`: a sentence for each reason, with the scores."""
    found: dict[str, list[ScoreChange]] = defaultdict(list)
    last, now = {}, {}
    for lesson in {change.after.lesson for change in changes}:
        last[lesson], now[lesson] = _last(out, lesson), _conditions([lesson], seed)[lesson]
    for change in by_student(changes):
        lesson = change.after.lesson
        found[_reason(change, last[lesson], now[lesson])].append(change)
    return [f"{reason}: {_shown(own)}" for reason, own in found.items()]


def by_student(changes: Sequence[ScoreChange]) -> list[ScoreChange]:
    """Return changes by student; they were found in the order in which workers finished."""
    return sorted(changes, key=lambda c: (c.after.student, c.after.lesson))


def _reason(change: ScoreChange, last: dict[str, Any] | None, now: dict[str, Any]) -> str:
    exercise = change.after.exercise
    if change.resubmitted:
        return "Handed in again"
    if last is None:
        return "Graded with another version, of which there is no log"
    parts = [f"the private half of {exercise}"] if last["hidden"].get(exercise) != now["hidden"][exercise] else []
    parts += ["the seed"] if last["seed"] != now["seed"] else []
    parts += [f"{name} {last['libraries'].get(name)} (now {version})" for name, version in now["libraries"].items()
              if last["libraries"].get(name) != version]  # fmt: skip
    if last["grader"] != now["grader"] and last["libraries"] == now["libraries"]:
        parts.append("the lesson or the grader")
    when = f"since {last['time']}, when {last['who']} graded it"
    return f"Changed {when}: {', '.join(parts)}" if parts else f"Nothing changed {when}: these came out differently"


def _shown(changes: Sequence[ScoreChange]) -> str:
    return ", ".join(f"{c.after.student} {c.after.exercise} {c.after.score - c.before.score:+g}" for c in changes)


def _last(out: Path, lesson: str) -> dict[str, Any] | None:
    """Return what the last logged grading of a lesson depended on; None if there is none."""
    found: dict[str, Any] | None = None
    with contextlib.suppress(OSError):
        check_target(out / FILE)
        with (out / FILE).open(encoding="utf-8", errors="replace") as file:
            for text in file:
                with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):  # a damaged line
                    line = json.loads(text)
                    if lesson in line["lessons"] and line.get("by", OURS) == OURS:
                        found = {**line["conditions"][lesson], "time": line["time"], "who": line["who"]}
    return found


def _conditions(lessons: Sequence[str], seed: int) -> dict[str, dict[str, Any]]:
    """Return what scores depend on besides the submission, by lesson."""
    libraries = {name: metadata.version(name) for name in LIBRARIES}
    return {name: {"seed": seed, "grader": fingerprint(name), "hidden": private_hashes(name), "libraries": libraries}
            for name in lessons}  # fmt: skip


def _change(change: ScoreChange) -> dict[str, Any]:
    before, after = change.before, change.after
    return {"student": after.student, "lesson": after.lesson, "exercise": after.exercise, "before": before.score,
            "after": after.score, "resubmitted": change.resubmitted, "kept": change.kept}  # fmt: skip


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return "unknown"
