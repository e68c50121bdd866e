"""A worker in bubblewrap, seen from outside: started, given jobs, stopped, and never believed.

No network, its own PID namespace, a read-only system with nothing of `solutions/` or `autograde/` in it but the worker
itself, a scratch folder in memory, process limits. A grader that runs as root gives each worker a real unprivileged
uid, since process limits do nothing for root.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torchcourse
from autograde.inside.worker import LENGTH, send
from autograde.settings import FIRST_UID, LIMITS, Limits
from torchcourse import codec
from torchcourse.observations import Value

__all__ = ["Job", "LostError", "Sandbox", "SandboxError", "SlowError", "blocker"]

WORKER = Path(__file__).parent / "inside" / "worker.py"
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ssl", "/etc/alternatives",
          "/etc/fonts", "/etc/localtime", "/etc/mime.types")  # fmt: skip


class SandboxError(RuntimeError):
    """The sandbox cannot be started on this machine; the message says why and what helps."""


class LostError(RuntimeError):
    """The process at the other end is gone, or talks nonsense."""


class SlowError(RuntimeError):
    """No answer came in time."""


def blocker() -> str:
    """Why submissions cannot be isolated on this machine, with the remedy; empty where they can."""
    if not sys.platform.startswith("linux"):
        return "Isolation needs Linux: grade on a Linux machine or in a Linux virtual machine."
    if shutil.which("bwrap") is None:
        return "bubblewrap is missing: install it (apt-get install bubblewrap)."
    trial = subprocess.run([*_outer(0), "/usr/bin/env", "true"], capture_output=True, text=True, timeout=20)
    if trial.returncode:
        reason = (trial.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        return (f"bubblewrap cannot make a sandbox here ({reason}). On Ubuntu 24.04 and later load an AppArmor profile "
                "that allows user namespaces to bwrap; in a container allow nested namespaces.")  # fmt: skip
    return ""


def _outer(uid: int) -> list[str]:
    """The bubblewrap command, up to the program that it runs."""
    present = _readable()
    above = sorted({str(parent) for path in present for parent in Path(path).parents} - {"/", "/usr"})
    folders = [arg for path in above for arg in ("--perms", "0755", "--dir", path)]  # else only their owner may enter
    binds = [arg for path in present for arg in ("--ro-bind", path, path)]
    base = [
        "bwrap", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--die-with-parent", "--new-session", "--hostname", "sandbox",
        "--perms", "1777", "--size", str(LIMITS.scratch_bytes), "--tmpfs", "/tmp", *folders, *binds,
        "--proc", "/proc", "--dev", "/dev",
        "--perms", "1777", "--size", str(LIMITS.scratch_bytes), "--tmpfs", "/dev/shm",
        "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--clearenv",
    ]  # fmt: skip
    for name, value in _environment().items():
        base += ["--setenv", name, value]
    if os.geteuid() != 0:
        return [*base, "--unshare-user", "--cap-drop", "ALL"]
    drop = ["setpriv", f"--reuid={FIRST_UID + uid}", f"--regid={FIRST_UID + uid}", "--clear-groups", "--no-new-privs"]
    return [*base, "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", *drop]


def _readable() -> list[str]:
    """What of this machine's files is seen in the sandbox, to be read only."""
    return sorted(path for path in {*SYSTEM, sys.prefix, sys.base_prefix, *_packages()} if Path(path).exists())


def _packages() -> list[str]:
    """Where torchcourse and what it imports lie, and the worker: nothing else of the course."""
    return [str(Path(torchcourse.__file__).parent), sysconfig.get_path("purelib"), str(WORKER.parent)]


def _environment() -> dict[str, str]:
    return {
        "HOME": "/tmp", "USER": "learner", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LANG": "C.UTF-8",
        "MPLBACKEND": "agg",
        "MPLCONFIGDIR": "/tmp/matplotlib", "IPYTHONDIR": "/tmp/ipython", "TORCHCOURSE_SIMULATED": "off",
        "PYTHONPATH": str(Path(torchcourse.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1", "TORCHCOURSE_ACCELERATOR": "simulated",
    }  # fmt: skip


class Job:
    """One submission on one lane: a conversation with its runner."""

    def __init__(self, sock: socket.socket, sandbox: Sandbox, most_bytes: int) -> None:
        self.sock, self.sandbox, self.most_bytes = sock, sandbox, most_bytes

    def send(self, value: Value) -> None:
        """Send a value.

        Raises:
            LostError: when nobody listens any more.
        """
        try:
            self.sock.settimeout(self.sandbox.limits.exercise_seconds)
            send(self.sock, codec.pack(value))
        except OSError as error:
            raise LostError(str(error)) from None

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next message, a dict; nothing in it is to be believed.

        Raises:
            LostError: when the runner is gone or what came is no message.
            SlowError: when none came in time.
        """
        deadline = time.monotonic() + seconds
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size, deadline))
        if length > self.most_bytes + (1 << 16):
            raise LostError(f"a message of {length} bytes")
        try:
            value = codec.unpack(self._exactly(length, deadline))
        except codec.MalformedError as error:
            raise LostError(str(error)) from None
        if not isinstance(value, dict):
            raise LostError("a message that is no dict")
        return value

    def _exactly(self, count: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._wait(deadline)
            try:
                piece = self.sock.recv(min(count - len(data), 1 << 20))
            except OSError as error:
                raise LostError(str(error)) from None
            if not piece:
                raise LostError("the runner is gone")
            data += piece
        return bytes(data)

    def _wait(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        ready = select.select([self.sock, self.sandbox.control], [], [], max(0.0, left))[0]
        if self.sock in ready:
            return
        if ready:  # the supervisor speaks of its own accord only when the runner ended
            raise LostError(f"the runner ended: {self.sandbox.hear(1.0).get('ended')}")
        raise SlowError


class Sandbox:
    """One worker. `number` tells workers of one grader apart; `modules` are imported before any submission comes."""

    def __init__(self, limits: Limits = LIMITS, number: int = 0, modules: Sequence[str] = ()) -> None:
        self.limits, self.number, self.modules = limits, number, modules
        self.process: subprocess.Popen[bytes] | None = None
        self.ended = False
        self.control: socket.socket

    def start(self) -> None:
        """Start the worker and wait until it is ready.

        Raises:
            SandboxError: when it does not come up, or is not wanted any more.
        """
        self.close()
        if self.ended:
            raise SandboxError("grading was ended")
        self.control, theirs = socket.socketpair()
        command = [
            *_outer(self.number),
            sys.executable,
            "-W",
            "ignore",
            str(WORKER),
            str(theirs.fileno()),
            ",".join(self.modules),
            *_readable(),
        ]
        self.process = subprocess.Popen(
            command,
            env={"PATH": os.environ.get("PATH", "")},  # bubblewrap's own can be read from inside, in /proc/1/environ
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        if self.ended:  # since we asked
            self.process.kill()
        try:
            self.hear(self.limits.start_seconds)
        except (LostError, SlowError):
            self.process.kill()
            stderr = self.process.communicate()[1].decode(errors="replace")
            self.control.close()
            self.process = None
            raise SandboxError(f"the worker did not start: {blocker() or stderr[-1500:]}") from None

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
    def job(self, lane: str, cells: list[str], skip: list[int]) -> Iterator[Job]:
        """A job that runs `cells` on `lane`, but for those at the places `skip`; nothing of it outlives the block.

        Raises:
            LostError: when the worker is lost as the job begins.
            SandboxError: when a worker that is gone cannot be started again.
        """
        job = self._begin(lane, skip)
        try:
            job.send(list(cells))
            yield job
        finally:
            self._stop(job)

    def _begin(self, lane: str, skip: list[int]) -> Job:
        if self.process is None or self.process.poll() is not None:
            self.start()
        ours, theirs = socket.socketpair()
        limits = self.limits
        order = {
            "do": "start", "lane": lane, "skip": skip, "cell_seconds": limits.cell_seconds, "limits": self._rlimits(),
        }  # fmt: skip
        with theirs:
            try:
                socket.send_fds(self.control, [json.dumps(order).encode()], [theirs.fileno()])
            except OSError:
                self.start()
                socket.send_fds(self.control, [json.dumps(order).encode()], [theirs.fileno()])
        return Job(ours, self, limits.reply_bytes)

    def _rlimits(self) -> dict[str, int]:
        limits = self.limits
        return {
            "DATA": limits.data_bytes, "FSIZE": limits.file_bytes, "NPROC": self._processes(), "CORE": 0,
            "CPU": limits.cpu_seconds, "NOFILE": limits.open_files,
        }  # fmt: skip

    def _processes(self) -> int:
        """The limit counts every process and thread of a uid, so an ordinary user's own come on top."""
        if os.geteuid() == 0:
            return self.limits.processes
        mine = [p for p in Path("/proc").iterdir() if p.name.isdigit() and _owner(p) == os.getuid()]
        threads = sum(len(list((p / "task").iterdir())) for p in mine if (p / "task").is_dir())
        return threads + self.limits.processes

    def _stop(self, job: Job) -> None:
        job.sock.close()
        try:
            self.control.sendall(b'{"do": "stop"}')
            while True:
                message = self.hear(self.limits.grace_seconds + 7)
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

    def close(self) -> None:
        """Kill the worker; its PID namespace dies with it."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.control.close()
            self.process = None


def _owner(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return -1
