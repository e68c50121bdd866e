"""Inside the sandbox: load once, then fork for each submission, and fork that again for each probe.

Nothing secret is ever in these processes: no reference, no known mistake, no wanted observation; hidden inputs come one
by one. The supervisor forks, kills and tidies up; the runner executes the learner's cells; on the CPU a prober, forked
from it, runs the probes, and another one goes on where one has ended. A template, outside, forks supervisors that go
into sandboxes which bubblewrap has made, so that loading is done once for all of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # in the sandbox this folder is all there is of `autograde`
    import joining  # type: ignore[import-not-found]
    import landlock  # type: ignore[import-not-found]
    import memory  # type: ignore[import-not-found]
    import needed  # type: ignore[import-not-found]
    import pages  # type: ignore[import-not-found]
    import seccomp  # type: ignore[import-not-found]
else:
    from autograde.inside import joining, landlock, memory, needed, pages, seccomp

LENGTH = struct.Struct("<Q")
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
BEGINS, STAYS, LEAVES = b"b", b"s", b"l"  # what a prober says of an exercise: twice, and whether it goes on
OUT_OF_TIME = 124  # the exit status of a prober that ran out of time
MOST_WAITING = 1 << 15
"""Bytes of replies after which they are sent, though others that go with them will come."""
MOST_PROBED, MOST_KEPT = 60.0, 256 << 20
# CPU seconds and bytes after which a prober gets no further exercise, since a new one has all its limits before it: so
# much that no honest notebook's verdict hangs on how fast the machine is


def framed(data: bytes) -> bytes:
    """A message as it is sent: its length, and itself."""
    return LENGTH.pack(len(data)) + data


def unframed(data: bytes) -> Iterator[bytes]:
    """The messages that were sent as one."""
    begin = 0
    while begin < len(data):
        (length,) = LENGTH.unpack_from(data, begin)
        yield data[begin + LENGTH.size : begin + LENGTH.size + length]
        begin += LENGTH.size + length


def send(sock: socket.socket, data: bytes) -> None:
    sock.sendall(framed(data))


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


# --- the template: loads once, and forks supervisors into sandboxes -----------------------------------------------


def be_template(line: socket.socket) -> None:
    """Fork a supervisor for each order that comes, until whoever orders is gone; then wait for those forked to end."""
    joining.close_all_but(line.fileno())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so nobody has to reap them
    _protect_from_children()  # and their parents having ended, they are this one's
    here = json.loads(line.recv(1 << 16))  # no folder that others of this machine may write to
    outside = {name: os.environ[name] for name in here}
    os.environ.update(here)
    try:
        shell = load()
        order = line.recv(1 << 16)
        if not order:
            return
        load_more(json.loads(order)["modules"])
    finally:
        shutil.rmtree(here["HOME"], ignore_errors=True)
    os.environ.update(outside)
    while True:
        data, fds, _, _ = socket.recv_fds(line, 1 << 16, 1)
        if not data:
            break
        if os.fork() == 0:
            line.close()
            _go_inside(socket.socket(fileno=fds[0]), shell, json.loads(data))
        os.close(fds[0])
    line.close()
    with contextlib.suppress(ChildProcessError):
        os.wait()


def _go_inside(control: socket.socket, shell: Any, order: dict[str, Any]) -> None:
    """Go into a sandbox, and be its supervisor there. Does not come back."""
    try:
        if _is_inside(control, shell, order):
            supervise(control, shell, order["told"])
    finally:
        os._exit(0)


def _is_inside(control: socket.socket, shell: Any, order: dict[str, Any]) -> bool:
    """Join a sandbox: true in the process that is in it then, false in the one outside, and where it failed."""
    try:
        joining.join(order["pid"], order["group"])
        if os.fork():  # only a child is in the namespace of processes
            return False
        joining.settle(control.fileno())
        joining.give_up_privileges(order["uid"])
        _forget_folders(shell)
    except BaseException as error:
        with contextlib.suppress(OSError):
            said = {"failed": f"{type(error).__name__}: {error}"[:500], "for good": joining.is_for_good(error)}
            send(control, json.dumps(said).encode())
        return False
    return True


def _forget_folders(shell: Any) -> None:
    """Have what took note of a folder outside take note of those in here."""
    tempfile.tempdir = None
    shell.ipython_dir = os.environ["IPYTHONDIR"]
    shell.init_profile_dir(None)


# --- the supervisor: forks, kills, tidies up ----------------------------------------------------------------------


def supervise(control: socket.socket, shell: Any, told: dict[str, Any]) -> None:
    _protect_from_children()
    watch = memory.Watch(told["memory_bytes"])
    send(control, json.dumps({"layers": layers(told)}).encode())
    child = 0
    while True:
        child = _report_end(control, child)
        if child and watch.is_exceeded(_others(told)):
            send(control, b'{"ended": "memory"}')  # first, so that it is there when the grader wonders
            end_everyone(told)
            child = 0
        if not select.select([control], [], [], 0.02 if child else None)[0]:
            continue
        data, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not data:
            return end_everyone(told)
        message = json.loads(data)
        if message["do"] == "start":
            child = _fork_runner(control, socket.socket(fileno=fds[0]), shell, message, told)
        elif message["do"] == "stop":
            end_everyone(told)
            child = 0
            send(control, json.dumps({"stopped": tidy(told)}).encode())


def _fork_runner(
    control: socket.socket, job: socket.socket, shell: Any, message: dict[str, Any], told: dict[str, Any]
) -> int:
    pid = os.fork()
    if pid:
        job.close()
        return pid
    try:
        control.close()
        run(job, shell, message, told)
    finally:
        os._exit(0)


def layers(told: dict[str, Any]) -> dict[str, bool]:
    """Which of the layers that are added inside hold here, tried in a child."""
    pid = os.fork()
    if pid == 0:
        held = 0
        with contextlib.suppress(BaseException):
            held = 1 * restrict(told) + 2 * seccomp.refuse()
        os._exit(held)
    held = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"Landlock": held in (1, 3), "system calls": held in (2, 3)}


def _report_end(control: socket.socket, child: int) -> int:
    if not child:
        return 0
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        send(control, json.dumps({"ended": os.waitstatus_to_exitcode(status)}).encode())
        return 0
    return child


def _protect_from_children() -> None:
    """Children have our uid: without this one could trace us. And whoever loses his parent becomes ours."""
    with contextlib.suppress(AttributeError):  # only Linux has it
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_everyone(told: dict[str, Any]) -> None:
    """Kill all processes that learners' code started, until none is left: in a namespace, all but its init and us."""
    if told["namespaces"] and Path("/proc/1/comm").read_text().strip() not in ("bwrap", "holder"):
        sys.exit("not in a sandbox of ours: nothing is killed")
    for _ in range(1000):
        others = _others(told)
        if told["namespaces"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        for pid in [] if told["namespaces"] else others:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not any(_lives(pid) for pid in others):
            return
        time.sleep(0.005)
    sys.exit("processes that cannot be killed")


def _others(told: dict[str, Any]) -> list[int]:
    """Processes of learners: with namespaces, all but init and us; else our descendants."""
    if told["namespaces"]:
        return [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
    parents = _parents()
    found, level = [], {os.getpid()}
    while level := {pid for pid, parent in parents.items() if parent in level and pid != parent}:
        found += sorted(level)
    return found


def _parents() -> dict[int, int]:
    """Each process of this machine with its parent."""
    if sys.platform == "linux":
        return {int(p): memory.parent(int(p)) for p in os.listdir("/proc") if p.isdigit()}
    listed = subprocess.run(["/bin/ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
    return {int(pid): int(parent) for pid, parent in (line.split() for line in listed.splitlines())}


def _lives(pid: int) -> bool:
    if sys.platform != "linux":
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            return True
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def tidy(told: dict[str, Any]) -> bool:
    """Empty the scratch folders, but for what is mounted there (a checkout may lie in /tmp), and make the folders
    themselves as they were, since whose they are may lock or mark them; whether that worked."""
    mode = 0o1777 if told["namespaces"] else 0o700
    mounted = frozenset(told["mounted"])
    emptied = [_restore(folder, mode) and _empty(Path(folder), mounted) for folder in told["scratch"]]
    return all(emptied)  # each of them, also where one fails


def _restore(folder: str, mode: int) -> bool:
    """Give a scratch folder that is ours the rights, marks and times of a new one; whether that worked."""
    if os.stat(folder).st_uid != os.getuid():
        return True
    try:
        os.chmod(folder, mode)
        for mark in os.listxattr(folder) if sys.platform == "linux" else ():
            if mark.startswith(("user.", "system.posix_acl_")):
                os.removexattr(folder, mark)
        os.utime(folder, (0, 0))
    except OSError:
        return False
    return True


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
    with contextlib.suppress(OSError, RecursionError):  # what is left makes an end of this worker
        if entry.is_dir(follow_symlinks=False):
            _open_up(entry.path)
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _open_up(folder: str) -> None:
    """Make every folder in `folder` one that may be entered and emptied."""
    pending = [folder]
    while pending:
        here = pending.pop()
        os.chmod(here, 0o700)
        with os.scandir(here) as entries:
            pending += [e.path for e in entries if e.is_dir(follow_symlinks=False)]


# --- the runner: the learner's cells ------------------------------------------------------------------------------


def load() -> Any:
    """Import what all lessons use, and make the shell that runs cells; no multi-threaded operation before the forks."""
    os.environ["TORCHCOURSE_SIMULATED"] = "off"
    gc.disable()  # until everything is loaded: else it is all looked at again and again
    import torch
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    torch.set_num_threads(1)
    import numpy.random  # noqa: F401 - what is watched of random state loads it
    import torch._subclasses.fake_tensor
    import torch.distributed.tensor  # so do `assert_close` and the first operation on a simulated device
    import torch.testing
    import torch.utils._device

    import torchcourse
    from torchcourse import checking, exercise, probing, simulated, watching  # noqa: F401
    from torchcourse.demos import style  # noqa: F401

    for lesson in exercise.LESSONS:
        exercise.exercises(lesson)
    watching.warm()
    simulated.prepare()
    config = Config()
    config.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=config)
    shell.showtraceback = _nothing  # nobody reads it here, and formatting one is slow
    shell.enable_gui = _nothing  # %matplotlib asks for it
    shell._tee = lambda channel: contextlib.nullcontext()  # else it keeps all that is printed, in memory
    shell.display_pub.publish = _nothing  # and all that is displayed
    with capture_output():
        shell.run_cell("import torch\ntorch.ones(2) + 1", store_history=False)
    shell.user_ns.pop("torch", None)
    setattr(torchcourse, "check", _nothing)  # noqa: B010 - what a notebook shows, nobody sees here
    setattr(torchcourse, "hint", _nothing)  # noqa: B010
    return shell


def load_more(modules: list[str]) -> None:
    """Import what these lessons use beyond that, and make ready to be forked from."""
    from torchcourse.exercise import preload

    preload(modules)
    gc.freeze()  # else a collection in a fork would write to every object, and so copy all pages that it shares
    gc.enable()
    pages.collapse()


def _nothing(*args: object, **kwargs: object) -> None:
    """In place of `check` and `hint`."""


def confine(limits: dict[str, int], told: dict[str, Any]) -> None:
    """Every limit and layer that holds from now on for what learners wrote."""
    with contextlib.suppress(AttributeError, OSError):  # only Linux has these
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        Path("/proc/self/oom_score_adj").write_text("1000")  # where memory runs out it is ours that is taken
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    nowhere = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    work = Path(told["home"]) / "work"
    work.mkdir(exist_ok=True)
    os.chdir(work)
    os.environ["HOME"] = str(work)
    restrict(told)
    seccomp.refuse()


def restrict(told: dict[str, Any]) -> bool:
    """Landlock: the system and the course read-only, scratch folders writable, nothing else; whether it is there."""
    return bool(landlock.restrict([*told["mounted"], "/proc"], told["writable"], told["devices"], tcp=told["tcp"]))


def run(job: socket.socket, shell: Any, message: dict[str, Any], told: dict[str, Any]) -> None:
    from torchcourse import codec

    os.setsid()
    confine(message["limits"], told)
    _settle_pool()
    lane = _lane(message["lane"])
    if lane.name == "cpu":
        _settle_autograd()
    skip = set(message["skip"])
    told_cells = codec.unpack(receive(job))
    if told_cells["shown"]:
        unneeded = _unneeded(told_cells, message["cell_seconds"], message["patience"])
        send(job, codec.pack({"unneeded": unneeded}))
        skip.update(unneeded)
    for number, source in enumerate(told_cells["cells"]):
        state = "skipped" if number in skip else _run_cell(shell, source, message["cell_seconds"], message["patience"])
        send(job, codec.pack({"cell": number, "state": state}))
    probers: list[_Prober] = []
    while True:
        request = codec.unpack(receive(job))
        if request["do"] == "end":
            return
        if request["do"] == "cases":  # for a prober that has ended meanwhile
            receive(job)
            continue
        if lane.name == "cpu":
            send(job, codec.pack({"ended": _by_prober(job, shell, request, lane, probers)}))
        else:
            _probe(job, shell, request, lane)
            send(job, codec.pack({"ended": "done"}))


def _unneeded(told: dict[str, Any], seconds: float, patience: float) -> list[int]:
    """The places of examples that no cell needs; none where it cannot be found out in time."""
    shown = [known and needed.Example.unpacked(known) for known in told["shown"]]
    found: list[int] = []
    with contextlib.suppress(BaseException), limited(seconds, patience):
        found = needed.unneeded(list(zip(told["cells"], shown, strict=True)))
    return found


def _settle_pool() -> None:
    """Have torch replace the pool of threads that did not come along into this process, while there is one thread.

    Whichever thread asks for it first after a fork replaces it, and another that asks meanwhile finds none and ends the
    process: autograd's threads, one for each device, begin by asking at once.
    """
    import torch

    torch.set_num_threads(torch.get_num_threads())


def _settle_autograd() -> None:
    """Run a first backward, so that autograd starts no thread for a device: none may be there when probers are forked.

    It counts devices at the first backward; once a fake tensor has been made, as torch.compile does, it takes CUDA for
    one, whether there is a GPU or not.
    """
    import torch

    torch.ones(1, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]


def _lane(name: str) -> Any:
    from torchcourse import lanes

    return lanes.CPU if name == "cpu" else lanes.accelerator_lane("simulated" if name == "simulated" else "")


@contextlib.contextmanager
def limited(seconds: float, patience: float) -> Iterator[None]:
    """Raise TimeIsUpError in this block after `seconds` of CPU time or `patience` times as many of wall time."""
    from torchcourse.checking import AGAIN, TimeIsUpError

    def ring(*args: object) -> None:
        raise TimeIsUpError

    signal.signal(signal.SIGPROF, ring)  # each time: what runs here may have set others
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    signal.setitimer(signal.ITIMER_REAL, patience * seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _run_cell(shell: Any, source: str, seconds: float, patience: float) -> str:
    from torchcourse.checking import TimeIsUpError

    try:
        with limited(seconds, patience):
            result = shell.run_cell(source, store_history=False)
    except TimeIsUpError:
        return "timeout"
    except BaseException as error:
        return type(error).__name__
    raised = result.error_in_exec or result.error_before_exec
    return "timeout" if isinstance(raised, TimeIsUpError) else type(raised).__name__ if raised else "done"


# --- the prober: exercises, their cases one by one ----------------------------------------------------------------


class _Prober:
    """A fork of the runner that probes exercises, one after another, until it ends or is ended."""

    def __init__(self, job: socket.socket, shell: Any, lane: Any, others: list[_Prober]) -> None:
        self.line, theirs = socket.socketpair()
        self.status: int | None = None
        self.pid = os.fork()
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)  # in both processes, whoever is first: what it starts ends with it
        if self.pid == 0:
            try:
                for line in (self.line, *(other.line for other in others)):
                    line.close()
                _settle_pool()
                _serve(theirs, job, shell, lane)
            finally:
                os._exit(0)
        theirs.close()

    def probe(self, request: dict[str, Any]) -> tuple[str, bool]:
        """Have it probe one exercise: how that ended ("" where it did not begin), and whether it goes on."""
        from torchcourse import codec

        deadline = time.monotonic() + request["patience"] * request["seconds"]
        most = self._spent() + request["seconds"] + 1  # it should have stopped by itself
        with contextlib.suppress(OSError):  # it has ended: there is nothing to read then
            send(self.line, codec.pack(request))
        began = False
        while True:
            while not select.select([self.line], [], [], 0.02)[0] and not self.has_ended():
                if time.monotonic() > deadline or self._spent() > most:
                    self.end()
                    return "timeout", False
            word = self._word()
            if word != BEGINS or began:
                break
            began = True
        if word == STAYS and not request.get("last"):
            return "done", True
        how = self.end()
        return "done" if word == LEAVES else how if began else "", False

    def _word(self) -> bytes:
        with contextlib.suppress(OSError):
            return self.line.recv(1, socket.MSG_DONTWAIT)
        return b""

    def _spent(self) -> float:
        """Its CPU seconds, which only Linux tells of another process; elsewhere wall time has to do."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                return time.clock_gettime((~self.pid << 3) | 2)  # the clock of a process: clock_getcpuclockid(3)
        return 0.0

    def has_ended(self) -> bool:
        if self.status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if done else None
        return self.status is not None

    def end(self) -> str:
        """End it, if it does not end by itself at once, and what it started; how it ended."""
        for _ in range(100):
            if self.has_ended():
                break
            time.sleep(0.001)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)  # it may have left its group
            self.status = os.waitpid(self.pid, 0)[1]
        self.line.close()
        code = os.waitstatus_to_exitcode(self.status)
        return {0: "done", OUT_OF_TIME: "timeout", -signal.SIGXCPU: "timeout"}.get(code, f"exit {code}")


def _by_prober(job: socket.socket, shell: Any, request: dict[str, Any], lane: Any, kept: list[_Prober]) -> str:
    """How probing one exercise ended.

    One prober, which is `kept`, probes exercise after exercise: a fork costs more than most of them. So an answer meets
    what others left, as it does in a notebook and on the other lane. What loads compilers gets a prober of its own.
    """
    from torchcourse.exercise import find

    apart = bool(find(request["exercise"])[1].imports)
    while True:
        fresh = apart or not kept
        prober = _Prober(job, shell, lane, kept) if fresh else kept.pop()
        how, stays = prober.probe({**request, "last": apart})
        if stays:
            kept.append(prober)
        if how or fresh:  # else one that was kept has ended since, of what an earlier exercise left
            return how or "exit"


def _serve(line: socket.socket, job: socket.socket, shell: Any, lane: Any) -> None:
    """Probe what the runner asks for: until the last, or until much time was used or something was left behind."""
    from torchcourse import codec

    own = memory.private(os.getpid())
    while True:
        request = codec.unpack(receive(line))
        line.sendall(BEGINS)
        _probe(job, shell, request, lane)
        spent = time.process_time() > MOST_PROBED or memory.private(os.getpid()) - own > MOST_KEPT
        stays = not (request.get("last") or spent or _accompanied())
        line.sendall(STAYS if stays else LEAVES)
        if not stays:
            return


def _accompanied() -> bool:
    """Whether this process has children, other threads than one, or a timer that is set."""
    if sys.platform == "linux" and len(os.listdir("/proc/self/task")) > 1:
        return True
    if any(signal.getitimer(which)[0] for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)):
        return True
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # one that has ended is reaped: this process leaves in any case
        return True
    return False


def _probe(job: socket.socket, shell: Any, request: dict[str, Any], lane: Any) -> None:
    """Answer cases, some at a time, until told that there are no more. Only the learner's code can raise here.

    The replies to those that came together go together: whoever waits for one wakes up for each.
    """
    from torchcourse import codec
    from torchcourse.exercise import find

    name = request["exercise"]
    _, exercise = find(name)
    answer = shell.user_ns.get(name)
    ready = "unbound" if answer is None else "callable" if callable(answer) else type(answer).__name__
    send(job, codec.pack({"answer": ready}))
    began, over = time.process_time(), False
    while codec.unpack(receive(job))["do"] == "cases":
        replies = bytearray()
        for case in unframed(receive(job)):
            left = max(0.1, request["seconds"] - (time.process_time() - began))
            reply = None if over else _reply(exercise, answer, case, lane, left, request)
            if reply is None:
                if lane.name == "cpu":
                    job.sendall(replies)
                    os._exit(OUT_OF_TIME)  # a prober that is out of time is gone, and its runner says so
                over = True  # nothing is left for the others of these
                reply = codec.pack({"ended": "timeout"})
            replies += framed(reply)
            if len(replies) > MOST_WAITING:
                job.sendall(replies)
                replies.clear()
        job.sendall(replies)


def _reply(
    exercise: Any, answer: Any, case: bytes, lane: Any, seconds: float, request: dict[str, Any]
) -> bytes | None:
    """What an answer does in one case, packed as the case is; None where it took more than `seconds`."""
    from torchcourse import codec
    from torchcourse.checking import TimeIsUpError
    from torchcourse.exercise import Case, Unattempted
    from torchcourse.observations import Raised
    from torchcourse.probing import observe

    inputs = codec.unpack(case, trusted=True)
    try:
        with limited(seconds, request["patience"]):
            seen = observe(exercise, answer, Case("", inputs), lane, alone=True)
        reply = codec.pack({"seen": seen})
    except Unattempted:
        return codec.pack({"unattempted": True})
    except TimeIsUpError:
        return None
    except TypeError as error:  # an observation of a kind that is not carried
        return codec.pack({"seen": {"raised": Raised("TypeError", str(error)[:200])}})
    if codec.weight(reply) > request["most_bytes"]:
        return codec.pack({"seen": {"raised": Raised("OutputTooLarge", f"{len(reply)} bytes")}})
    return reply


def main(descriptor: str, told: str = "") -> None:
    """Be a template, or, if told more, the supervisor of a sandbox that this process was started in."""
    line = socket.socket(fileno=int(descriptor))
    if not told:
        return be_template(line)
    shell = load()
    load_more(json.loads(told)["modules"])
    return supervise(line, shell, json.loads(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
