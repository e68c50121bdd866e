"""A worker in bubblewrap, seen from outside: started, given jobs, stopped, and never believed.

No network, its own PID namespace, a read-only system with nothing of `solutions/` or `autograde/` in it but the worker
itself, a scratch folder in memory, process limits; a control group for its memory where one can be made, and inside
Landlock and a filter of system calls where the kernel has them. A grader that runs as root gives each worker a real
unprivileged uid, since process limits do nothing for root.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autograde.cgroup import MemoryGroup, make_group
from autograde.enclosure import WORKER, Enclosure, blocker, kernel
from autograde.holding import HoldingError, hold
from autograde.inside.needed import Example
from autograde.inside.worker import LENGTH, framed
from autograde.settings import LIMITS, Limits
from autograde.template import Template, available, fork, give_up
from torchcourse import codec
from torchcourse.observations import Value

__all__ = ["Enclosure", "Job", "LostError", "Sandbox", "SandboxError", "SlowError", "blocker", "patience", "read"]

SLACK = 1 << 16
"""How much more than the observations of a case a message may weigh."""


class SandboxError(RuntimeError):
    """The sandbox cannot be started on this machine; the message says why and what helps."""


class RefusedError(RuntimeError):
    """A worker that was forked elsewhere did not come into its sandbox; `for_good`: on this machine none will."""

    def __init__(self, reason: str, for_good: bool) -> None:
        super().__init__(reason)
        self.for_good = for_good


class LostError(RuntimeError):
    """The process at the other end is gone, or talks nonsense."""


class SlowError(RuntimeError):
    """No answer came in time."""


def patience(limits: Limits) -> float:
    """Seconds of wall time for each of CPU time, with as many processes about as there are now."""
    crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
    return max(limits.patience, min(crowd * limits.patience, limits.most_patience))


def read(data: bytes) -> dict[str, Any]:
    """What a message from a sandbox says.

    Raises:
        LostError: when it is no message.
    """
    try:
        value = codec.unpack(data)
    except codec.MalformedError as error:
        raise LostError(str(error)) from None
    if not isinstance(value, dict):
        raise LostError("a message that is no dict")
    return value


class Job:
    """One submission on one lane: a conversation with its runner."""

    def __init__(self, sock: socket.socket, sandbox: Sandbox, most_bytes: int, patience: float) -> None:
        """`patience` is that of the cells."""
        self.sock, self.sandbox, self.most_bytes, self.patience = sock, sandbox, most_bytes, patience
        self.outgrown, self.kills = False, sandbox.memory_kills()
        self.unread = bytearray()
        self.weight = 0
        """What the last message weighs."""

    def send(self, value: Value) -> None:
        """Send a value.

        Raises:
            LostError: when nobody listens any more.
        """
        self._send(codec.pack(value))

    def ask(self, cases: Sequence[bytes]) -> None:
        """Send packed inputs of cases that are answered one after another; each gets a reply.

        They go together, so that a process which ends, or becomes two, leaves none half read.

        Raises:
            LostError: when nobody listens any more.
        """
        self._send(codec.pack({"do": "cases"}), b"".join(map(framed, cases)))

    def _send(self, *messages: bytes) -> None:
        try:
            self.sock.settimeout(self.sandbox.limits.exercise_seconds)
            self.sock.sendall(b"".join(map(framed, messages)))
        except OSError as error:
            raise LostError(str(error)) from None

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next message, a dict; nothing in it is to be believed.

        Raises:
            LostError: when the runner is gone or what came is no message.
            SlowError: when none came in time.
        """
        return read(self.receive_packed(seconds))

    def receive_packed(self, seconds: float) -> bytes:
        """The next message as it came, for `read`.

        Raises:
            LostError: when the runner is gone or the message weighs too much.
            SlowError: when none came in time.
        """
        deadline = time.monotonic() + seconds
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size, deadline))
        if length > self.most_bytes + SLACK:
            raise LostError(f"a message of {length} bytes")
        data = self._exactly(length, deadline)
        self.weight = codec.weight(data)
        if self.weight > self.most_bytes + SLACK:
            raise LostError(f"a message that weighs {self.weight} bytes")
        return data

    def _exactly(self, count: int, deadline: float) -> bytes:
        while len(self.unread) < count:
            self._wait(deadline)
            try:
                piece = self.sock.recv(min(max(count - len(self.unread), 1 << 16), 1 << 20))
            except OSError as error:
                raise LostError(str(error)) from None
            if not piece:
                raise LostError(self._how_it_ended())
            self.unread += piece
        data = bytes(self.unread[:count])
        del self.unread[:count]
        return data

    def _wait(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        ready = select.select([self.sock, self.sandbox.control], [], [], max(0.0, left))[0]
        if self.sock in ready:
            return
        if ready:  # the supervisor speaks of its own accord only when the runner ended
            raise LostError(self._how_it_ended())
        raise SlowError

    def _how_it_ended(self) -> str:
        """What the supervisor says of the runner's end."""
        try:
            ended = str(self.sandbox.hear(self.sandbox.limits.grace_seconds).get("ended"))
        except (LostError, SlowError):
            ended = "gone"
        self.outgrown = self.outgrown or ended == "memory"
        return f"the runner ended: {ended}"

    def ran_out_of_memory(self) -> bool:
        """Whether processes of this job were ended, since last asked, because all together had too much memory."""
        kills = self.sandbox.memory_kills()
        outgrown, self.outgrown = self.outgrown or kills > self.kills, False
        self.kills = kills
        return outgrown


class Sandbox:
    """One worker. `number` tells workers of one grader apart; `modules` are imported before any submission comes."""

    def __init__(
        self,
        limits: Limits = LIMITS,
        number: int = 0,
        modules: Sequence[str] = (),
        enclosure: Enclosure = Enclosure(),  # noqa: B008 - it cannot change
    ) -> None:
        self.limits, self.number, self.modules, self.enclosure = limits, number, modules, enclosure
        self.process: subprocess.Popen[bytes] | None = None
        self.ended = False
        self.group: MemoryGroup | None = None
        self.parent: Template | None = None
        self.home = ""
        self.control: socket.socket
        self.layers: dict[str, bool] = {}
        """What the worker found in force, by layer; known once it is started."""

    def start(self) -> None:
        """Start the worker and wait until it is ready.

        Raises:
            SandboxError: when it does not come up, or is not wanted any more.
        """
        for again in (True, False) if available(self.enclosure) else ():
            try:
                return self._start(self._fork)
            except RefusedError as error:
                if error.for_good:
                    give_up(str(error))
                    break
                if not again:
                    raise SandboxError(f"the worker did not start: {error}") from None
        return self._start(self._load)

    def _start(self, begin: Callable[[socket.socket], None]) -> None:
        """Start the worker in one of two ways, and wait.

        Raises:
            RefusedError: when it could not be forked.
            SandboxError: as above.
        """
        self.close()
        if self.ended:
            raise SandboxError("grading was ended")
        self.parent = None
        self.control, theirs = socket.socketpair()
        self.home = self.enclosure.make_home(self.number)
        self.group = make_group(self.limits.memory_bytes, self.limits.processes + 8)  # bubblewrap and the supervisor
        try:
            with theirs:
                begin(theirs)
            said = self._first_words()
        except (HoldingError, OSError) as error:
            self.control.close()
            self.close()
            raise SandboxError(f"the worker did not start: {blocker() or error}") from None
        except (LostError, SlowError):
            said = {}
        if "layers" in said:
            self.layers = {"memory group": self.group is not None, **said["layers"]}
            return
        fault = self.close()[-1500:]
        if self.ended:
            raise SandboxError("grading was ended")
        if self.parent:
            raise RefusedError(str(said.get("failed") or self.parent.said()), bool(said.get("for good")))
        why = fault if self.enclosure.trusted else blocker() or fault
        raise SandboxError(f"the worker did not start: {why}")

    def _first_words(self) -> dict[str, Any]:
        """What the worker says once it is ready, or why it cannot be.

        Raises:
            LostError: when nothing of that will come, also because grading was ended meanwhile.
            SlowError: when nothing came in time.
        """
        deadline = time.monotonic() + self.limits.start_seconds
        while not select.select([self.control], [], [], 0.1)[0]:
            if self.ended or self.process is None or self.process.poll() is not None:
                raise LostError("it was ended")
            if time.monotonic() > deadline:
                raise SlowError
        return self.hear(self.limits.start_seconds)

    def _load(self, theirs: socket.socket) -> None:
        """Start a worker that loads everything itself."""
        told = json.dumps({**self._told(), "modules": list(self.modules)})
        worker = [sys.executable, "-W", "ignore", str(WORKER), str(theirs.fileno()), told]
        shut_in = self.enclosure.command(self.number, self.home, self.limits.scratch_bytes)
        self.process = subprocess.Popen(
            self._grouped([*shut_in, *worker]),
            env=self.enclosure.environment(self.home),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _fork(self, theirs: socket.socket) -> None:
        """Make a sandbox and have a worker forked into it.

        Raises:
            HoldingError: when there is no sandbox.
        """
        self.process, pid = hold(
            lambda told: self._grouped(self.enclosure.holding(self.number, self.limits.scratch_bytes, told)),
            self.enclosure.environment(self.home), self.limits.start_seconds,
        )  # fmt: skip
        group = str(self.group.folder) if self.group else ""
        self.parent = fork(self.modules, theirs, pid, self.enclosure.uid(self.number), group, self._told())

    def _grouped(self, command: list[str]) -> list[str]:
        """A command that is run in this worker's control group, if there is one."""
        return self.group.joining(command) if self.group else command

    def _told(self) -> dict[str, Any]:
        """What the worker has to know; the supervisor watches memory only if it must."""
        return {**self.enclosure.settings(self.home), "memory_bytes": 0 if self.group else self.limits.memory_bytes}

    def memory_kills(self) -> int:
        """How often the kernel ended a process of this worker because the memory of all was used up."""
        return self.group.kills() if self.group else 0

    def hear(self, seconds: float) -> dict[str, Any]:
        """The supervisor's next message.

        Raises:
            LostError: when it is gone.
            SlowError: when it says nothing in time.
        """
        self.control.settimeout(seconds)
        try:
            head = self._control_exactly(LENGTH.size)
            message: dict[str, Any] = json.loads(self._control_exactly(LENGTH.unpack(head)[0]))
        except TimeoutError:
            raise SlowError from None
        except (OSError, ValueError) as error:
            raise LostError(str(error)) from None
        return message

    def _control_exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.control.recv(min(count - len(data), 1 << 16))
            if not piece:
                raise LostError("the supervisor is gone")
            data += piece
        return data

    @contextlib.contextmanager
    def job(
        self, lane: str, cells: list[str], skip: list[int], shown: Sequence[Example | None] = ()
    ) -> Iterator[Job]:
        """A job that runs `cells` on `lane`, but for those at the places `skip`; nothing of it outlives the block.

        With `shown`, which says for each cell what is known of it if it is an example, the job first says which of them
        it skips as well, since nothing needs them.

        Raises:
            LostError: when the worker is lost as the job begins.
            SandboxError: when a worker that is gone cannot be started again.
        """
        job = self._begin(lane, skip)
        try:
            job.send({"cells": list(cells), "shown": [known and known.packed() for known in shown]})
            yield job
        finally:
            self._stop(job)

    def _begin(self, lane: str, skip: list[int]) -> Job:
        if self.process is None or self.process.poll() is not None:
            self.start()
        ours, theirs = socket.socketpair()
        limits = self.limits
        times = patience(limits)
        order = {
            "do": "start", "lane": lane, "skip": skip, "cell_seconds": limits.cell_seconds,
            "patience": times, "limits": self._rlimits(),
        }  # fmt: skip
        with theirs, contextlib.ExitStack() as unless_begun:
            unless_begun.callback(ours.close)
            try:
                self._order(order, theirs)
            except LostError:
                self.start()
                self._order(order, theirs)
            unless_begun.pop_all()
        return Job(ours, self, limits.reply_bytes, times)

    def _order(self, order: dict[str, Any], theirs: socket.socket) -> None:
        """Have the supervisor start a runner, which gets the other end of a job's socket.

        Raises:
            LostError: when it is gone.
        """
        try:
            socket.send_fds(self.control, [json.dumps(order).encode()], [theirs.fileno()])
        except OSError as error:
            raise LostError(str(error)) from None

    def _rlimits(self) -> dict[str, int]:
        limits = self.limits
        return {
            "DATA": limits.data_bytes, "FSIZE": limits.file_bytes, "NPROC": self._processes(), "CORE": 0,
            "CPU": limits.cpu_seconds, "NOFILE": limits.open_files,
        }  # fmt: skip

    def _processes(self) -> int:
        """The limit counts every process and thread of a uid, so an ordinary user's own come on top; but not where the
        sandbox has a user namespace, for which newer kernels count apart."""
        if os.geteuid() == 0 or (not self.enclosure.trusted and kernel() >= (5, 14)):
            return self.limits.processes
        mine = [p for p in Path("/proc").iterdir() if p.name.isdigit() and _owner(p) == os.getuid()]
        threads = sum(len(list((p / "task").iterdir())) for p in mine if (p / "task").is_dir())
        return threads + self.limits.processes

    def _stop(self, job: Job) -> None:
        job.sock.close()
        try:
            self.control.sendall(b'{"do": "stop"}')
            while True:
                message = self.hear(self.limits.grace_seconds + 27)  # emptying folders takes a while on a busy machine
                if "stopped" in message:
                    break
            if not message["stopped"]:
                self.close()
        except (LostError, SlowError, OSError):
            self.close()

    def end(self) -> None:
        """From any thread: kill the worker, and let none be started again. Who uses it gets a SandboxError."""
        self.ended = True
        process = self.process
        if process is not None:
            process.kill()

    def close(self) -> str:
        """End the worker; its PID namespace dies with it, or, without one, it ends what it started. Its last words."""
        stderr = b""
        if self.process is not None:
            self.control.close()
            if self.enclosure.trusted:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(self.limits.grace_seconds)
            self.process.kill()
            stderr = self.process.communicate()[1]
            self.process = None
            self.enclosure.remove_home(self.home)
        if self.group is not None:
            self.group.remove()
            self.group = None
        return stderr.decode(errors="replace")


def _owner(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return -1
