"""Probe exercises: answer the cases of one exercise after another, on the CPU in a fork of the runner."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from . import memory
from .apart import unshare_memory
from .framing import framed, receive, send, unframed
from .limits import cpu_time_limit

__all__ = ["Prober", "probe_apart", "probe_exercise", "replace_thread_pool"]

BEGINS, STAYS, LEAVES = b"b", b"s", b"l"
"""What a prober sends to the runner for each exercise: that it begins, then whether it stays for another one."""
OUT_OF_TIME = 124
"""The exit status of a prober that ran out of time."""
FAULT = 70
"""The exit status of a prober that an exception ended: 0 would say that it is done."""
TOTAL_CPU_FACTOR = 2
"""All processes of an exercise together may use this multiple of its CPU limit, since each worker and rank has its own
start-up cost."""
MAX_UNSENT = 1 << 15
"""Bytes of replies that may wait for further replies to the same request."""
MAX_CPU_SECONDS, MAX_MEMORY_GROWTH = 60.0, 256 << 20
"""CPU seconds and bytes after which a prober is replaced, since resource limits count from its start.

Both are so large that the verdict on an honest notebook does not depend on the speed of the machine."""


class Prober:
    """A fork of the runner that probes exercises, one after another, until it ends or is killed."""

    def __init__(self, job: socket.socket, shell: Any, device: Any) -> None:
        self.line, child_end = socket.socketpair()
        self.status: int | None = None
        self.pid = os.fork()
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)  # a group to kill; set in both processes, whichever is first
        if self.pid == 0:
            status = FAULT
            try:
                self.line.close()
                replace_thread_pool()
                _serve(child_end, job, shell, device)
                status = 0
            finally:
                os._exit(status)
        child_end.close()

    def probe(self, request: dict[str, Any]) -> tuple[str, bool]:
        """Have one exercise probed; return how that ended ("" if it did not begin), and whether the prober stays."""
        from torchcourse.model import codec

        deadline = time.monotonic() + request["wall_clock_factor"] * request["seconds"]
        max_spent = self._cpu_seconds() + request["seconds"] + 1  # by then it should have stopped by itself
        with contextlib.suppress(OSError):  # it has ended, which the loop below finds out
            send(self.line, codec.pack(request))
        began, everything = False, memory.CpuTime()
        while True:
            while not select.select([self.line], [], [], 0.02)[0] and not self.has_ended():
                together = everything.seconds() > TOTAL_CPU_FACTOR * request["seconds"] + 1
                if together or time.monotonic() > deadline or self._cpu_seconds() > max_spent:
                    self.end()
                    return "timeout", False
            status = self._next_byte()
            if status != BEGINS or began:
                break
            began = True
        if status == STAYS:
            return "done", True
        ending = self.end()
        return "done" if status == LEAVES else ending if began else "", False

    def _next_byte(self) -> bytes:
        with contextlib.suppress(OSError):
            return self.line.recv(1, socket.MSG_DONTWAIT)
        return b""

    def _cpu_seconds(self) -> float:
        with contextlib.suppress(OSError):
            return time.clock_gettime((~self.pid << 3) | 2)  # the clock of a process: clock_getcpuclockid(3)
        return 0.0

    def has_ended(self) -> bool:
        """Return whether the process has ended, and reap it if so."""
        if self.status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if done else None
        return self.status is not None

    def end(self) -> str:
        """Kill the process and what it started, unless it ends by itself within 0.1 s; return how it ended."""
        for _ in range(100):
            if self.has_ended():
                break
            time.sleep(0.001)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)  # it may have left its group
            self.status = os.waitpid(self.pid, 0)[1]
        self.line.close()
        code = os.waitstatus_to_exitcode(self.status)
        return {0: "done", OUT_OF_TIME: "timeout", -signal.SIGXCPU: "timeout"}.get(code, f"exit {code}")


def replace_thread_pool() -> None:
    """Have torch replace its thread pool, which a fork does not inherit, while this process has only one thread.

    The first thread that needs the pool after a fork replaces it. A second one that needs it meanwhile crashes the
    process, and autograd's threads, one for each device, all begin by asking for it.
    """
    import torch

    torch.set_num_threads(torch.get_num_threads())


def probe_apart(job: socket.socket, shell: Any, request: dict[str, Any], device: Any, idle: list[Prober]) -> str:
    """Probe one exercise in another process, and return how that ended.

    The prober in `idle` is used again and again, as a fork takes longer than most exercises. So an answer finds what
    earlier ones left, as in a notebook and on the other device.
    """
    while True:
        fresh = not idle
        prober = Prober(job, shell, device) if fresh else idle.pop()
        ending, stays = prober.probe(request)
        if stays:
            idle.append(prober)
        if ending or fresh:  # otherwise an idle one had ended, because of what an earlier exercise left
            return ending or "exit"


def _serve(line: socket.socket, job: socket.socket, shell: Any, device: Any) -> None:
    """Probe what the runner asks for: until the last request, a limit is reached, or an exercise leaves something."""
    from torchcourse.model import codec

    memory_before = memory.private(os.getpid())
    while True:
        request = codec.unpack(receive(line))
        line.sendall(BEGINS)
        probe_exercise(job, shell, request, device)
        growth = memory.private(os.getpid()) - memory_before
        is_used_up = time.process_time() > MAX_CPU_SECONDS or growth > MAX_MEMORY_GROWTH
        stays = not (is_used_up or _has_leftovers())
        line.sendall(STAYS if stays else LEAVES)
        if not stays:
            return


def _has_leftovers() -> bool:
    """Return whether this process has children, more than one thread, or a timer that is set."""
    if len(os.listdir("/proc/self/task")) > 1:
        return True
    if any(signal.getitimer(which)[0] for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)):
        return True
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # reaping one does no harm: this process ends anyway
        return True
    return False


def probe_exercise(job: socket.socket, shell: Any, request: dict[str, Any], device: Any) -> None:
    """Answer cases until there are no more. Only the learner's code can raise here.

    The replies to cases that came together are sent together, since the grader wakes up for each message.
    """
    from torchcourse.checking.operator_record import sharing_a_run
    from torchcourse.model import codec
    from torchcourse.model.catalogue import find

    name = request["exercise"]
    _, exercise = find(name)
    if exercise.has_rules and device.name != "cuda":  # whose driver shares memory
        unshare_memory()
    answer = shell.user_ns.get(name)
    kind = "unbound" if answer is None else "callable" if callable(answer) else type(answer).__name__
    send(job, codec.pack({"answer": kind}))
    began, is_time_up = time.process_time(), False
    while codec.unpack(receive(job))["do"] == "cases":
        observed: list[Callable[[], Any] | None] = []
        with sharing_a_run():
            for case in unframed(receive(job)):
                left = max(0.1, request["seconds"] - (time.process_time() - began))
                seen = None if is_time_up else _observed(exercise, answer, case, device, left, request)
                is_time_up = seen is None  # for the other cases too
                if is_time_up and device.name == "cpu":
                    break
                observed.append(seen)
        replies = bytearray()
        for each in observed:
            replies += framed(_reply(each, request["max_bytes"]))
            if len(replies) > MAX_UNSENT:
                job.sendall(replies)
                replies.clear()
        job.sendall(replies)
        if is_time_up and device.name == "cpu":
            os._exit(OUT_OF_TIME)  # the runner reports the time-out


def _observed(
    exercise: Any, answer: Any, case: bytes, device: Any, seconds: float, request: dict[str, Any]
) -> Callable[[], Any] | None:
    """Run an answer in one packed case, and return what returns the message about it; None if that took more than
    `seconds`."""
    from torchcourse.checking.check import TimeIsUpError
    from torchcourse.checking.probe import observe_first
    from torchcourse.model import codec
    from torchcourse.model.exercise import Case, Unattempted

    inputs = codec.unpack(case, trusted=True)
    try:
        with cpu_time_limit(seconds, request["wall_clock_factor"]):
            seen = observe_first(exercise, answer, Case("", inputs), device, alone=True)
    except Unattempted as stub:
        lacks_tools = stub.lacks_tools is True
        return lambda: {"unattempted": True, "lacks_tools": lacks_tools}
    except TimeIsUpError:
        return None
    return lambda: {"seen": seen()}


def _reply(observed: Callable[[], Any] | None, max_bytes: int) -> bytes:
    """Return the packed message about an answer in one case, given what returns it, or None if its time was up."""
    from torchcourse.model import codec
    from torchcourse.model.observations import Raised

    if observed is None:
        return codec.pack({"ended": "timeout"})
    try:
        reply = codec.pack(observed())
    except TypeError as error:  # an observation of a type that the codec does not carry
        return codec.pack({"seen": {"raised": Raised("TypeError", str(error)[:200])}})
    if codec.unpacked_bytes(reply) > max_bytes:
        return codec.pack({"seen": {"raised": Raised("OutputTooLarge", f"{len(reply)} bytes")}})
    return reply
