"""Check from a terminal in a process that has torch loaded: the first check leaves it waiting for the next ones.

A check takes some tenths of a second, and importing torch two seconds. Whoever asks in a terminal will ask again soon;
scripts, whose output is no terminal, leave nothing behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import socketserver
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from torchcourse.model.notebook_file import WorkspaceError
from torchcourse.model.own_course import VARIABLE

__all__ = ["IDLE_SECONDS", "check_warm"]

IDLE_SECONDS = 600.0
"""How long the process waits for the next check before it ends."""
READ_AT_START = ("CUDA_", "KMP_", "LD_", "MKL_", "OMP_", "PYTHON", "PYTORCH_", "TORCH")
"""Beginnings of environment variables that Python, torch and the course read once: with others, another process."""
BROKEN = 2


def check_warm(notebook: Path, exercises: Sequence[str]) -> int:
    """Check `exercises` (all of them if empty) of the notebook, in the process that waits for this if there is one.

    Returns:
        The exit status of `torchcourse check`.

    Raises:
        WorkspaceError: if there is no such process, and the notebook cannot be checked.
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
    """Return the socket of the process that has loaded what this one would load."""
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
    return Path(jupyter_runtime_dir(), f"torchcourse-{name}.sock")


def _ask(connection: socket.socket, notebook: Path, exercises: Sequence[str]) -> int:
    """Have the waiting process check the notebook and print to this one's terminal; Ctrl-C ends the check.

    Raises:
        OSError: if the process ends before it begins with the check.
    """
    asked = {"folder": str(Path.cwd()), "notebook": str(notebook), "exercises": list(exercises)}
    socket.send_fds(connection, [b"\0"], [0, 1, 2])
    with connection.makefile("rw") as lines:
        print(json.dumps(asked | {"environment": dict(os.environ)}), file=lines, flush=True)
        group = lines.readline()
        if not group:
            raise ConnectionAbortedError
        try:
            status = lines.readline()
        except KeyboardInterrupt:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(group), signal.SIGKILL)
            raise
    return int(status) if status else BROKEN


class _Waiting(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    timeout = IDLE_SECONDS
    over = False

    def __init__(self, address: Path, environment: dict[str, str]) -> None:
        super().__init__(str(address), _OneCheck)
        self.environment = environment

    def handle_timeout(self) -> None:
        self.over = True


class _OneCheck(socketserver.BaseRequestHandler):
    """Checks a notebook as `_ask` says, in a fork of the process that waits."""

    server: _Waiting

    def handle(self) -> None:
        os.setpgid(0, 0)
        _, descriptors, *_ = socket.recv_fds(self.request, 1, 3)
        for own, of_terminal in enumerate(descriptors):
            os.dup2(of_terminal, own)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
        with self.request.makefile("rw") as lines:
            asked = json.loads(lines.readline())
            print(os.getpid(), file=lines, flush=True)
            for unset in self.server.environment.keys() - asked["environment"].keys():
                os.environ.pop(unset, None)
            os.environ.update(asked["environment"])
            os.chdir(asked["folder"])
            try:
                status = _check(Path(asked["notebook"]), asked["exercises"])
            except WorkspaceError as error:
                print(error)
                status = BROKEN
            print(status, file=lines, flush=True)


def _leave_waiting(address: Path, environment: dict[str, str]) -> None:
    """Leave a process that checks what it is asked to, until it is not asked for `IDLE_SECONDS`.

    Args:
        address: its socket.
        environment: the environment that this process was started with.

    Raises:
        OSError: if the socket cannot be made.
    """
    address.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    address.unlink(missing_ok=True)  # of a process that was killed
    previous = os.umask(0o177)  # nobody else may ask
    try:
        server = _Waiting(address, environment)
    finally:
        os.umask(previous)
    sys.stdout.flush()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may be closed before `setsid`
    if os.fork():
        server.server_close()
        return
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.chdir("/")
        _wait(server)
    finally:
        address.unlink(missing_ok=True)
        os._exit(0)


def _wait(server: _Waiting) -> None:
    from torchcourse.checking.terminal_check import FIRST_USED
    from torchcourse.model.catalogue import preload

    preload(FIRST_USED)
    while not server.over:
        server.handle_request()
        server.service_actions()
