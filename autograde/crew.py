"""Who examines submissions: sandboxes of this machine here, and others behind the same small interface."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Protocol

from autograde.enclosure import Enclosure
from autograde.examiner import Examiner
from autograde.numbering import give_back, take_number
from autograde.sandbox import Sandbox
from autograde.settings import Limits
from autograde.submission import Submission
from autograde.verdict import Verdict
from torchcourse.exercise import imports

__all__ = ["Crew", "LocalCrew"]


class Crew(Protocol):
    """Gives verdicts on submissions, several at a time, and touches nothing that the grader writes."""

    def breadth(self) -> int:
        """How many submissions it examines at once, now."""

    def submit(self, submission: Submission) -> Future[list[Verdict]]:
        """Have a submission examined; the verdicts come when they are there."""

    def close(self) -> None:
        """Give up what is under way, and end what was started for it."""


class LocalCrew:
    """Workers on this machine, each in a sandbox of its own."""

    def __init__(
        self, examiners: Mapping[str, Examiner], workers: int, limits: Limits, enclosure: Enclosure
    ) -> None:
        modules = imports(*examiners)
        self.examiners, self.workers = examiners, workers
        self.sandboxes = [Sandbox(limits, take_number(), modules, enclosure) for _ in range(workers)]
        self.idle: SimpleQueue[Sandbox] = SimpleQueue()
        for sandbox in self.sandboxes:
            self.idle.put(sandbox)
        self.prepared: set[str] = set()
        self.closing = threading.Event()
        self.pool = ThreadPoolExecutor(workers + 1)

    def breadth(self) -> int:
        return self.workers

    def submit(self, submission: Submission) -> Future[list[Verdict]]:
        future = self.pool.submit(self._examine, submission)
        if submission.lesson not in self.prepared:  # nobody judges yet: a sandbox has to start, or a notebook to run
            self.prepared.add(submission.lesson)
            self.pool.submit(self._prepare, submission)
        return future

    def _prepare(self, submission: Submission) -> None:
        for _ in self.examiners[submission.lesson].prepare(submission):
            if self.closing.is_set():
                break

    def _examine(self, submission: Submission) -> list[Verdict]:
        sandbox = self.idle.get()
        try:
            return self.examiners[submission.lesson].grade(sandbox, submission).verdicts
        finally:
            self.idle.put(sandbox)

    def close(self) -> None:
        self.closing.set()
        for sandbox in self.sandboxes:
            sandbox.end()
        self.pool.shutdown(cancel_futures=True)
        for sandbox in self.sandboxes:
            sandbox.close()
            give_back(sandbox.number)
        for examiner in self.examiners.values():
            examiner.close()
