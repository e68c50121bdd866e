"""Compile C++ that registers an operator, and call it in a process of its own, which it may crash."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import torch

from torchcourse.doctor import REMEDIES
from torchcourse.model import codec, own_code
from torchcourse.model.exercise import Unattempted
from torchcourse.model.observations import Observations, Raised, plain, raised
from torchcourse.ranks.descendants import adopt_orphans, kill_children

__all__ = [
    "COMPILER_SAYS",
    "CompilerError",
    "MissingToolsError",
    "compiled",
    "in_a_process",
    "missing_tools",
]

NAME = "rms_norm"
CPU_SECONDS, WALL_SECONDS, MEMORY_KB = 30, 90, 2 << 20
"""What the compiler may take: torch's large headers need about 15 seconds and 1 GB."""
COMPILER_SAYS = "the compiler says"
"""What precedes the compiler's own lines in an observation."""
CALL_SECONDS = 10.0
GRACE_SECONDS = 4.0
"""Wall seconds in which the process that watches over a call ends what the call left."""
LEFT_PROCESSES = "the call left processes running, which were ended"
GAVE_UP = re.compile(
    r"CPU time limit|signal terminated|^(\S*: )?(out of memory allocating|virtual memory exhausted)", re.MULTILINE
)
"""How g++ says that a limit on its time or memory ended it. Which of the two comes first depends on the machine."""
INCLUDES = own_code.TORCH / "include"
LIBRARIES = own_code.TORCH / "lib"


class MissingToolsError(Unattempted):
    """An exercise cannot be attempted here, because a tool is missing; the message says which, and how to get it."""

    lacks_tools = True

    def __init__(self, tools: list[str]) -> None:
        super().__init__()
        remedies = "; ".join(f"{tool}: {REMEDIES[tool]}" for tool in tools)
        self.args = (f"Building C++ needs {' and '.join(tools)}, missing on this machine. To install: {remedies}.",)


class CompilerError(Exception):
    """The compiler refused a source, or did not finish; the message is what it wrote."""


def missing_tools(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the tools in `REMEDIES` that are not on the PATH of these environment variables.

    The probe runs the compiler directly, so that its messages arrive unchanged; `load_inline` runs it through ninja.
    """
    found = {"g++": environment.get("CXX", "g++"), "ninja": "ninja"}
    return [tool for tool, command in found.items() if shutil.which(command, path=environment.get("PATH")) is None]


def compiled(source: str) -> Path:
    """Return the library that a source compiles to. What was compiled before is not compiled again.

    Raises:
        MissingToolsError: where there is no compiler.
        CompilerError: where it does not compile, in the compiler's own words.
    """
    if missing := missing_tools():
        raise MissingToolsError(missing)
    command = _command()
    key = hashlib.sha256("\0".join([source, torch.__version__, *command]).encode("utf-8", "replace")).hexdigest()
    if key in FAILED:
        raise CompilerError(FAILED[key])
    folder = _cache() / key[:32]
    library = folder / f"{NAME}.so"
    if not library.exists():
        try:
            _compile(source, command, library)
        except CompilerError as error:
            FAILED[key] = str(error)
            raise
    return library


FAILED: dict[str, str] = {}
"""What the compiler wrote about sources that it refused in this process, by key."""


def _cache() -> Path:
    """Return a folder that nobody else may write to."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "torchcourse" / "cpp"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="torchcourse-cpp-"))
    return folder


def _command() -> list[str]:
    """Return the compiler's command; its files come last."""
    includes = [f"-I{INCLUDES}", f"-I{INCLUDES / 'torch/csrc/api/include'}"]
    options = ["-std=c++20", "-O1", "-shared", "-fPIC", "-w", "-fdiagnostics-color=never"]
    libraries = [f"-L{LIBRARIES}", "-ltorch_cpu", "-lc10"]
    return [os.environ.get("CXX", "g++"), *options, *includes, "-o", f"{NAME}.so", f"{NAME}.cpp", *libraries]


def _compile(source: str, command: list[str], library: Path) -> None:
    """Compile in a folder of its own, within limits, and move the result to its place.

    Raises:
        CompilerError: where it does not compile.
    """
    with tempfile.TemporaryDirectory(prefix="torchcourse-cpp-") as scratch:
        (Path(scratch) / f"{NAME}.cpp").write_text(source, encoding="utf-8", errors="replace")
        status, wrote = _run_limited(command, scratch)
        made = Path(scratch) / library.name
        if status or not made.exists():
            raise CompilerError(wrote)
        library.parent.mkdir(parents=True, exist_ok=True)
        waiting = library.with_suffix(f".{os.getpid()}")
        shutil.copyfile(made, waiting)
        waiting.replace(library)


def _run_limited(command: list[str], folder: str) -> tuple[int, str]:
    """Run a compiler with limits on its time and memory; return its status and what it wrote, or why it was ended."""
    limits = f'ulimit -t {CPU_SECONDS}; ulimit -v {MEMORY_KB} 2>/dev/null; exec "$@"'
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": folder}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["sh", "-c", limits, "sh", *command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(WALL_SECONDS)
        except subprocess.TimeoutExpired:
            status = -signal.SIGXCPU
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        wrote = output.read(codec.MAX_OUTPUT_LENGTH).decode("utf-8", "replace").replace(f"{folder}/", "")
    if status in (-signal.SIGXCPU, -signal.SIGKILL) or GAVE_UP.search(wrote):
        return status, f"the compiler needed more than {CPU_SECONDS} seconds or 2 GB, and was ended"
    return status, wrote.strip() or "the compiler wrote no message"


def in_a_process(call: Callable[[], Observations], seconds: float = CALL_SECONDS) -> Observations:
    """Return what `call` observes in a fork of this process, or how the fork ended without an answer.

    The fork may crash, load libraries and register operators without leaving a trace here. It cannot run a backward.
    Processes that it leaves behind are killed and reported as the observation.
    """
    with tempfile.TemporaryFile() as reply:
        keeper = os.fork()
        if keeper == 0:
            _write_and_exit(lambda: _call_in_fork(call, seconds), reply.fileno())
        status = _wait(keeper, seconds + GRACE_SECONDS)
        reply.seek(0)
        data = reply.read(1 << 24)
    return _observed(status, data, "", seconds)


def _call_in_fork(call: Callable[[], Observations], seconds: float) -> Observations:
    """Make the call in a fork of this process, which adopts all processes that the fork leaves behind."""
    adopt_orphans()
    with tempfile.TemporaryFile() as reply, tempfile.TemporaryFile() as stderr:
        pid = os.fork()
        if pid == 0:
            for stream in (1, 2):
                os.dup2(stderr.fileno(), stream)
            _write_and_exit(call, reply.fileno())
        status = _wait(pid, seconds)
        if kill_children(GRACE_SECONDS / 2) and status == 0:
            return {"raised": Raised("Crash", LEFT_PROCESSES, "left processes")}
        reply.seek(0)
        data = reply.read(1 << 24)
        stderr.seek(0)
        wrote = stderr.read(1 << 16).decode("utf-8", "replace")
    return _observed(status, data, wrote, seconds)


def _observed(status: int | None, data: bytes, wrote: str, seconds: float) -> Observations:
    """Return what a process observed, given its exit status, its packed reply and its stderr, or how it ended."""
    if status is None:
        return {"raised": Raised("Timeout", f"the call did not end within {seconds:g} seconds", "did not end")}
    if status == 0 and data:
        seen: Observations = codec.unpack(data)
        return seen
    return {"raised": Raised("Crash", _ending(status, wrote), "crashed")}


def _write_and_exit(call: Callable[[], Observations], reply: int) -> NoReturn:
    """Make the call and write what it observed, in a process that ends with it."""
    status = 1
    try:
        os.setpgid(0, 0)
        faulthandler.disable()
        torch.set_num_threads(1)  # the threads of the process that was forked are not here
        try:
            seen = plain(call())
        except Exception as error:
            seen = {"raised": raised(error)}
        with os.fdopen(reply, "wb", closefd=False) as file:
            file.write(codec.pack(seen))
        status = 0
    finally:
        os._exit(status)


def _wait(pid: int, seconds: float) -> int | None:
    """Wait for a process, and end it with its group; return its exit status, or None if it took too long."""
    deadline = time.monotonic() + seconds
    status: int | None = None
    try:
        while status is None and time.monotonic() < deadline:
            done, raw = os.waitpid(pid, os.WNOHANG)
            status = os.waitstatus_to_exitcode(raw) if done else None
            if status is None:
                select.select([], [], [], 0.002)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return status


def _ending(status: int, wrote: str) -> str:
    """Say how a process ended, with the exception that C++ reports, if any."""
    how = f"the process ended with {signal.Signals(-status).name}" if status < 0 else f"the process exited ({status})"
    lines = [line.strip().removeprefix("what():").strip() for line in wrote.splitlines() if "what():" in line]
    return f"{how}: {lines[0][:300]}" if lines else how
