"""One process that has everything loaded, and from which the workers of this process's sandboxes are forked.

It runs outside of any sandbox and runs nothing of learners. bubblewrap makes each sandbox as ever, around a program
that only waits; a fork of the template then goes in there and gives up all privileges. So a worker starts in a tenth of
a second, and shares what was loaded with the others.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograde.enclosure import WORKER, Enclosure, kernel
from autograde.holding import HoldingError, hold_for_nobody, let_go
from autograde.settings import LIMITS

__all__ = ["Template", "available", "begin", "expect", "fork", "give_up", "refusals", "template"]

MOST = 2
"""How many templates are kept, each with modules of its own: half a gigabyte each."""


class Template:
    """A process that loads what all lessons use, at once, and then, when told, the modules of some."""

    def __init__(self) -> None:
        self.home = tempfile.mkdtemp(prefix="torchcourse-")
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        self.has_forked = False
        inside = Enclosure().variables("/tmp")  # what can be read of it in a sandbox, in /proc/self/environ
        outside = Enclosure().variables(self.home)
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as unless_begun:
            unless_begun.callback(shutil.rmtree, self.home, ignore_errors=True)
            unless_begun.callback(self.words.close)
            unless_begun.callback(self.line.close)
            self.mount, python = _read_only_python()
            unless_begun.callback(let_go, self.mount)
            with os.fdopen(python, "rb"):
                self.process = subprocess.Popen(
                    [sys.executable, "-s", "-W", "ignore", str(WORKER), str(theirs.fileno())],
                    executable=f"/proc/self/fd/{python}", pass_fds=[theirs.fileno(), python], env=inside, cwd="/",
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.words, start_new_session=True,
                )  # fmt: skip
            unless_begun.pop_all()
        self._tell({name: outside[name] for name in outside if outside[name] != inside[name]})

    def load(self, modules: Sequence[str]) -> None:
        """Have it load these too, and be ready from then on. Returns before that is done."""
        self._tell({"modules": list(modules)})

    def fork(self, control: socket.socket, pid: int, uid: int, group: str, told: dict[str, Any]) -> None:
        """Fork a worker into the sandbox whose first process is `pid`, as the user `uid` (0: who this process is) and
        in a control group (if not ""); it speaks on `control`, and first says which layers hold, or why it failed."""
        order = json.dumps({"pid": pid, "uid": uid, "group": group, "told": told}).encode()
        self.has_forked = True
        with contextlib.suppress(OSError):  # it is gone: `control` says so when the last end is closed
            socket.send_fds(self.line, [order], [control.fileno()])

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.line.send(json.dumps(message).encode())

    def is_there(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        """The end of what it wrote to standard error."""
        size = os.fstat(self.words.fileno()).st_size
        return os.pread(self.words.fileno(), 1500, max(0, size - 1500)).decode(errors="replace")

    def close(self) -> None:
        """Fork no more. It ends when its last worker has."""
        self.line.close()

    def end(self, seconds: float = 20.0) -> None:
        """End it now if it has no workers, and else wait until they have ended, and it, but not for ever."""
        self.close()
        if not self.has_forked:
            self.process.kill()  # it may be loading still
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        let_go(self.mount)
        self.words.close()
        shutil.rmtree(self.home, ignore_errors=True)


def _read_only_python() -> tuple[subprocess.Popen[bytes], int]:
    """A descriptor of Python as it is mounted in a sandbox, to be run, and the process that keeps that sandbox.

    A process can change the mode, times and marks of the file that it runs, in /proc/self/exe, where the file is its
    user's own and lies on a mount that may be written; forked workers run what the template runs.
    """
    process, pid = hold_for_nobody(LIMITS.start_seconds)
    try:
        python = os.open(f"/proc/{pid}/root{Path(sys.executable).resolve()}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        let_go(process)
        raise
    return process, python


_lock = threading.RLock()
_kept: dict[tuple[str, ...], Template] = {}
_begun: list[Template] = []
_closed: list[Template] = []
_refused: list[str] = []


def available(enclosure: Enclosure) -> bool:
    """Whether workers in this enclosure can be forked from a template: without a GPU, on Linux 5.8 or later."""
    if _refused or enclosure.trusted or enclosure.gpu or not sys.platform.startswith("linux"):
        return False
    return kernel() >= (5, 8)


def give_up(reason: str) -> None:
    """Fork no workers from now on: the kernel, or what it is told to allow, does not let them into sandboxes."""
    _refused.append(reason)


def refusals() -> list[str]:
    """Why workers were not forked from a template, where that was tried."""
    return list(_refused)


def begin() -> None:
    """Start a template already, before it is known which modules it has to load; what keeps it from that is said when
    a worker is wanted."""
    with _lock, contextlib.suppress(OSError, HoldingError):
        if not _begun:
            _begun.append(Template())


def expect(modules: Sequence[str]) -> None:
    """Have the template that was begun, if one was, load these modules already, since workers with them will come."""
    with _lock:
        if _begun:
            template(modules)


def template(modules: Sequence[str]) -> Template:
    """The template with these modules, which may be loading still."""
    wanted = tuple(sorted(modules))
    with _lock:
        made = _kept.pop(wanted, None)
        if made is not None and not made.is_there():
            made.end()
            made = None
        if made is None:
            made = _begun.pop() if _begun else Template()
            made.load(wanted)
        _kept[wanted] = made  # the last one used is the last in line
        while len(_kept) > MOST:
            old = _kept.pop(next(iter(_kept)))
            old.close()
            _closed.append(old)
        for old in [old for old in _closed if not old.is_there()]:
            old.end()
            _closed.remove(old)
        return made


def fork(
    modules: Sequence[str], control: socket.socket, pid: int, uid: int, group: str, told: dict[str, Any]
) -> Template:
    """Have the template with these modules fork a worker, as `Template.fork` does; which one that is."""
    with _lock:  # until then nobody else may close it
        found = template(modules)
        found.fork(control, pid, uid, group, told)
        return found


@atexit.register
def _end_all() -> None:
    every = [*_kept.values(), *_begun, *_closed]
    for one in every:
        one.close()
    for one in every:
        one.end(2.0)  # who left a worker open keeps it from ending before this process does
