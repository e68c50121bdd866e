"""The template of this process's workers: a process that has everything loaded and is forked for each of them.

It runs outside any sandbox and runs no learner's code. A fork of it enters a sandbox and gives up all privileges. So a
worker starts in a tenth of a second and shares the memory of what was loaded.
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

from autograde.sandbox.configuration import INSIDE, Isolation
from autograde.sandbox.namespaces import NamespacesError, release, start_pause_process
from autograde.settings import LIMITS

__all__ = ["Template", "preload", "start_template", "template"]


class Template:
    """A process that loads what all lessons use, and further modules on request.

    Args:
        trusted: whether its workers run without namespaces.
    """

    def __init__(self, trusted: bool = False) -> None:
        self.trusted = trusted
        self.home = tempfile.mkdtemp(prefix="torchcourse-")
        self.stderr_file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        self.has_forked = False
        self.mount: subprocess.Popen[bytes] | None = None
        """bubblewrap of the sandbox whose read-only mount the Python interpreter is run from."""
        inside = Isolation().environment("/tmp")  # its forks can read this in /proc/self/environ
        loading = Isolation().environment(self.home)
        self.line, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_end, contextlib.ExitStack() as on_failure:
            on_failure.callback(shutil.rmtree, self.home, ignore_errors=True)
            on_failure.callback(self.stderr_file.close)
            on_failure.callback(self.line.close)
            on_failure.callback(self._release_mount)
            python = self._open_python()
            with os.fdopen(python, "rb"):
                self.process = subprocess.Popen(
                    [sys.executable, "-s", "-W", "ignore", "-m", INSIDE.name, str(child_end.fileno())],
                    executable=f"/proc/self/fd/{python}", pass_fds=[child_end.fileno(), python], env=inside,
                    cwd=INSIDE.parent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.stderr_file,
                    start_new_session=True,
                )  # fmt: skip
            on_failure.pop_all()
        self._send({name: value for name, value in loading.items() if value != inside[name]})

    def _open_python(self) -> int:
        """Open the Python interpreter for execution, through the read-only mount of a sandbox unless trusted.

        Through /proc/self/exe a process could change the mode, times and attributes of the program that it runs, if the
        file belongs to its user and is on a writable mount. Workers run the same program as the template.
        """
        root = ""
        if not self.trusted:
            self.mount, pid = start_pause_process(LIMITS.start_seconds)
            root = f"/proc/{pid}/root"
        return os.open(f"{root}{Path(sys.executable).resolve()}", os.O_RDONLY | os.O_CLOEXEC)

    def _release_mount(self) -> None:
        if self.mount is not None:
            release(self.mount)

    def load(self, modules: Sequence[str]) -> None:
        """Have it load these modules too, without waiting for that."""
        self._send({"modules": list(modules)})

    def fork(
        self,
        modules: Sequence[str],
        control: socket.socket,
        pid: int,
        uid: int,
        group: str,
        configuration: dict[str, Any],
    ) -> None:
        """Have it fork a worker, whose first message on `control` says that it is ready, or why it failed.

        Args:
            modules: the modules that the worker needs.
            control: the worker's end of its connection to the grader.
            pid: the pause process of the sandbox to enter; 0 where submissions are trusted.
            uid: the user that it becomes; 0 for the user of this process.
            group: the folder of its control group, or "".
            configuration: `Isolation.worker_configuration`.
        """
        self.has_forked = True
        order = {"modules": list(modules), "pid": pid, "uid": uid, "group": group, "configuration": configuration}
        self._send(order, control.fileno())

    def _send(self, message: dict[str, Any], *descriptors: int) -> None:
        with contextlib.suppress(OSError):  # it is gone, which `control` shows by being closed
            socket.send_fds(self.line, [json.dumps(message).encode()], descriptors)

    def is_alive(self) -> bool:
        """Return whether the process has not ended."""
        return self.process.poll() is None

    def stderr(self) -> str:
        """Return the end of what it wrote to standard error."""
        size = os.fstat(self.stderr_file.fileno()).st_size
        return os.pread(self.stderr_file.fileno(), 1500, max(0, size - 1500)).decode(errors="replace")

    def close(self) -> None:
        """Fork no more workers; the process ends after its last worker."""
        self.line.close()

    def end(self, seconds: float = 20.0) -> None:
        """End it: at once if it never forked a worker, otherwise after waiting up to `seconds` for workers to end."""
        self.close()
        if not self.has_forked:
            self.process.kill()  # it may still be loading
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._release_mount()
        self.stderr_file.close()
        shutil.rmtree(self.home, ignore_errors=True)


_lock = threading.RLock()
_templates: dict[bool, Template] = {}


def template(trusted: bool = False) -> Template:
    """Return the template of isolated or of trusted workers, which may still be loading."""
    with _lock:
        found = _templates.get(trusted)
        if found is None or not found.is_alive():
            if found is not None:
                found.end()
            found = _templates[trusted] = Template(trusted)
        return found


def start_template(isolation: Isolation) -> None:
    """Start a template early, before its modules are known. A failure is reported when a worker is started."""
    with contextlib.suppress(OSError, NamespacesError):
        template(isolation.trusted)


def preload(modules: Sequence[str]) -> None:
    """Have the templates that were started load these modules, for workers to come."""
    with _lock:
        for found in _templates.values():
            found.load(modules)


@atexit.register
def _end_all() -> None:
    for found in _templates.values():
        found.close()
    for found in _templates.values():
        found.end(2.0)  # no longer: it waits for workers that were left open
