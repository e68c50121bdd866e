"""Grade on an existing Dask cluster, behind the same interface as on this machine.

This is the only module that imports `distributed`, and only when a scheduler was named.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from autograde.batch import cluster_worker
from autograde.batch.journal import from_rows
from autograde.errors import RefusedError
from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict, verdicts_after_crashes
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.sandbox import SandboxError
from autograde.settings import Limits
from torchcourse.model.catalogue import imports

__all__ = ["Cluster", "ClusterError"]

CONNECT_SECONDS = 20.0
ANSWER_SECONDS = 300.0
"""Wall time until every worker has answered whether it can grade, for which it imports torch."""
AS_DOCUMENTED = "with PYTHONPATH set to a checkout of the course (docs/cluster.md)"
IMPORTING = re.compile(r"No module named '[\w.]+'|cannot import name '\w+'")
MAX_REASON_LENGTH = 300
TRIES = 4
"""How often a submission is handed out along with others before it is run alone."""


class ClusterError(RefusedError):
    """The cluster cannot be used (any longer); the message gives the reason and the remedy in one line."""


@dataclass
class _Task:
    """A submission that was handed out.

    Attributes:
        result: what the caller waits for.
        running: the future of the current try; None when none is running.
        key: the key of that try on the cluster.
        since: when that try began, by the monotonic clock.
        tries: the number of tries so far.
    """

    submission: Submission
    result: Future[list[Verdict]] = field(default_factory=Future)
    running: Any = None
    key: str = ""
    since: float = 0.0
    tries: int = 0


class Cluster:
    """A worker pool of the workers of a Dask scheduler."""

    def __init__(
        self, address: str, lessons: Sequence[str], seed: int, limits: Limits, isolation: Isolation,
        timeout: float = 0.0,
    ) -> None:  # fmt: skip
        """Connect to the scheduler at `address`, and ask its workers whether they can grade these lessons.

        Args:
            timeout: seconds after which a submission is given to another worker, since its own may hang or be cut off;
                by default long enough for any submission.

        Raises:
            ClusterError: when there is no scheduler, or its workers would not grade as this process does.
        """
        if isolation.trusted:
            raise ClusterError("--scheduler and --trust-submissions exclude each other: code that is not isolated "
                               "could talk to the scheduler.")  # fmt: skip
        modules = tuple(imports(*lessons))
        self.address = address
        self.batch = cluster_worker.BatchSettings(seed, limits, isolation, modules, cluster_worker.versions(lessons))
        # twice: it may wait for another one on its worker, which may have to start first
        self.timeout = timeout or 2 * limits.submission_seconds + limits.start_seconds
        self.client = _connected(address)
        self.closed = threading.Event()
        self.workers: dict[str, int] = {}
        self.suspects: set[str] = set()
        self.tasks: dict[int, _Task] = {}
        self.end_lock, self.suspect_lock = threading.Lock(), threading.Lock()
        try:
            self._check_scheduler()
            self._check_workers()
            self._count_workers()
        except BaseException:
            self.client.close()
            raise
        self.executor = self.client.get_executor(pure=False)
        threading.Thread(target=self._watch, daemon=True).start()

    def _check_scheduler(self) -> None:
        """Check that the scheduler can unpack what it is to hand out.

        Raises:
            ClusterError: when it cannot.
        """
        try:
            self.client.run_on_scheduler(cluster_worker.answer)
        except Exception as error:
            raise ClusterError(f"The scheduler at {self.address} cannot import the grader ({_reason(error)}): start it "
                               f"{AS_DOCUMENTED}.") from None  # fmt: skip

    def _check_workers(self) -> None:
        """Ask every worker whether it can grade this batch as it would be graded here.

        Raises:
            ClusterError: when one cannot, or there is none.
        """
        try:
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (TimeoutError, OSError):
            raise ClusterError(f"The scheduler at {self.address} has no workers: start some, "
                               f"`dask worker {self.address} --no-nanny --nthreads 1`.") from None  # fmt: skip
        for worker, answer in self._ask_workers().items():
            if isinstance(answer, ImportError) or (isinstance(answer, Exception) and IMPORTING.search(str(answer))):
                raise ClusterError(f"The worker {worker} cannot import the grader ({_reason(answer)}): start it "
                                   f"{AS_DOCUMENTED}.")  # fmt: skip
            if isinstance(answer, Exception):
                raise ClusterError(f"The worker {worker} says {_reason(answer)}: see to it, or end it.")
            if answer:
                raise ClusterError(f"The worker {worker} {answer}")

    def _ask_workers(self) -> dict[str, Any]:
        """Return why each worker cannot grade the batch ("" where it can), or what it raised instead.

        Raises:
            ClusterError: when one does not answer.
        """
        answers: SimpleQueue[dict[str, Any]] = SimpleQueue()

        def ask() -> None:
            with contextlib.suppress(Exception):  # the client was closed in the meantime
                answers.put(self.client.run(cluster_worker.incompatibility, self.batch, on_error="return"))

        threading.Thread(target=ask, daemon=True).start()
        try:
            return answers.get(timeout=ANSWER_SECONDS)
        except Empty:
            raise ClusterError(f"Not every worker of {self.address} answers: end those that hang.") from None

    def capacity(self) -> int:
        """Return the number of threads of all workers."""
        return max(1, sum(self.workers.values()))

    def _count_workers(self) -> None:
        self.workers = dict(self.client.nthreads())

    # --- a submission, and what becomes of it ---------------------------------------------------------------------

    def submit(self, submission: Submission) -> Future[list[Verdict]]:
        """Have a submission graded by any worker; return a future of its verdicts."""
        task = _Task(submission)
        self._hand_out(task)
        return task.result

    def _hand_out(self, task: _Task) -> None:
        task.tries, task.since = task.tries + 1, time.monotonic()
        task.key = _new_key()
        self.tasks[id(task)] = task
        try:
            data = cluster_worker.pack(task.submission)
            task.running = self.executor.submit(cluster_worker.grade, data, self.batch, key=task.key, **self._allowed())
        except Exception:  # the client has given up
            self._fail(task, self._gone())
        else:
            task.running.add_done_callback(lambda done: self._handle_end_of_try(task, done))

    def _allowed(self) -> dict[str, list[str]]:
        """Return the keyword argument of `submit` that avoids suspected workers, if there are others."""
        others = [worker for worker in self.workers if worker not in self.suspects]
        return {"workers": others} if self.suspects and others else {}

    def _handle_end_of_try(self, task: _Task, done: Future[bytes]) -> None:
        """Handle the end of a try: finish the task or try again; ignore a try that was given up before."""
        from distributed import KilledWorker

        if self.closed.is_set() or not self._end_try(task, done):
            return
        try:
            found = _verdicts(task.submission, done.result())
        except cluster_worker.IncompatibleError as error:
            self._fail(task, ClusterError(f"A worker that joined later cannot be used: {error}. Stop it, or install "
                                          "what the others have, then run the same command again."))  # fmt: skip
        except KilledWorker:  # the scheduler has tried it on several workers, and all have died
            self._suspect_submission(task)
        except Exception as error:  # its worker could start no sandbox, or the try was cancelled
            if task.tries < TRIES:
                self._hand_out(task)
            else:
                self._fail(task, _lost(f"{TRIES} times", error))
        else:
            self._finish(task, found)

    def _end_try(self, task: _Task, running: Any) -> bool:
        """Mark a try as ended; return False if another thread has done so, which then decides what happens next."""
        with self.end_lock:
            is_first = running is not None and task.running is running
            task.running = None if is_first else task.running
        return is_first

    def _finish(self, task: _Task, found: list[Verdict]) -> None:
        self.tasks.pop(id(task), None)
        with contextlib.suppress(InvalidStateError):  # the scheduler was found to be gone in the meantime
            task.result.set_result(found)

    def _fail(self, task: _Task, error: ClusterError) -> None:
        self.tasks.pop(id(task), None)
        with contextlib.suppress(InvalidStateError):  # it was finished in the meantime
            task.result.set_exception(error)

    def _gone(self) -> ClusterError:
        return ClusterError(f"The scheduler at {self.address} is gone. Everything graded so far is kept: once it is "
                            "back, run the same command again.")  # fmt: skip

    # --- submissions that may kill or hang workers ----------------------------------------------------------------

    def _suspect_submission(self, task: _Task) -> None:
        """Find out, in a thread of its own, whether a submission itself is what kills workers or hangs them."""
        self.tasks.pop(id(task), None)
        threading.Thread(target=self._try_alone, args=(task,), daemon=True).start()

    def _try_alone(self, task: _Task) -> None:
        """Run a suspected submission once more, while no other suspect runs that could be the cause.

        If it is lost again although the cluster can grade an empty notebook, its verdicts say so.
        """
        from distributed import KilledWorker

        with self.suspect_lock:
            try:
                try:
                    self._finish(task, _verdicts(task.submission, self._grade_next(task.submission)))
                except (KilledWorker, TimeoutError):
                    self._grade_next(Submission("", task.submission.release))
                    self._finish(task, verdicts_after_crashes(task.submission))
            except Exception as error:  # then the cluster is the cause
                self._fail(task, _lost("again and again", error))

    def _grade_next(self, submission: Submission) -> bytes:
        """Have a submission graded before those that wait; return its packed verdicts.

        Raises:
            TimeoutError: when it does not come back within `self.timeout`.
        """
        data = cluster_worker.pack(submission)
        where = self._allowed()
        running = self.client.submit(cluster_worker.grade, data, self.batch, key=_new_key(), priority=1, **where)
        try:
            found: bytes = running.result(timeout=self.timeout)
        except TimeoutError:
            with contextlib.suppress(Exception):
                self._suspect_workers({running.key})
            running.cancel()
            raise
        return found

    # --- submissions that do not come back ------------------------------------------------------------------------

    def _watch(self) -> None:
        """Give submissions that have been away for too long to another worker."""
        while not self.closed.wait(min(5.0, self.timeout / 4)):
            if self.client.status == "closed":
                for task in list(self.tasks.values()):
                    self._fail(task, self._gone())
                continue
            with contextlib.suppress(Exception):  # an error here would end the watching
                self._count_workers()
            turns = max(1.0, len(self.tasks) / (2 * self.capacity()))  # longer queues if workers have left
            oldest = time.monotonic() - turns * self.timeout
            late = [task for task in list(self.tasks.values()) if task.since < oldest]
            if late:
                with contextlib.suppress(Exception):
                    self._suspect_workers({task.key for task in late})
            for task in late:
                self._give_up_try(task)

    def _suspect_workers(self, late: set[str]) -> None:
        """Suspect the workers that run the tries with these keys: they get no more submissions if there are others."""
        for worker, keys in self.client.processing().items():
            if not late.isdisjoint(map(str, keys)):
                self.suspects.add(worker)

    def _give_up_try(self, task: _Task) -> None:
        hanging = task.running
        if not self._end_try(task, hanging):  # it has ended in the meantime
            return
        if task.tries >= TRIES:
            self._suspect_submission(task)
        else:
            self._hand_out(task)
        hanging.cancel()

    def close(self) -> None:
        """Give up what is running, and leave the cluster."""
        self.closed.set()
        with contextlib.suppress(Exception):  # it may be gone, and nothing more is wanted of it
            self.executor.shutdown(wait=False)
        with contextlib.suppress(Exception):
            self.client.close()


def _new_key() -> str:
    return f"grade-{uuid.uuid4().hex}"


def _verdicts(submission: Submission, data: bytes) -> list[Verdict]:
    return from_rows(json.loads(data), submission.student, submission.lesson)


def _lost(how_often: str, error: Exception) -> ClusterError:
    if isinstance(error, SandboxError):  # which says why, in full, and what to do
        return ClusterError(f"{error} Everything graded so far is kept.")
    return ClusterError(f"A submission was lost {how_often} ({_reason(error)}). Everything graded so far is kept; "
                        "run the same command to try again.")  # fmt: skip


def _reason(error: Exception) -> str:
    """Return the first sentence of an error, or what could not be imported."""
    text = " ".join(str(error).split())
    if found := IMPORTING.search(text):
        return found[0]
    sentence = re.split(r"(?<=[.!?:]) ", text, maxsplit=1)[0].rstrip(".:")
    shortened = f"{sentence[:MAX_REASON_LENGTH]}…" if len(sentence) > MAX_REASON_LENGTH else sentence
    return shortened or type(error).__name__


def _connected(address: str) -> Any:
    """Return a client of the scheduler at `address`.

    Raises:
        ClusterError: when there is none, or `distributed` is not installed.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ClusterError(f"--scheduler needs the module {error.name}: pip install distributed.") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are reported here, in one line
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"No scheduler answers at {address} ({_reason(error)}): is it running, is the port open, "
                           "and does the address begin with tcp:// or tls://?") from None  # fmt: skip
