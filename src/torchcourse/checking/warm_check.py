"""Check from a terminal without loading torch each time: the first check leaves a process that has it loaded.

Learners who check from a terminal usually check again soon. A check whose output is piped or goes to a file leaves
nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import select
import signal
import socket
import socketserver
import struct
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from torchcourse.model.notebook_file import WorkspaceError
from torchcourse.model.own_course import VARIABLE

__all__ = ["IDLE_SECONDS", "check_warm"]

IDLE_SECONDS = 600.0
"""How long the background process waits for the next check before it ends."""
SECONDS_TO_ACCEPT = 5.0
"""How long a check waits for that process, which may be busy or stopped, before it loads torch itself."""
READ_AT_START = ("CUDA_", "KMP_", "LD_", "MKL_", "OMP_", "PYTHON", "PYTORCH_", "TORCH")
"""Beginnings of environment variables that Python, torch and the course read once. If one of these variables differs,
another background process is used."""
BROKEN = 2
ACCEPTED = b"+"


def check_warm(notebook: Path, exercises: Sequence[str]) -> int:
    """Check `exercises` (all of them if empty) of the notebook, in the background process if there is one, else here.

    Returns:
        The exit status of `torchcourse check`.

    Raises:
        WorkspaceError: if the notebook cannot be checked; the background process prints why, and the status is 2.
    """
    if not (sys.platform.startswith("linux") and sys.stdout.isatty()):
        return _check(notebook, exercises)
    environment = dict(os.environ)  # torch adds to it
    address = _address()
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(address))
        return _ask(connection, notebook, exercises)
    status = _check(notebook, exercises)
    with contextlib.suppress(OSError):
        _leave_waiting(address, environment)
    return status


def _check(notebook: Path, exercises: Sequence[str]) -> int:
    from torchcourse.checking.terminal_check import check_notebook  # with torch

    return check_notebook(notebook, exercises)


def _address() -> Path:
    """Return the socket of the background process for this environment, these packages and this version."""
    from jupyter_core.paths import jupyter_runtime_dir

    packages, course = sysconfig.get_path("purelib"), Path(__file__).parents[1]
    own = os.environ.get(VARIABLE)
    sources = [file for folder in (course, own) if folder for file in Path(folder).rglob("*.py")]
    loaded = {
        "packages": [packages, Path(packages).stat().st_mtime],
        "course": [str(course), max(file.stat().st_mtime for file in sources)],
        "environment": sorted(item for item in os.environ.items() if item[0].startswith(READ_AT_START)),
    }
    name = hashlib.sha256(json.dumps(loaded).encode()).hexdigest()[:16]
    return Path(jupyter_runtime_dir(), f"torchcourse-{name}.sock").resolve()


def _ask(connection: socket.socket, notebook: Path, exercises: Sequence[str]) -> int:
    """Have the background process check the notebook and print to this one's terminal, until this one ends.

    Raises:
        OSError: if that process is not this user's, or does not begin with the check.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] != os.geteuid():
        raise PermissionError("another user's process would get this terminal")
    asked = {
        "folder": str(Path.cwd()),
        "notebook": str(notebook),
        "exercises": list(exercises),
        "environment": dict(os.environ),
        "streams": [(stream.encoding, stream.errors) for stream in (sys.stdout, sys.stderr)],
    }
    connection.settimeout(SECONDS_TO_ACCEPT)
    socket.send_fds(connection, [b"\0"], [0, 1, 2])
    connection.sendall(json.dumps(asked).encode() + b"\n")
    if connection.recv(1) != ACCEPTED:
        raise ConnectionAbortedError("it ended")
    connection.settimeout(None)
    status = connection.recv(1)
    if not status:
        print("The process that ran your cells was ended: the checks could not be completed.")
    return status[0] if status else BROKEN


class _Waiting(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    timeout = IDLE_SECONDS
    over = False

    def __init__(self, address: Path, environment: dict[str, str], lock: int) -> None:
        super().__init__(str(address), _OneCheck)
        self.environment, self.lock = environment, lock

    def handle_timeout(self) -> None:
        self.over = True


class _OneCheck(socketserver.BaseRequestHandler):
    """Checks a notebook as `_ask` says, in a fork of the process that waits."""

    server: _Waiting

    def handle(self) -> None:
        os.close(self.server.lock)  # a process that an answer leaves should not hold it, nor the socket
        self.server.socket.close()
        os.setpgid(0, 0)
        _, descriptors, *_ = socket.recv_fds(self.request, 1, 3)
        with self.request.makefile("r") as lines:
            asked = json.loads(lines.readline())
        self._end_with_the_client()
        self.request.sendall(ACCEPTED)
        self._take_over(asked, descriptors)
        try:
            status = _check(Path(asked["notebook"]), asked["exercises"])
        except WorkspaceError as error:
            print(error)
            status = BROKEN
        sys.stdout.flush()
        self.request.sendall(bytes([status]))

    def _end_with_the_client(self) -> None:
        """Kill this process and those that it starts as soon as the client closes the connection."""

        def look(*_: object) -> None:
            if select.select([self.request], [], [], 0)[0]:  # it sends nothing more, so this is the end of it
                os.killpg(0, signal.SIGKILL)

        signal.signal(signal.SIGIO, look)
        fcntl.fcntl(self.request, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self.request, fcntl.F_SETFL, fcntl.fcntl(self.request, fcntl.F_GETFL) | os.O_ASYNC)
        look()

    def _take_over(self, asked: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Take over the client's terminal, environment and working folder."""
        for own, of_terminal in enumerate(descriptors):
            os.dup2(of_terminal, own)
            os.close(of_terminal)
        sys.stdout, sys.stderr = (
            os.fdopen(number, "w", buffering=1, closefd=False, encoding=encoding, errors=errors)
            for number, (encoding, errors) in enumerate(asked["streams"], 1)
        )
        for unset in self.server.environment.keys() - asked["environment"].keys():
            os.environ.pop(unset, None)
        os.environ.update(asked["environment"])
        time.tzset()
        os.chdir(asked["folder"])


def _leave_waiting(address: Path, environment: dict[str, str]) -> None:
    """Leave a process that checks what it is asked to, until it is not asked for `IDLE_SECONDS`.

    Args:
        address: its socket.
        environment: the environment that this process was started with.

    Raises:
        OSError: if the socket cannot be made, or another process serves this address.
    """
    address.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(address.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held as long as the process that waits has it open
        address.unlink(missing_ok=True)  # of a process that was killed
        previous = os.umask(0o177)  # nobody else may ask
        try:
            server = _Waiting(address, environment, lock)
        finally:
            os.umask(previous)
        sys.stdout.flush()
        hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may be closed before `setsid`
        if os.fork() == 0:
            _run_background(server, address)
        signal.signal(signal.SIGHUP, hangup)
        server.server_close()
    finally:
        os.close(lock)


def _run_background(server: _Waiting, address: Path) -> NoReturn:
    """Give up the terminal and what else came from the first check, wait for checks, and end."""
    try:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            if descriptor > 2 and descriptor not in (server.fileno(), server.lock):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        os.chdir("/")
        _wait(server)
    finally:
        for file in (address, address.with_suffix(".lock")):
            file.unlink(missing_ok=True)
        os._exit(0)


def _wait(server: _Waiting) -> None:
    from torchcourse.checking.terminal_check import FIRST_USED
    from torchcourse.model.catalogue import preload

    preload(FIRST_USED)
    while not server.over:
        server.handle_request()
        server.service_actions()
