"""The launcher: a clean process that forks ranks for a process which cannot.

A process that has run a backward with a second device registered, real or simulated, has threads of autograd's, and its
forks refuse every further backward. So a notebook's kernel has one launcher, started once and ended with the kernel,
which has everything imported that ranks need and never runs anything itself.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

import cloudpickle

from torchcourse.model import codec
from torchcourse.model.catalogue import preload
from torchcourse.model.exercise import Unattempted
from torchcourse.ranks.descendants import adopt_orphans, die_with, kill_children
from torchcourse.ranks.processes import LENGTH, Outcome, fork_ranks

__all__ = ["MODULES", "Launcher", "serve"]

MODULES = (
    "torch._dynamo", "torch.nn.parallel.distributed", "torch.distributed.fsdp", "torch.distributed.tensor",
    "torch.distributed.checkpoint.state_dict", "torch.distributed.nn.functional", "torch.utils.serialization.config",
)  # fmt: skip
"""What ranks import, and should not have to import each time."""
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONMALLOC": "malloc"}
"""Environment variables for Python to allocate through glibc in huge pages, so that a fork takes a third less time."""
OURS = ("torchcourse.", "autograde.")
SECONDS_TO_END = 1.0
"""How long processes that ranks left behind may take to end when they are killed."""


class Launcher:
    """A launcher as the process that needs it sees it."""

    def __init__(self) -> None:
        paths = [path for path in sys.path if path]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "torchcourse.ranks.launcher"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env=environment | HUGE_PAGES | {"TORCHCOURSE_SIMULATED": "off", "MPLBACKEND": "agg"},
        )  # fmt: skip
        self.lock = threading.Lock()
        atexit.register(self.end)

    def run(self, function: Callable[[], Any], world_size: int) -> list[Outcome]:
        """Run a function on ranks, as `fork_ranks` does. If that is interrupted, the launcher ends with its ranks.

        Raises:
            Unattempted: if a rank raised it.
            RuntimeError: if the launcher ended.
        """
        request = cloudpickle.dumps((cloudpickle.dumps(function), _modules(function), world_size))
        assert self.process.stdin and self.process.stdout
        with self.lock:
            try:
                _write(self.process.stdin, request)
                reply = codec.unpack(_read(self.process.stdout))
            except (EOFError, OSError) as error:
                self.end()
                raise RuntimeError("The process that starts ranks has ended.") from error
            except BaseException:
                self.end()
                raise
        if "unattempted" in reply:
            raise Unattempted(reply["unattempted"])
        return [Outcome(**outcome) for outcome in reply["outcomes"]]

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return self.process.poll() is None

    def end(self) -> None:
        """Kill it; its ranks end with it."""
        atexit.unregister(self.end)
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()


def _modules(function: Callable[[], Any]) -> list[str]:
    """Return the modules of ours that `function` and what it is given come from: each rank would import them."""
    parts = (function.func, *function.args) if isinstance(function, functools.partial) else (function,)
    names = {getattr(part, "__module__", None) for part in parts}
    return [name for name in names if isinstance(name, str) and name.startswith(OURS)]


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Fork ranks for each request until there are no more."""
    preload((*MODULES, "torchcourse.probes.on_ranks"))
    adopt_orphans()
    while True:
        try:
            packed, modules, world_size = pickle.loads(_read(requests))
        except EOFError:
            return
        preload(modules)
        reply: dict[str, Any]
        try:
            outcomes = fork_ranks(lambda packed=packed: pickle.loads(packed)(), world_size)  # type: ignore[misc]
            reply = {"outcomes": [outcome.as_dict() for outcome in outcomes]}
        except Unattempted as stub:
            reply = {"unattempted": stub.name}
        kill_children(SECONDS_TO_END)  # what ranks left, in whatever session
        _write(replies, codec.pack(reply))


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(LENGTH, "big") + data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    header = stream.read(LENGTH)
    data = stream.read(int.from_bytes(header, "big")) if len(header) == LENGTH else b""
    if not data:
        raise EOFError
    return data


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the kernel
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed here goes nowhere
    die_with(os.getppid())
    serve(sys.stdin.buffer, channel)
