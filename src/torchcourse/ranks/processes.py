"""Fork the ranks of one process group, run a function in each, and return what became of them.

The process that forks must be clean: no thread of its own, and no backward that started autograd's threads, which a
fork does not inherit. `start` says where that is so, and `launcher` provides such a process where it is not.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import random
import re
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from torchcourse.model import codec, own_code
from torchcourse.model.exercise import Unattempted
from torchcourse.model.observations import Raised, plain, raised
from torchcourse.ranks.activity import activity, cpu_seconds, seconds_asleep, voluntary_switches
from torchcourse.ranks.descendants import die_with

__all__ = [
    "DIED",
    "HANGS",
    "LENGTH",
    "RAISED",
    "RETURNED",
    "Outcome",
    "fork_ranks",
]

RETURNED, RAISED, HANGS, DIED = "returned", "raised", "hanging", "died"
QUIET = 0.5
"""Seconds without a wake-up of a main thread or a runnable thread, after which the remaining ranks count as hanging."""
MIN_IDLE = 10
"""Samples within `QUIET` in which every thread was asleep: a hang takes these as well as the time."""
GPU_BACKEND = "cpu:gloo,cuda:nccl"
TORCH = str(own_code.TORCH)
WRAPPERS = ("wrapper", "_fn", "inner")
MAX_CPU_SECONDS = 4.0
"""CPU seconds after which a rank counts as hanging; wall-clock seconds where its CPU time is unknown."""
MAX_SLEEP_SECONDS = 3.0
"""Seconds that the main threads of all ranks may sleep, waking up now and then, after which they count as hanging."""
MAX_WALL_FACTOR = 4.0
"""How many times `MAX_CPU_SECONDS` the ranks may take in wall time on a busy machine."""
SEED = 20_261_123
LENGTH = 8  # bytes that say how long a report is
MAX_REPORT = 64 << 20  # bytes


@dataclass(frozen=True)
class Outcome:
    """What became of one rank.

    Attributes:
        ended: one of `RETURNED`, `RAISED`, `HANGS`, `DIED`.
        value: what the function returned, as plain data.
        error: the exception, or how the process died.
        printed: what it printed.
        call: of a rank that hangs, the function of torch's that it is in.
        line: and the line that calls it, as "line 3 of average".
        slow: whether its hang showed only when a time limit was reached.
    """

    ended: str
    value: Any = None
    error: Raised | None = None
    printed: str = ""
    call: str = ""
    line: str = ""
    slow: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, for the codec."""
        return dict(vars(self))


def fork_ranks(function: Callable[[], Any], world_size: int) -> list[Outcome]:
    """Run `function` in `world_size` forks of this process, a process group; return what became of each.

    A rank that has ended stays until all have, so that it costs no other rank its connection. All are killed
    before this returns or raises.

    Raises:
        Unattempted: if a rank raised it.
    """
    dist.is_backend_available("cpu:gloo")  # torch searches all installed packages for it, once: not in each rank
    scratch = Path(tempfile.mkdtemp(prefix="ranks-"))
    ranks: list[_Rank] = []
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            for number in range(world_size):
                ranks.append(_Rank(function, number, world_size, scratch, listener))
            _wait_for(ranks)
            return [rank.outcome() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
        for rank in ranks:
            rank.wait()
        shutil.rmtree(scratch, ignore_errors=True)


class _Rank:
    """A rank as its parent sees it."""

    def __init__(
        self, function: Callable[[], Any], number: int, world_size: int, scratch: Path, listener: socket.socket
    ) -> None:
        self.trace = scratch / f"trace{number}"
        self.joined = scratch / f"joined{number}"
        self.report = bytearray()
        self.is_over = False
        self.is_slow = False
        self.pipe, theirs = os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, which this process does not have
            self.pid = os.fork()
        if self.pid == 0:
            try:
                with contextlib.suppress(OSError):
                    os.setpgid(0, 0)
                die_with(parent)
                os.close(self.pipe)
                _run_rank(function, number, world_size, listener, theirs, scratch)
            finally:
                os._exit(0)
        os.close(theirs)
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)  # a group to kill; set in both processes, whichever is first

    def read(self) -> None:
        """Read a part of its report; it is over at the end of it, or when the pipe is closed."""
        data = os.read(self.pipe, 1 << 16)
        self.report += data
        size = int.from_bytes(self.report[:LENGTH], "big") if len(self.report) >= LENGTH else MAX_REPORT
        self.is_over = not data or len(self.report) >= LENGTH + size or len(self.report) > MAX_REPORT

    def outcome(self) -> Outcome:
        """Return what became of it, once it is over or will not be."""
        if not self.is_over:
            call, line = self._where()
            return Outcome(HANGS, call=call, line=line, slow=self.is_slow)
        if len(self.report) <= LENGTH:
            return Outcome(DIED, error=Raised("process ended", self._ending()))
        report = codec.unpack(bytes(self.report[LENGTH:]))
        if "unattempted" in report:
            raise Unattempted(report["unattempted"])
        return Outcome(**report)

    def _where(self) -> tuple[str, str]:
        """Have it write its stack; return the call of torch's that it is in, and the line that makes it."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGUSR1)
        for _ in range(100):
            time.sleep(0.01)
            text = self.trace.read_text(errors="replace") if self.trace.exists() else ""
            call, line = _call(re.findall(r'File "(.*)", line (\d+) in (\S+)\n', text))
            if line:  # it may still be writing
                return call, line
        return "", ""

    def _ending(self) -> str:
        for _ in range(100):
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.pid = 0
                code = os.waitstatus_to_exitcode(status)
                return f"by signal {-code}" if code < 0 else f"with exit status {code}"
            time.sleep(0.01)
        return "without a report"

    def kill(self) -> None:
        """Kill it with the processes it started, and close its pipe; `wait` waits for its end."""
        with contextlib.suppress(OSError):
            os.close(self.pipe)
        if not self.pid:
            return
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)  # it may have left its group

    def wait(self) -> None:
        """Wait until it has ended."""
        with contextlib.suppress(ChildProcessError):
            if self.pid:
                os.waitpid(self.pid, 0)


def _call(frames: list[tuple[str, str, str]]) -> tuple[str, str]:
    """Return the outermost function of torch's in a stack, innermost first, and the line that calls it."""
    call = ""
    for file, line, name in frames:
        if TORCH not in file:
            return call, f"line {line} of {name}"
        call = call if name in WRAPPERS else name
    return call, ""


def _wait_for(ranks: list[_Rank]) -> None:
    """Read reports until all ranks are over, or those that are not hang."""
    begun = quiet_since = time.monotonic()
    idle = 0  # samples since then without a runnable thread; a thread that waits for a core counts as runnable
    before: list[str] = []
    while left := [rank for rank in ranks if not rank.is_over]:
        ready, _, _ = select.select([rank.pipe for rank in left], [], [], 0.02)
        for rank in left:
            if rank.pipe in ready:
                rank.read()
        now, doing = time.monotonic(), {activity(rank.pid) for rank in left}
        switches = [voluntary_switches(rank.pid) for rank in left]
        joined = all(rank.joined.exists() for rank in ranks)  # joining is not the answer's doing, and may take its time
        if ready or "work" in doing or switches != before or not joined:
            quiet_since, idle, before = now, 0, switches
        idle += doing == {"nothing"}
        spent = max(cpu_seconds(rank.pid, now - begun) for rank in left)
        if now - quiet_since > QUIET and idle >= MIN_IDLE:
            break
        asleep = min(seconds_asleep(rank.pid, now - begun) for rank in left)
        if spent > MAX_CPU_SECONDS or asleep > MAX_SLEEP_SECONDS or now - begun > MAX_WALL_FACTOR * MAX_CPU_SECONDS:
            for rank in left:
                rank.is_slow = True
            break


# In the rank


def _run_rank(
    function: Callable[[], Any], number: int, world_size: int, listener: socket.socket, pipe: int, scratch: Path
) -> None:
    """Join the process group, run the function, report, and wait to be killed."""
    printed = io.StringIO()
    _prepare(scratch / f"trace{number}")
    report: dict[str, Any]
    try:
        _store = _join_process_group(number, world_size, listener)  # of rank 0: it serves as long as this is kept
        (scratch / f"joined{number}").touch()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            report = Outcome(RETURNED, plain(function())).as_dict()
    except Unattempted as stub:
        report = {"unattempted": stub.name}
    except BaseException as error:
        report = Outcome(RAISED, error=raised(error)).as_dict()
    if "ended" in report:
        report["printed"] = printed.getvalue()[:20_000]
    data = codec.pack(report)
    left = memoryview(len(data).to_bytes(LENGTH, "big") + data)
    while left:
        left = left[os.write(pipe, left) :]
    while True:
        signal.pause()


def _prepare(trace: Path) -> None:
    """Give this process streams, signals, threads and random state of its own."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    for which in (signal.SIGALRM, signal.SIGPROF, signal.SIGINT):
        signal.signal(which, signal.SIG_DFL)
    faulthandler.register(signal.SIGUSR1, trace.open("w"), all_threads=False)
    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED % 2**32)
    torch.default_generator.manual_seed(SEED)
    warnings.simplefilter("ignore")


def _backend(world_size: int) -> str:
    """Return the backend: gloo, and nccl for tensors on GPUs where this machine has one for each of several ranks.

    Only ranks may ask: a process that has initialised CUDA cannot fork others that use it.
    """
    return GPU_BACKEND if torch.cuda.device_count() >= max(2, world_size) else "gloo"


def _join_process_group(number: int, world_size: int, listener: socket.socket) -> TCPStore:
    """Join a process group, with the environment that torchrun would give; return the store by which ranks meet.

    Rank 0 serves it on a port that was opened before the ranks were forked. A FileStore would need locks on files, and
    the grader's sandbox has none.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    os.environ["RES_OPTIONS"] = "attempts:0"  # torch asks for the name of 127.0.0.1; name servers may take seconds
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number)}
    os.environ |= {"WORLD_SIZE": str(world_size), "LOCAL_WORLD_SIZE": str(world_size)}
    host, port = listener.getsockname()
    timeout = timedelta(seconds=10 * MAX_CPU_SECONDS)
    serving = listener.detach() if number == 0 else None
    store = TCPStore(
        host, port, world_size, is_master=number == 0, timeout=timeout, wait_for_workers=False,
        master_listen_fd=serving,
    )  # fmt: skip
    dist.init_process_group(_backend(world_size), store=store, rank=number, world_size=world_size, timeout=timeout)
    return store
