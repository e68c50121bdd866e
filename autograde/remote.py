"""The other end of a cluster: a process of it examines submissions that come as bytes, and gives verdicts back.

What is sent and what comes back is JSON. Nothing says whose submission it is, and nothing is written here.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import multiprocessing
import platform
import socket
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from queue import SimpleQueue
from typing import Any

from autograde.enclosure import Enclosure, blocker, gpu_blocker
from autograde.examiner import examiner
from autograde.journal import fingerprint, rows, secrets
from autograde.numbering import take_number
from autograde.sandbox import Sandbox
from autograde.settings import Limits
from autograde.submission import Submission, SubmittedCell

__all__ = ["Order", "Unlike", "edition", "examine", "packed", "unfit"]


class Unlike(RuntimeError):  # noqa: N818 - what it says is no error of this process
    """This process would not grade as its caller does; the message says in what they differ."""


@dataclasses.dataclass(frozen=True)
class Order:
    """What holds for all submissions of a batch, and what the caller's own course and libraries are."""

    seed: int
    limits: Limits
    enclosure: Enclosure
    modules: tuple[str, ...]
    edition: dict[str, str]


def edition(lessons: Sequence[str]) -> dict[str, str]:
    """What verdicts depend on, by name: versions, and a hash for each lesson."""
    made = {
        "Python": platform.python_version(),
        "torch": metadata.version("torch"),
        "torchcourse": metadata.version("torchcourse"),
    }
    return made | {f"lesson {lesson} or the grader": _short(lesson) for lesson in lessons}


def _short(lesson: str) -> str:
    return f"{fingerprint(lesson)[:12]}/{'/'.join(sorted(part[:4] for part in secrets(lesson).values()))}"


def difference(wanted: dict[str, str]) -> str:
    """In what this process differs from `wanted`, an edition; empty where it does not."""
    mine = edition([name.split()[1] for name in wanted if name.startswith("lesson ")])
    other = {name: mine.get(name) for name in wanted if mine.get(name) != wanted[name]}
    versions = [f"{name} {seen} in place of {wanted[name]}" for name, seen in other.items() if name[:7] != "lesson "]
    return ", ".join([*versions, *(name for name in other if name[:7] == "lesson ")])


def unfit(order: Order) -> str:
    """Why this process cannot grade a batch, with the remedy; empty where it can."""
    unlike = difference(order.edition)
    if unlike:
        return f"differs from here in {unlike}: give it the same checkout and `pip install -c constraints.txt`."
    if multiprocessing.current_process().daemon:
        return ("may not start processes, as some lessons do: start it with --no-nanny, or with "
                "DASK_DISTRIBUTED__WORKER__DAEMON=False.")  # fmt: skip
    if reason := blocker():
        return f"cannot isolate submissions. {reason}"
    return gpu_blocker() if order.enclosure.gpu else ""


def packed(submission: Submission) -> bytes:
    """A submission as bytes, without whose it is."""
    return json.dumps(dataclasses.asdict(dataclasses.replace(submission, student=""))).encode()


def _unpacked(data: bytes) -> Submission:
    plain: dict[str, Any] = json.loads(data)
    cells = tuple(SubmittedCell(**cell) for cell in plain.pop("cells"))
    return Submission(cells=cells, **plain)


def examine(data: bytes, order: Order) -> bytes:
    """The verdicts on a submission, as bytes; runs in a process of the cluster.

    Raises:
        Unlike: when this process would not grade as its caller does.
        SandboxError: when submissions cannot be isolated here.
    """
    if unlike := _unlike(tuple(order.edition.items())):
        raise Unlike(f"{socket.gethostname()} differs from here in {unlike}")
    submission = _unpacked(data)
    judge = examiner(submission.lesson, order.seed, order.enclosure.gpu)
    idle = _sandboxes(order.limits, order.enclosure, order.modules)
    sandbox = idle.get() if not idle.empty() else _sandbox(order)
    try:
        return json.dumps(rows(judge.grade(sandbox, submission).verdicts)).encode()
    finally:
        idle.put(sandbox)


@cache
def _unlike(wanted: tuple[tuple[str, str], ...]) -> str:
    return difference(dict(wanted))


@cache
def _sandboxes(limits: Limits, enclosure: Enclosure, modules: tuple[str, ...]) -> SimpleQueue[Sandbox]:
    """The sandboxes of this process that nobody uses now: as many as it has had tasks at once."""
    return SimpleQueue()


def _sandbox(order: Order) -> Sandbox:
    made = Sandbox(order.limits, take_number(), list(order.modules), order.enclosure)
    atexit.register(made.close)
    return made
