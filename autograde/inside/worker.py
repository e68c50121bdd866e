"""Inside the sandbox: load once, then fork for each submission, and fork that again for each probe.

Nothing secret is ever in these processes: no reference, no known mistake, no wanted observation; hidden inputs come one
by one. The supervisor forks, kills and tidies up; the runner executes the learner's cells; on the CPU a prober, forked
for each exercise, runs the probe.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import math
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("<Q")
PR_SET_DUMPABLE = 4
SCRATCH = ("/tmp", "/dev/shm")
OUT_OF_TIME = 124  # the exit status of a prober that ran out of time
PATIENCE = 3
"""Seconds of wall time that may pass for each of CPU time: a busy machine is not the learner's fault."""


def send(sock: socket.socket, data: bytes) -> None:
    sock.sendall(LENGTH.pack(len(data)) + data)


def receive(sock: socket.socket) -> bytes:
    (length,) = LENGTH.unpack(_exactly(sock, LENGTH.size))
    return _exactly(sock, length)


def _exactly(sock: socket.socket, count: int) -> bytes:
    pieces, missing = [], count
    while missing:
        piece = sock.recv(min(missing, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


# --- the supervisor: forks, kills, tidies up ----------------------------------------------------------------------


def supervise(control: socket.socket, modules: list[str], mounted: frozenset[str]) -> None:
    shell = load(modules)
    _protect_from_children()
    send(control, b'{"ready": true}')
    child = 0
    while True:
        child = _report_end(control, child)
        if not select.select([control], [], [], 0.02 if child else None)[0]:
            continue
        data, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not data:
            return
        message = json.loads(data)
        if message["do"] == "start":
            child = _fork_runner(control, socket.socket(fileno=fds[0]), shell, message)
        elif message["do"] == "stop":
            end_everyone()
            child = 0
            send(control, json.dumps({"stopped": tidy(mounted)}).encode())


def _fork_runner(control: socket.socket, job: socket.socket, shell: Any, message: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        job.close()
        return pid
    try:
        control.close()
        run(job, shell, message)
    finally:
        os._exit(0)


def _report_end(control: socket.socket, child: int) -> int:
    if not child:
        return 0
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        send(control, json.dumps({"ended": os.waitstatus_to_exitcode(status)}).encode())
        return 0
    return child


def _protect_from_children() -> None:
    """Children have our uid: without this one could trace us."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def end_everyone() -> None:
    """Kill all processes of this PID namespace but its init and ourselves, until none is left."""
    if Path("/proc/1/comm").read_text().strip() != "bwrap":
        sys.exit("not in a sandbox of ours: nothing is killed")
    for _ in range(1000):
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
        if not any(_lives(pid) for pid in others):
            return
        time.sleep(0.005)
    sys.exit("processes that cannot be killed")


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def tidy(mounted: frozenset[str]) -> bool:
    """Empty the scratch folders, but for what is mounted there (a checkout may lie in /tmp); whether that worked."""
    emptied = [_empty(Path(folder), mounted) for folder in SCRATCH]  # each of them, also where one fails
    return all(emptied)


def _empty(folder: Path, mounted: frozenset[str]) -> bool:
    left = False
    for entry in list(os.scandir(folder)):
        inside = any(path.startswith(f"{entry.path}/") for path in mounted)
        if entry.path in mounted:
            continue
        if inside and not entry.is_symlink():
            left |= not _empty(Path(entry.path), mounted)
        else:
            _remove(entry)
            left |= os.path.lexists(entry.path)
    return not left


def _remove(entry: os.DirEntry[str]) -> None:
    def force(function: Any, path: str, error: Any) -> None:
        os.chmod(Path(path).parent, 0o700)
        os.chmod(path, 0o700)
        function(path)

    with contextlib.suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, onerror=force)
        else:
            os.unlink(entry.path)


# --- the runner: the learner's cells ------------------------------------------------------------------------------


def load(modules: list[str]) -> Any:
    """Import what lessons use, and `modules`, and make the shell that runs cells; no multi-threaded operation before
    the forks."""
    os.environ["TORCHCOURSE_SIMULATED"] = "off"
    import torch
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    torch.set_num_threads(1)
    import torch._dynamo.eval_frame
    import torch._subclasses.fake_tensor
    import torch.testing

    import torchcourse
    from torchcourse import exercise, probing, simulated, watching  # noqa: F401
    from torchcourse.demos import style  # noqa: F401

    for lesson in exercise.LESSONS:
        exercise.exercises(lesson)
    watching.warm()
    for module in modules:
        importlib.import_module(module)
    config = Config()
    config.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=config)
    shell.showtraceback = _nothing  # nobody reads it here, and formatting one is slow
    shell.enable_gui = _nothing  # %matplotlib asks for it
    with capture_output():
        shell.run_cell("import torch\ntorch.ones(2) + 1", store_history=False)
        torch.testing.assert_close(torch.ones(2), torch.ones(2))
    shell.user_ns.pop("torch", None)
    setattr(torchcourse, "check", _nothing)  # noqa: B010 - what a notebook shows, nobody sees here
    setattr(torchcourse, "hint", _nothing)  # noqa: B010
    return shell


def _nothing(*args: object, **kwargs: object) -> None:
    """In place of `check` and `hint`."""


def confine(limits: dict[str, int]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    nowhere = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    work = Path("/tmp/work")
    work.mkdir(exist_ok=True)
    os.chdir(work)
    os.environ["HOME"] = str(work)


def run(job: socket.socket, shell: Any, message: dict[str, Any]) -> None:
    from torchcourse import codec

    os.setsid()
    confine(message["limits"])
    lane = _lane(message["lane"])
    skip = set(message["skip"])
    for number, source in enumerate(codec.unpack(receive(job))):
        state = "skipped" if number in skip else _run_cell(shell, source, message["cell_seconds"])
        send(job, codec.pack({"cell": number, "state": state}))
    while True:
        request = codec.unpack(receive(job))
        if request["do"] == "end":
            return
        if lane.name == "cpu":
            _fork_prober(job, shell, request, lane)
        else:
            _probe(job, shell, request, lane)


def _lane(name: str) -> Any:
    from torchcourse import lanes

    return lanes.CPU if name == "cpu" else lanes.accelerator_lane("simulated" if name == "simulated" else "")


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeIsUpError in this block after `seconds` of CPU time or `PATIENCE` times as many of wall time."""
    from torchcourse.checking import TimeIsUpError, time_limit

    def ring(*args: object) -> None:
        raise TimeIsUpError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.2)
    try:
        with time_limit(PATIENCE * seconds, patience=1):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _run_cell(shell: Any, source: str, seconds: float) -> str:
    from torchcourse.checking import TimeIsUpError

    try:
        with limited(seconds):
            result = shell.run_cell(source, store_history=False)
    except TimeIsUpError:
        return "timeout"
    except BaseException as error:
        return type(error).__name__
    raised = result.error_in_exec or result.error_before_exec
    return "timeout" if isinstance(raised, TimeIsUpError) else type(raised).__name__ if raised else "done"


# --- the prober: one exercise, its cases one by one ---------------------------------------------------------------


def _fork_prober(job: socket.socket, shell: Any, request: dict[str, Any], lane: Any) -> None:
    from torchcourse import codec

    pid = os.fork()
    if pid == 0:
        try:
            most = math.ceil(request["seconds"])
            resource.setrlimit(resource.RLIMIT_CPU, (most + 1, most + 2))
            _probe(job, shell, request, lane)
        finally:
            os._exit(0)
    deadline = time.monotonic() + PATIENCE * request["seconds"]
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            send(job, codec.pack({"ended": "timeout"}))
            return
        time.sleep(0.0005)
    code = os.waitstatus_to_exitcode(status)
    ended = {0: "done", OUT_OF_TIME: "timeout", -signal.SIGXCPU: "timeout"}.get(code, f"exit {code}")
    send(job, codec.pack({"ended": ended}))


def _probe(job: socket.socket, shell: Any, request: dict[str, Any], lane: Any) -> None:
    """Answer cases until told that there are no more. Only the learner's code can raise here."""
    from torchcourse import codec
    from torchcourse.checking import TimeIsUpError
    from torchcourse.exercise import Case, Unattempted, find
    from torchcourse.observations import Raised
    from torchcourse.probing import observe

    name = request["exercise"]
    _, exercise = find(name)
    answer = shell.user_ns.get(name)
    ready = "unbound" if answer is None else "callable" if callable(answer) else type(answer).__name__
    send(job, codec.pack({"answer": ready}))
    while True:
        message = codec.unpack(receive(job), trusted=True)
        if message["do"] != "case":
            break
        try:
            with limited(request["seconds"]):
                seen = observe(exercise, answer, Case("", message["inputs"]), lane)
            reply = codec.pack({"seen": seen})
        except Unattempted:
            reply = codec.pack({"unattempted": True})
        except TimeIsUpError:
            if lane.name == "cpu":
                os._exit(OUT_OF_TIME)  # a prober that is out of time is gone, and its runner says so
            reply = codec.pack({"ended": "timeout"})
        except TypeError as error:  # an observation of a kind that is not carried
            reply = codec.pack({"seen": {"raised": Raised("TypeError", str(error)[:200])}})
        if len(reply) > request["most_bytes"]:
            reply = codec.pack({"seen": {"raised": Raised("OutputTooLarge", f"{len(reply)} bytes")}})
        send(job, reply)
    if lane.name != "cpu":
        send(job, codec.pack({"ended": "done"}))


if __name__ == "__main__":
    descriptor, names, *paths = sys.argv[1:]
    supervise(socket.socket(fileno=int(descriptor)), names.split(",") if names else [], frozenset(paths))
