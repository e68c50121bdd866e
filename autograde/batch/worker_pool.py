"""The interface of worker pools, which grade submissions, and the pool on this machine; `cluster.py` has another."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Protocol

import psutil

from autograde.batch.worker_ids import allocate_id, free_id
from autograde.judge.lesson_grader import LessonGrader
from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.sandbox import Sandbox
from autograde.settings import Limits
from torchcourse.model.catalogue import imports

__all__ = ["LocalPool", "WorkerPool", "default_workers"]


MAX_WORKERS = 64
BYTES_EACH = 1 << 30
"""The memory for one worker, which few submissions use."""


def default_workers() -> int:
    """Return one worker per usable core, but no more than the free memory has GiB."""
    by_memory = psutil.virtual_memory().available // BYTES_EACH
    return max(1, min(len(os.sched_getaffinity(0)), by_memory, MAX_WORKERS))


class WorkerPool(Protocol):
    """Grades several submissions at a time, and writes no results."""

    def capacity(self) -> int:
        """Return how many submissions can run at once at present."""

    def submit(self, submission: Submission) -> Future[list[Verdict]]:
        """Have a submission graded; return a future of its verdicts."""

    def close(self) -> None:
        """Give up what is running, and end what was started for it."""


class LocalPool:
    """Workers on this machine, each with a sandbox of its own."""

    def __init__(
        self, graders: Mapping[str, LessonGrader], workers: int, limits: Limits, isolation: Isolation,
        part_done: Callable[[Submission, float], None] = lambda submission, share: None,
    ) -> None:  # fmt: skip
        """Start workers.

        Args:
            part_done: called by the workers' threads with the share of a submission that was run since the last call.
        """
        modules = imports(*graders)
        self.graders, self.workers, self.part_done = graders, workers, part_done
        self.sandboxes = [Sandbox(limits, allocate_id(), modules, isolation) for _ in range(workers)]
        self.idle: SimpleQueue[Sandbox] = SimpleQueue()
        for sandbox in self.sandboxes:
            self.idle.put(sandbox)
        self.prepared: set[str] = set()
        self.closing = threading.Event()
        self.threads = ThreadPoolExecutor(workers + 1)

    def capacity(self) -> int:
        """Return the number of workers."""
        return self.workers

    def submit(self, submission: Submission) -> Future[list[Verdict]]:
        """Have a submission graded by the next idle worker; return a future of its verdicts."""
        future = self.threads.submit(self._grade, submission)
        if submission.lesson not in self.prepared:  # this process is idle while the sandbox starts and runs cells
            self.prepared.add(submission.lesson)
            self.threads.submit(self._prepare, submission)
        return future

    def _prepare(self, submission: Submission) -> None:
        for _ in self.graders[submission.lesson].prepare(submission):
            if self.closing.is_set():
                break

    def _grade(self, submission: Submission) -> list[Verdict]:
        sandbox = self.idle.get()
        try:
            part_done = partial(self.part_done, submission)
            return self.graders[submission.lesson].grade(sandbox, submission, part_done).verdicts
        finally:
            self.idle.put(sandbox)

    def close(self) -> None:
        """End all workers, and save what the graders observed."""
        self.closing.set()
        for sandbox in self.sandboxes:
            sandbox.end()
        self.threads.shutdown(cancel_futures=True)
        for sandbox in self.sandboxes:
            sandbox.close()
            free_id(sandbox.number)
        for grader in self.graders.values():
            grader.close()
