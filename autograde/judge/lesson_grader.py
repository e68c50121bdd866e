"""The grader of one lesson: runs submissions in a sandbox and judges the observations."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

from autograde.errors import CourseError
from autograde.judge.oracle import Oracle, hidden, oracles, visible
from autograde.judge.oracle_cache import OracleCache
from autograde.judge.run_submission import LACKS_TOOLS, ExerciseRun, run_submission
from autograde.judge.submission import Submission
from autograde.judge.trial import check_trial, trial_submission
from autograde.judge.verdict import Verdict, clean, decide, unjudged, verdict_without_running
from autograde.sandbox.sandbox import Sandbox
from autograde.settings import SEED
from torchcourse.model.catalogue import exercises
from torchcourse.model.devices import checked_devices, find_accelerator

__all__ = ["Graded", "LessonGrader", "lesson_grader"]

Result = TypeVar("Result")
MACHINE_DEPENDENT = {"crashed", "memory", "timeout", "error"}
"""Statuses that a machine may cause on which something is missing or broken."""


class _SerialExecutor:
    """The one thread of this process in which oracles run programs, for all lessons.

    Programs change defaults of the process, so only one may run at a time. A lock would not do: Dynamo keeps tracebacks
    for each thread, and two threads that end at once wait for each other for ever when torch frees them.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # a child has no thread but the one that forked

    def _begin(self) -> None:
        self._executor = ThreadPoolExecutor(1)

    def run(self, function: Callable[[], Result]) -> Result:
        """Run a function in the thread, and return its result or raise its exception."""
        return self._executor.submit(function).result()


ORACLE_THREAD = _SerialExecutor()


@dataclass(frozen=True)
class Graded:
    """A submission and its verdicts, one for each exercise of the lesson."""

    submission: Submission
    verdicts: list[Verdict]


class LessonGrader:
    """Gives verdicts on submissions of one lesson; its oracles of visible and hidden cases are made once."""

    def __init__(self, lesson: str, seed: int = SEED, gpu: bool = False, use_cache: bool = True) -> None:
        """Make the oracles; with `use_cache`, load what references and mistakes were observed to do in earlier runs."""
        accelerator = find_accelerator("" if gpu else "simulated")  # before any backward runs here
        self.lesson, self.accelerator = lesson, accelerator.name
        self.visible = {name: len(visible(e)) for name, e in exercises(lesson).items()}
        cases = {e.name: [*visible(e), *hidden(lesson, e, seed)] for e in exercises(lesson).values()}
        self.oracles = {o.exercise.name: o for o in oracles(lesson, lambda e: cases[e.name])}
        self.cache = OracleCache(lesson, seed, accelerator.name)
        for oracle in self.oracles.values() if use_cache else []:
            self.cache.load(oracle)
        self._tried, self._trying = set[str](), threading.Lock()

    def prepare(self, submission: Submission) -> Iterator[None]:
        """Observe, one case for each step, what a submission will be compared with: a use for idle time."""
        for name, oracle in self.oracles.items():
            if verdict_without_running(submission, name) is not None:
                continue
            for device in checked_devices(oracle.exercise.any_device, self.accelerator):
                for number in range(len(oracle.packed)):
                    ORACLE_THREAD.run(partial(oracle.wanted, device.name, number))
                    yield

    def close(self) -> None:
        """Save the observations for the next run."""
        for oracle in self.oracles.values():
            self.cache.save(oracle)
        self.cache.remove_old()

    def grade(
        self, sandbox: Sandbox, submission: Submission, part_done: Callable[[float], None] = lambda share: None
    ) -> Graded:
        """Grade one submission, once an answer that is known to be right has passed here.

        A failure that the machine could have caused counts only once that exercise's reference has passed here. An
        answer whose process ended is run a second time; it counts as crashed only if that happens again.

        Args:
            part_done: called with the share of the submission that has been run since the last call.

        Raises:
            SandboxError: when an answer that is known to be right does not pass.
        """
        early = {name: verdict_without_running(submission, name) for name in submission.release.exercises}
        pending = [name for name, verdict in early.items() if verdict is None]
        if pending:
            self._try(sandbox, submission.release.exercises[:1])
        decided = self._run(sandbox, submission, pending, part_done=part_done)
        if ended := [name for name, verdict in decided.items() if verdict.status == "crashed"]:
            again = self._run(sandbox, submission, ended, quotes=False)
            decided |= {name: verdict for name, verdict in again.items() if verdict.status != "crashed"}
        doubtful = [name for name, verdict in decided.items() if _is_doubtful(verdict)]
        self._try(sandbox, doubtful, again=bool(pending) and len(doubtful) == len(pending))
        return Graded(submission, [verdict or decided[name] for name, verdict in early.items()])

    def _try(self, sandbox: Sandbox, names: list[str], again: bool = False) -> None:
        """Grade a notebook with the references of those exercises that were not tried before; if `again`, of all.

        Raises:
            SandboxError: when one of them does not pass, twice: a busy machine may end a process once.
        """
        with self._trying:  # whoever comes first tries, the others wait
            if new := [name for name in names if again or name not in self._tried]:
                submission = trial_submission(self.lesson, new)
                verdicts = self._run(sandbox, submission, new)
                if any(verdict.status != "passed" for verdict in verdicts.values()):
                    verdicts = self._run(sandbox, submission, new)
                for verdict in verdicts.values():
                    check_trial(verdict)
                self._tried.update(new)

    def _run(
        self, sandbox: Sandbox, submission: Submission, names: list[str], quotes: bool = True,
        part_done: Callable[[float], None] = lambda share: None,
    ) -> dict[str, Verdict]:  # fmt: skip
        if not names:
            return {}
        pending = [self.oracles[name] for name in names]
        runs = run_submission(sandbox, submission, pending, self.accelerator, self.visible, quotes, part_done)
        return {name: self._decide(submission, self.oracles[name], runs) for name in names}

    def _decide(self, submission: Submission, oracle: Oracle, runs: dict[str, dict[str, ExerciseRun]]) -> Verdict:
        name = oracle.exercise.name
        own = {device: by_exercise[name] for device, by_exercise in runs.items() if name in by_exercise}
        try:
            return ORACLE_THREAD.run(partial(decide, submission, oracle, self.visible[name], own))
        except CourseError:
            raise
        except Exception as error:  # a learner may send any observations, which must not stop a batch
            return unjudged(submission, name, error)


def _is_doubtful(verdict: Verdict) -> bool:
    """Return whether the machine may be to blame for a verdict: an exception, or a tool that is missing there."""
    return verdict.status in MACHINE_DEPENDENT or verdict.message == clean(LACKS_TOOLS)


@cache
def lesson_grader(lesson: str, seed: int = SEED, gpu: bool = False) -> LessonGrader:
    """Return this process's grader of a lesson; it is closed when the process ends."""
    grader = LessonGrader(lesson, seed, gpu)
    atexit.register(grader.close)
    return grader
