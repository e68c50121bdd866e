"""A worker of a cluster: grades submissions that arrive as bytes, and returns verdicts.

Both are JSON without the student's name. No files are written here.
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
from queue import Empty, SimpleQueue

from autograde.batch.journal import to_rows
from autograde.batch.worker_ids import allocate_id
from autograde.judge.exposed import exposed_answers_problem
from autograde.judge.fingerprint import fingerprint, private_hashes
from autograde.judge.lesson_grader import lesson_grader
from autograde.judge.submission import Submission, SubmittedCell
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.requirements import isolation_problem, switch_to_gpu
from autograde.sandbox.sandbox import Sandbox, SandboxError
from autograde.settings import Limits
from autograde.source.release import load_release
from torchcourse.model.catalogue import LESSONS

__all__ = ["BatchSettings", "IncompatibleError", "answer", "grade", "incompatibility", "pack", "versions"]


class IncompatibleError(RuntimeError):
    """This process would not grade as its caller does; the message names the differences."""


@dataclasses.dataclass(frozen=True)
class BatchSettings:
    """What is the same for all submissions of a batch; `versions` are those of the caller."""

    seed: int
    limits: Limits
    isolation: Isolation
    modules: tuple[str, ...]
    versions: dict[str, str]


def versions(lessons: Sequence[str]) -> dict[str, str]:
    """Return the versions that verdicts depend on, by name: of libraries, and a hash for each lesson."""
    libraries = {
        "Python": platform.python_version(),
        "torch": metadata.version("torch"),
        "torchcourse": metadata.version("torchcourse"),
    }
    return libraries | {f"lesson {lesson} or the grader": _lesson_version(lesson) for lesson in lessons}


def _lesson_version(lesson: str) -> str:
    if lesson not in LESSONS:
        return "missing"
    return f"{fingerprint(lesson)[:12]}/{'/'.join(sorted(part[:4] for part in private_hashes(lesson).values()))}"


def difference(wanted: dict[str, str]) -> str:
    """Name the versions of this process that differ from `wanted`; "" where none does."""
    mine = versions([name.split()[1] for name in wanted if name.startswith("lesson ")])
    other = {name: mine.get(name) for name in wanted if mine.get(name) != wanted[name]}
    libraries = [f"{name} {seen} in place of {wanted[name]}" for name, seen in other.items() if name[:7] != "lesson "]
    return ", ".join([*libraries, *(name for name in other if name[:7] == "lesson ")])


def answer() -> bool:
    """Return True: whoever can run this can import the grader."""
    return True


def incompatibility(batch: BatchSettings) -> str:
    """Say why this process cannot grade a batch, with the remedy; "" where it can."""
    differs = difference(batch.versions)
    if differs:
        return (f"differs from here in {differs}: give it the same checkout, the same lessons of your own and "
                "`pip install -c constraints.txt`.")  # fmt: skip
    if multiprocessing.current_process().daemon:
        return ("may not start processes, as some lessons do: start it with --no-nanny, or with "
                "DASK_DISTRIBUTED__WORKER__DAEMON=False.")  # fmt: skip
    if reason := isolation_problem():
        return f"cannot isolate submissions. {reason}"
    if reason := exposed_answers_problem():
        return f"would let submissions read the answers. {reason}"
    return switch_to_gpu() if batch.isolation.gpu else ""


def pack(submission: Submission) -> bytes:
    """Return a submission as bytes, without the student's name."""
    cells = [dataclasses.astuple(cell) for cell in submission.cells]
    plain = [submission.lesson, cells, submission.problem, submission.reason, submission.tampered]
    return json.dumps(plain).encode()


def unpack(data: bytes) -> Submission:
    """Return the submission in packed bytes; its student is ""."""
    lesson, cells, problem, reason, tampered = json.loads(data)
    return Submission("", load_release(lesson), tuple(SubmittedCell(*c) for c in cells), problem, reason, tampered)


def grade(data: bytes, batch: BatchSettings) -> bytes:
    """Grade a packed submission in a process of the cluster; return its verdicts as bytes.

    Raises:
        IncompatibleError: when this process would not grade as its caller does.
        SandboxError: when submissions cannot be isolated here, or a right answer does not pass; it names this machine.
    """
    if differs := _difference(tuple(batch.versions.items())):
        raise IncompatibleError(f"{socket.gethostname()} differs from here in {differs}")
    submission = unpack(data)
    grader = lesson_grader(submission.lesson, batch.seed, batch.isolation.gpu)
    idle = _idle_sandboxes(batch.limits, batch.isolation, batch.modules)
    try:
        try:
            sandbox = idle.get_nowait()
        except Empty:
            sandbox = _new_sandbox(batch)
        try:
            return json.dumps(to_rows(grader.grade(sandbox, submission).verdicts)).encode()
        finally:
            idle.put(sandbox)
    except SandboxError as error:
        raise SandboxError(f"On the worker {socket.gethostname()}: {error}") from None


@cache
def _difference(wanted: tuple[tuple[str, str], ...]) -> str:
    return difference(dict(wanted))


@cache
def _idle_sandboxes(limits: Limits, isolation: Isolation, modules: tuple[str, ...]) -> SimpleQueue[Sandbox]:
    """Return the queue of this process's idle sandboxes; there are as many sandboxes as it has had tasks at once."""
    return SimpleQueue()


def _new_sandbox(batch: BatchSettings) -> Sandbox:
    if reason := exposed_answers_problem():  # a worker may join after the others were asked
        raise SandboxError(reason)
    made = Sandbox(batch.limits, allocate_id(), list(batch.modules), batch.isolation)
    atexit.register(made.close)
    return made
