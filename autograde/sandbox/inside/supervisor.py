"""The supervisor of a worker: forks a runner for each submission, kills what that leaves, empties scratch folders."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from . import framing, memory, scratch
from .runner import run_submission

__all__ = ["protect_from_children", "supervise"]

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
FAULT = 70
"""The exit status of a runner that an exception ended."""
MAX_NAME_LENGTH = 100


def supervise(control: socket.socket, shell: Any, configuration: dict[str, Any]) -> None:
    """Carry out the grader's orders until it closes `control`. The first message sent holds this process's id."""
    protect_from_children()
    watch = memory.Watch(configuration["memory_bytes"], configuration["scratch"])
    _send(control, {"ready": os.getpid()})
    runner, cause = 0, -1
    while True:
        runner = _report_end(control, runner, cause)
        if runner and watch.is_exceeded(_learner_processes(configuration)):
            _send(control, {"ended": "memory"})  # first, so that the grader finds it when it asks for the cause
            kill_learner_processes(configuration)
            runner = 0
        if not select.select([control], [], [], 0.02 if runner else None)[0]:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not data:
            return kill_learner_processes(configuration)
        message = json.loads(data)
        if message["do"] == "start":
            if cause >= 0:
                os.close(cause)
            runner, cause = _fork_runner(control, socket.socket(fileno=descriptors[0]), shell, message, configuration)
        elif message["do"] == "stop":
            kill_learner_processes(configuration)
            runner = 0
            _send(control, {"stopped": scratch.empty_all(configuration)})


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    framing.send(control, json.dumps(message).encode())


def _fork_runner(
    control: socket.socket, job: socket.socket, shell: Any, message: dict[str, Any], configuration: dict[str, Any]
) -> tuple[int, int]:
    """Return the id of a new runner, and a descriptor from which the class of the exception that ended it is read."""
    cause, child_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    pid = os.fork()
    if pid:
        job.close()
        os.close(child_end)
        return pid, cause
    status = FAULT
    try:
        control.close()
        os.close(cause)
        run_submission(job, shell, message, configuration)
        status = 0
    except BaseException as error:  # learners' code has run in this process: it may be anything
        os.write(child_end, type(error).__name__.encode()[:MAX_NAME_LENGTH])
    finally:
        os._exit(status)


def _report_end(control: socket.socket, runner: int, cause: int) -> int:
    """Report to the grader if the runner has ended; return the id of the runner, or 0 if none is running."""
    if not runner:
        return 0
    pid, status = os.waitpid(runner, os.WNOHANG)
    if not pid:
        return runner
    name = ""
    with contextlib.suppress(OSError):  # nothing was written, and a process of the learner's holds the other end
        name = os.read(cause, MAX_NAME_LENGTH).decode(errors="replace")
    ended = os.waitstatus_to_exitcode(status)
    _send(control, {"ended": f"{ended} ({name})" if name else ended})
    return 0


def protect_from_children() -> None:
    """Keep children, which have the same user, from tracing this process, and adopt orphaned descendants."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_learner_processes(configuration: dict[str, Any]) -> None:
    """Kill all processes that learners' code started until none is left; end this process if some remain."""
    namespaces = configuration["namespaces"]
    if namespaces and not memory.in_own_namespace():
        sys.exit("not in a sandbox of the grader: nothing is killed")
    for _ in range(1000):
        targets = _learner_processes(configuration)
        if namespaces:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            for pid in targets:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not any(memory.is_alive(pid) for pid in targets):
            return
        time.sleep(0.005)
    sys.exit("some processes cannot be killed")


def _learner_processes(configuration: dict[str, Any]) -> list[int]:
    """Return learners' processes: in a PID namespace all but the first and this one, else all descendants."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    if configuration["namespaces"]:
        return [pid for pid in pids if pid not in (1, os.getpid())]
    parents = {pid: memory.parent(pid) for pid in pids}
    found, level = [], {os.getpid()}
    while level := {pid for pid, parent in parents.items() if parent in level and pid != parent}:
        found += sorted(level)
    return found
