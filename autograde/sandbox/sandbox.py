"""Start, use and stop a worker in a sandbox of its own. Nothing that a worker sends is trusted.

A worker is a fork of the template process that has entered the namespaces of a sandbox made by bubblewrap: no network,
its own processes, a read-only system with nothing of `solutions/` or `autograde/` but `inside/`, and scratch folders
in memory. Resource limits, Landlock and a filter of system calls are added inside, and a control group for all its
memory where one can be made. Under root each worker gets an unprivileged user id, since the limits on the number of
processes do not apply to root.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autograde.sandbox.configuration import RANKS, Isolation, kernel
from autograde.sandbox.control_group import MemoryGroup, make_group
from autograde.sandbox.job import Control, Job, LostError, SlowError, wall_clock_factor
from autograde.sandbox.namespaces import NamespacesError, release, start_pause_process
from autograde.sandbox.requirements import isolation_problem, trusted_run_problem
from autograde.sandbox.template import Template, template
from autograde.settings import LIMITS, Limits

__all__ = ["NO_VERDICT", "Sandbox", "SandboxError"]

NO_VERDICT = ("No learner is marked down for this. Run `torchcourse doctor` to find the cause; once it is fixed, run "
              "the same command again.")  # fmt: skip
"""What follows from a fault of the grader's own, and the remedy."""


class SandboxError(RuntimeError):
    """A sandbox cannot be started on this machine; the message gives the reason and the remedy."""


class Sandbox:
    """One worker at a time: a new one, in new namespaces, for each job. Trusted submissions share one until it is lost.

    Args:
        number: a number that no other worker of this machine has.
        modules: imported before any submission is run.
    """

    def __init__(
        self,
        limits: Limits = LIMITS,
        number: int = 0,
        modules: Sequence[str] = (),
        isolation: Isolation = Isolation(),  # noqa: B008 - it is immutable
    ) -> None:
        self.limits, self.number, self.modules, self.isolation = limits, number, modules, isolation
        self.is_open = self.has_ended = False
        self.process: subprocess.Popen[bytes] | None = None
        """bubblewrap, whose end ends everything in the sandbox; None where submissions are trusted."""
        self.supervisor = 0
        """The supervisor's process id in its own PID namespace."""
        self.group: MemoryGroup | None = None
        self.template: Template | None = None
        self.home = ""
        self.control: Control

    def start(self) -> None:
        """Start the worker and wait until it is ready.

        Raises:
            SandboxError: when it does not start, or grading has ended in the meantime.
        """
        reason = ""
        for _ in range(2):  # once more: the template may have been killed, or the machine been out of processes
            self.close()
            reason = "" if self.has_ended else self._try_to_start()
            if self.has_ended:
                self.close()
                raise SandboxError("grading was ended")
            if not reason:
                return
        raise SandboxError(f"the worker did not start: {self._blocker() or reason}")

    def _blocker(self) -> str:
        return trusted_run_problem() if self.isolation.trusted else isolation_problem()

    def _try_to_start(self) -> str:
        """Start the worker and wait until it is ready; return why it did not start, or "".

        Raises:
            SandboxError: when no sandbox can be made.
        """
        ours, child_end = socket.socketpair()
        self.control, self.is_open = Control(ours), True
        self.home = self.isolation.make_home(self.number)
        self.group = make_group(self.limits.memory_bytes, self.limits.processes + 8)  # bubblewrap and the supervisor
        try:
            with child_end:
                self._fork(child_end)
            message = self._first_message()
        except (NamespacesError, OSError) as error:
            self.close()
            raise SandboxError(f"the worker did not start: {self._blocker() or error}") from None
        except (LostError, SlowError):
            message = {}
        if "ready" in message:
            self.supervisor = message["ready"]
            return ""
        reason = str(message.get("failed") or (self.template and self.template.stderr()) or "")
        stderr = self.close()[-1500:]
        return reason or stderr or "it ended without giving a reason"

    def _fork(self, child_end: socket.socket) -> None:
        """Have the template fork a worker, into a sandbox unless submissions are trusted.

        Raises:
            NamespacesError: when no sandbox can be made.
        """
        pid = 0
        if not self.isolation.trusted:
            self.process, pid = start_pause_process(self.limits.start_seconds, self._pause_command)
        configuration = {
            **self.isolation.worker_configuration(self.home, RANKS in self.modules),
            "memory_bytes": 0 if self.group else self.limits.watched_bytes,  # the supervisor watches only if it must
        }
        group = str(self.group.folder) if self.group else ""
        uid = self.isolation.uid(self.number)
        self.template = template(self.isolation.trusted)
        self.template.fork(self.modules, child_end, pid, uid, group, configuration)

    def _pause_command(self, info_descriptor: int) -> list[str]:
        command = self.isolation.pause_command(self.number, self.limits.scratch_bytes, info_descriptor)
        return self.group.inside(command) if self.group else command

    def _first_message(self) -> dict[str, Any]:
        """Return the worker's first message: that it is ready, or why it failed.

        Raises:
            LostError: when no message will come, because the worker or grading has ended.
            SlowError: when none came in time.
        """
        deadline = time.monotonic() + self.limits.start_seconds
        while not select.select([self.control.sock], [], [], 0.1)[0]:
            if self.has_ended or (self.process is not None and self.process.poll() is not None):
                raise LostError("it was ended")
            if time.monotonic() > deadline:
                raise SlowError
        return self.control.receive(self.limits.start_seconds)

    def memory_kills(self) -> int:
        """Return how many processes of this worker the kernel has killed for lack of memory."""
        return self.group.kills() if self.group else 0

    @contextlib.contextmanager
    def job(self, device: str, cells: Sequence[str], skip: list[int]) -> Iterator[Job]:
        """Yield a job that runs `cells` on `device`, but those numbered in `skip`; all it started ends with the block.

        Raises:
            LostError, SlowError: when the worker is lost or hangs as the job begins.
            SandboxError: when the worker is gone and cannot be started again, or the job cannot be set up.
        """
        job = self._begin(device, skip)
        try:
            job.send({"cells": list(cells)})
            fault = job.receive(self.limits.start_seconds).get("fault")  # no cell has run yet, so it can be trusted
            if fault:
                raise SandboxError(f"The sandbox does not work on this machine ({fault}). {NO_VERDICT}")
            yield job
        finally:
            self._stop(job)

    def _begin(self, device: str, skip: list[int]) -> Job:
        if not self.is_open or (self.process is not None and self.process.poll() is not None):
            self.start()
        ours, child_end = socket.socketpair()
        limits = self.limits
        factor = wall_clock_factor(limits)
        order = {
            "do": "start", "device": device, "skip": skip, "cell_seconds": limits.cell_seconds,
            "wall_clock_factor": factor, "limits": self._resource_limits(),
        }  # fmt: skip
        with child_end, contextlib.ExitStack() as on_failure:
            on_failure.callback(ours.close)
            try:
                self.control.send(order, [child_end.fileno()])
            except LostError:
                self.start()
                self.control.send(order, [child_end.fileno()])
            on_failure.pop_all()
        return Job(ours, self.control, limits, self.memory_kills, factor)

    def _resource_limits(self) -> dict[str, int]:
        limits = self.limits
        return {
            "DATA": limits.data_bytes, "FSIZE": limits.file_bytes, "NPROC": self._max_processes(), "CORE": 0,
            "CPU": limits.cpu_seconds, "NOFILE": limits.open_files,
        }  # fmt: skip

    def _max_processes(self) -> int:
        """Return the limit on processes and threads of the worker's user.

        For an ordinary user it also counts those outside the sandbox, unless the sandbox has a user namespace and the
        kernel counts for each namespace (Linux 5.14).
        """
        if os.geteuid() == 0 or (not self.isolation.trusted and kernel() >= (5, 14)):
            return self.limits.processes
        own = [p for p in Path("/proc").iterdir() if p.name.isdigit() and _owner(p) == os.getuid()]
        threads = sum(len(list((p / "task").iterdir())) for p in own if (p / "task").is_dir())
        return threads + self.limits.processes

    def _stop(self, job: Job) -> None:
        """End all that a job started: its sandbox, or what runs in it where there are no namespaces.

        Nothing outlives the namespaces: no process, no socket in TIME_WAIT, no inode number.
        """
        job.sock.close()
        if not self.isolation.trusted:
            self.close()
            return
        try:
            self.control.send({"do": "stop"})
            message: dict[str, Any] = {}
            while "stopped" not in message:  # emptying folders takes a while on a busy machine
                message = self.control.receive(self.limits.grace_seconds + 27)
            if not message["stopped"]:
                self.close()
        except (LostError, SlowError):
            self.close()

    def end(self) -> None:
        """Kill the worker, from any thread, for good: a job that needs it raises a SandboxError."""
        self.has_ended = True
        process = self.process
        if process is not None:
            process.kill()
        elif self.is_open:
            with contextlib.suppress(OSError):
                self.control.sock.shutdown(socket.SHUT_WR)

    def close(self) -> str:
        """End the worker with all that it started; return what bubblewrap wrote to standard error."""
        if not self.is_open:
            return ""
        self.is_open = False
        if self.isolation.trusted:
            self._end_supervisor()
        self.control.sock.close()
        stderr = release(self.process) if self.process is not None else ""
        self.process, self.supervisor = None, 0
        self.isolation.remove_home(self.home)
        if self.group is not None:
            self.group.remove()
            self.group = None
        return stderr

    def _end_supervisor(self) -> None:
        """Wait until the supervisor has ended what it started, and itself: without namespaces nothing else does."""
        control = self.control.sock
        try:
            control.shutdown(socket.SHUT_WR)
            control.settimeout(self.limits.grace_seconds)
            while control.recv(1 << 16):
                pass
        except TimeoutError:
            if self.supervisor:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.supervisor, signal.SIGKILL)
        except OSError:
            return  # it is gone


def _owner(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return -1
