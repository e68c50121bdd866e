"""Examining on an existing Dask cluster: the same work as on this machine, behind the same interface.

Nothing else imports `distributed`, and this only when a scheduler was named.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from autograde import remote
from autograde.enclosure import Enclosure
from autograde.journal import verdicts
from autograde.preflight import RefusedError
from autograde.settings import Limits
from autograde.submission import Submission
from autograde.verdict import Verdict, deadly
from torchcourse.exercise import imports

__all__ = ["Cluster", "ClusterError"]

CONNECT_SECONDS = 20.0
ANSWER_SECONDS = 300.0
"""Until every worker has said whether it can grade: it imports torch for that."""
TRIES = 4
"""How often a submission is handed out among others before it is suspected."""


class ClusterError(RefusedError):
    """The cluster cannot be used, or no longer; the message says why, in one line, and what helps."""


@dataclass
class _Task:
    """A submission on its way: what its caller waits for, and the try that is running."""

    submission: Submission
    promised: Future[list[Verdict]] = field(default_factory=Future)
    running: Any = None
    key: str = ""
    since: float = 0.0
    tries: int = 0


class Cluster:
    """The workers of a scheduler.

    `patience` is how many seconds a submission may be away before it is given to somebody else: its worker hangs, or
    is cut off, and nobody has noticed.

    Raises:
        ClusterError: when there is no scheduler, or its workers would not grade as this process does.
    """

    def __init__(
        self, address: str, lessons: Sequence[str], seed: int, limits: Limits, enclosure: Enclosure,
        patience: float = 0.0,
    ) -> None:  # fmt: skip
        if enclosure.trusted:
            raise ClusterError("--scheduler and --trust-submissions exclude each other: code that is not isolated "
                               "could talk to the scheduler.")  # fmt: skip
        modules = tuple(imports(*lessons))
        self.address = address
        self.order = remote.Order(seed, limits, enclosure, modules, remote.edition(lessons))
        # one may wait for another of the same worker, which first has to start
        self.patience = patience or 2 * limits.submission_seconds + limits.start_seconds
        self.client = _connected(address)
        self.closed = threading.Event()
        self.workers: dict[str, int] = {}
        self.suspects: set[str] = set()
        self.under_way: dict[int, _Task] = {}
        self.turn, self.one_suspect = threading.Lock(), threading.Lock()
        try:
            self._look_at_workers()
            self._count_workers()
        except BaseException:
            self.client.close()
            raise
        self.executor = self.client.get_executor(pure=False)
        threading.Thread(target=self._watch, daemon=True).start()

    def _look_at_workers(self) -> None:
        """Ask every worker whether it can grade this batch as it would be graded here.

        Raises:
            ClusterError: when one cannot, or there is none.
        """
        try:
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (TimeoutError, OSError):
            raise ClusterError(f"The scheduler at {self.address} has no workers: start some, "
                               f"`dask worker {self.address} --no-nanny --nthreads 1`.") from None  # fmt: skip
        for worker, unfit in self._asked().items():
            if isinstance(unfit, ImportError):
                raise ClusterError(f"The worker {worker} cannot import the grader ({unfit}): start it in a checkout "
                                   "of the course, with PYTHONPATH=. before its command.")  # fmt: skip
            if isinstance(unfit, Exception):
                raise ClusterError(f"The worker {worker} says {unfit}: see to it, or end it.")
            if unfit:
                raise ClusterError(f"The worker {worker} {unfit}")

    def _asked(self) -> dict[str, Any]:
        """What each worker says to whether it is unfit, or what it raised instead.

        Raises:
            ClusterError: when one says nothing.
        """
        said: SimpleQueue[dict[str, Any]] = SimpleQueue()

        def ask() -> None:
            with contextlib.suppress(Exception):  # the client was closed in the meantime
                said.put(self.client.run(remote.unfit, self.order, on_error="return"))

        threading.Thread(target=ask, daemon=True).start()
        try:
            return said.get(timeout=ANSWER_SECONDS)
        except Empty:
            raise ClusterError(f"Not every worker of {self.address} answers: end those that hang.") from None

    def breadth(self) -> int:
        return max(1, sum(self.workers.values()))

    def _count_workers(self) -> None:
        self.workers = dict(self.client.nthreads())

    def submit(self, submission: Submission) -> Future[list[Verdict]]:
        task = _Task(submission)
        self._hand_out(task)
        return task.promised

    def _hand_out(self, task: _Task) -> None:
        task.tries, task.since = task.tries + 1, time.monotonic()
        task.key = _new_key()
        self.under_way[id(task)] = task
        try:
            data = remote.packed(task.submission)
            task.running = self.executor.submit(remote.examine, data, self.order, key=task.key, **self._where())
        except Exception:  # the client has given up
            self._fail(task, self._gone())
        else:
            task.running.add_done_callback(lambda done: self._came(task, done))

    def _where(self) -> dict[str, list[str]]:
        """Which workers may have something, if not all."""
        others = [worker for worker in self.workers if worker not in self.suspects]
        return {"workers": others} if self.suspects and others else {}

    def _is_over(self, task: _Task, running: Any) -> bool:
        """End a try, in favour of what the caller does next; False where another thread has ended it before."""
        with self.turn:
            mine = running is not None and task.running is running
            task.running = None if mine else task.running
        return mine

    def _came(self, task: _Task, done: Future[bytes]) -> None:
        """A try has ended. One that was given up in favour of another says nothing any more."""
        from distributed import KilledWorker

        if self.closed.is_set() or not self._is_over(task, done):
            return
        try:
            found = _verdicts(task.submission, done.result())
        except remote.Unlike as error:
            self._fail(task, ClusterError(f"A worker came later that cannot be used: {error}. End it, or give it what "
                                          "the others have; the same command goes on."))  # fmt: skip
        except KilledWorker:  # the scheduler has tried it on several workers, and all have died
            self._suspect_it(task)
        except Exception as error:  # its worker got no sandbox, or it was cancelled on the way
            if task.tries < TRIES:
                self._hand_out(task)
            else:
                self._fail(task, _lost(f"{TRIES} times", error))
        else:
            self._keep(task, found)

    def _suspect_it(self, task: _Task) -> None:
        """Find out whether a submission itself is what kills workers or hangs them; not in this thread, which others
        wait for."""
        self.under_way.pop(id(task), None)
        threading.Thread(target=self._try_alone, args=(task,), daemon=True).start()

    def _try_alone(self, task: _Task) -> None:
        """Give a suspect to a worker once more, while no other suspect is examined: what dies beside one is innocent.

        Where it is lost again, although the cluster can examine an empty notebook, it gets a verdict for that.
        """
        from distributed import KilledWorker

        with self.one_suspect:
            try:
                try:
                    self._keep(task, _verdicts(task.submission, self._once(task.submission)))
                except (KilledWorker, TimeoutError):
                    self._once(Submission("", task.submission.lesson))
                    self._keep(task, deadly(task.submission))
            except Exception as error:  # then it is the cluster
                self._fail(task, _lost("again and again", error))

    def _once(self, submission: Submission) -> bytes:
        """What a worker says of a submission, which is examined before those that wait.

        Raises:
            TimeoutError: when it does not come back.
        """
        data = remote.packed(submission)
        running = self.client.submit(remote.examine, data, self.order, key=_new_key(), priority=1, **self._where())
        try:
            said: bytes = running.result(timeout=self.patience)
        except TimeoutError:
            with contextlib.suppress(Exception):
                self._suspect({running.key})
            running.cancel()
            raise
        return said

    def _gone(self) -> ClusterError:
        return ClusterError(f"The scheduler at {self.address} is gone. What was graded is kept: once it is back, the "
                            "same command goes on.")  # fmt: skip

    def _keep(self, task: _Task, found: list[Verdict]) -> None:
        self.under_way.pop(id(task), None)
        with contextlib.suppress(InvalidStateError):  # the scheduler was found to be gone in the meantime
            task.promised.set_result(found)

    def _fail(self, task: _Task, error: ClusterError) -> None:
        self.under_way.pop(id(task), None)
        with contextlib.suppress(InvalidStateError):  # it came in the meantime
            task.promised.set_exception(error)

    def _watch(self) -> None:
        """Give to somebody else what has been away for too long."""
        while not self.closed.wait(min(5.0, self.patience / 4)):
            if self.client.status == "closed":
                for task in list(self.under_way.values()):
                    self._fail(task, self._gone())
                continue
            with contextlib.suppress(Exception):  # else whoever waits for a submission hears that it is lost
                self._count_workers()
            turns = max(1.0, len(self.under_way) / (2 * self.breadth()))  # more wait for each if others have left
            oldest = time.monotonic() - turns * self.patience
            late = [task for task in list(self.under_way.values()) if task.since < oldest]
            if late:
                with contextlib.suppress(Exception):
                    self._suspect({task.key for task in late})
            for task in late:
                self._give_up(task)

    def _suspect(self, late: set[str]) -> None:
        """Give nothing more to the workers that have what is late, as long as there are others."""
        for worker, keys in self.client.processing().items():
            if not late.isdisjoint(map(str, keys)):
                self.suspects.add(worker)

    def _give_up(self, task: _Task) -> None:
        hanging = task.running
        if not self._is_over(task, hanging):  # it came in the meantime
            return
        if task.tries >= TRIES:
            self._suspect_it(task)
        else:
            self._hand_out(task)
        hanging.cancel()

    def close(self) -> None:
        self.closed.set()
        with contextlib.suppress(Exception):  # it may be gone, and nothing is wanted of it any more
            self.executor.shutdown(wait=False)
        with contextlib.suppress(Exception):
            self.client.close()


def _new_key() -> str:
    return f"examine-{uuid.uuid4().hex}"


def _verdicts(submission: Submission, data: bytes) -> list[Verdict]:
    return verdicts(json.loads(data), submission.student, submission.lesson)


def _lost(how_often: str, error: Exception) -> ClusterError:
    reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
    return ClusterError(f"A submission was lost {how_often} ({reason}). What was graded is kept: the same command "
                        "tries again.")  # fmt: skip


def _connected(address: str) -> Any:
    """A client of the scheduler at `address`.

    Raises:
        ClusterError: when there is none, or `distributed` is not installed.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ClusterError(f"--scheduler needs the module {error.name}: pip install distributed.") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters of it is said here, in one line
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:150]
        raise ClusterError(f"No scheduler answers at {address} ({reason}): is it running, is the port open, and does "
                           "the address begin with tcp:// or tls://?") from None  # fmt: skip
